//go:build race

package lineage

// The race detector slows the simulator down tenfold, and the package has no concurrency of its own.
const slow = true
