//go:build !race

package lineage

const slow = false
