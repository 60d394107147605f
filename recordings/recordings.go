// Package recordings holds what real Flink clusters answered at one moment, one file a moment, named VERSION-SCENARIO.json.gz.
// Tests and the demo read them; package recording has the format.
package recordings

import "embed"

// FS holds every recording of this folder.
//
//go:embed *.json.gz
var FS embed.FS
