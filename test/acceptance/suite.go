package main

import (
	"maps"
	"slices"
	"strings"
)

// suite is scenarios that are played together and told of in one document.
type suite struct {
	name      string
	about     string
	scenarios []*scenario
	target    string // of the Makefile
	document  string
	title     string // of the document, after "Acceptance"
	write     func(path string, s *settings, results []*result) error
}

var suites = map[string]*suite{
	"flink": {
		name: "flink", about: "Flink alone", scenarios: flinkScenarios,
		target: "acceptance", document: "docs/acceptance.md", write: writeResults,
	},
	"beam": {
		name: "beam", about: "with Kafka, PostgreSQL and Beam", scenarios: beamScenarios,
		target: "beam-lab", document: "docs/acceptance-beam.md", title: " with Kafka and PostgreSQL", write: writeResults,
	},
	"advice": {
		name: "advice", about: "what is advised for the night of a failover, tried", scenarios: adviceScenarios,
		target: "advice", document: "docs/advice.md", write: writeAdvice,
	},
}

func suiteNames() []string { return slices.Sorted(maps.Keys(suites)) }

func suiteHelp() string {
	var parts []string
	for _, name := range suiteNames() {
		parts = append(parts, name+" ("+suites[name].about+")")
	}
	return strings.Join(parts, ", ")
}

func scenarioNames() string {
	var parts []string
	for _, name := range suiteNames() {
		var names []string
		for _, x := range suites[name].scenarios {
			names = append(names, x.name)
		}
		parts = append(parts, "In "+name+": "+strings.Join(names, ", ")+".")
	}
	return strings.Join(parts, " ")
}

// flag is what chooses the suite on the command line.
func (s *suite) flag() string {
	if s.name == "flink" {
		return ""
	}
	return " --suite " + s.name
}
