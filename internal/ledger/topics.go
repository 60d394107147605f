package ledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// needsNames is whether only a list of all topics can tell what the source reads.
func needsNames(o SourceObservation) bool {
	return len(o.Topics) == 0 && slices.ContainsFunc(o.Executions, func(e Execution) bool { return len(e.Partitions)+len(e.Topics) > 0 })
}

// resolve replaces the topics' labels in the source's partitions by names and completes Topics, or sets TopicsErr. names are all topics;
// where topics are configured, labels stand for one of them.
func (o *SourceObservation) resolve(names []string) {
	configured := len(o.Topics) > 0
	if configured {
		names = o.Topics
	}
	byLabel := map[string]string{}
	name := func(label string) error {
		if _, ok := byLabel[label]; ok {
			return nil
		}
		name, err := TopicOf(label, names)
		if err != nil && configured {
			err = fmt.Errorf("%w; configured are %s", err, quoted(o.Topics))
		}
		byLabel[label] = name
		return err
	}
	for i := range o.Executions {
		for _, label := range o.Executions[i].Topics {
			if o.TopicsErr = name(label); o.TopicsErr != nil {
				return
			}
		}
		// The snapshot's own partitions stay as they are.
		partitions := slices.Clone(o.Executions[i].Partitions)
		for j := range partitions {
			label := partitions[j].Topic
			if o.TopicsErr = name(label); o.TopicsErr != nil {
				return
			}
			partitions[j].Topic = byLabel[label]
		}
		o.Executions[i].Partitions = partitions
	}
	switch {
	case configured:
	case len(byLabel) == 0:
		o.TopicsErr = ErrTopicsUnknown
	default:
		o.Topics = slices.Sorted(maps.Values(byLabel))
		o.Topics = slices.Compact(o.Topics)
	}
}

// TopicOf returns the one name that a reporter's label for a topic can stand for. Flink's reporter replaces every character but
// [a-zA-Z0-9:_] unless told otherwise (metrics.reporter.prom.filterLabelValueCharacters), so that a-b, a.b and a_b look alike; which of
// them it is is never guessed, but an error.
func TopicOf(label string, names []string) (string, error) {
	if lineage.Sanitize(label) != label {
		if slices.Contains(names, label) {
			return label, nil // a reporter that replaces nothing
		}
		return "", fmt.Errorf("topic %q does not exist", label)
	}
	var candidates []string
	for _, name := range names {
		if lineage.Sanitize(name) == label && !slices.Contains(candidates, name) {
			candidates = append(candidates, name)
		}
	}
	slices.Sort(candidates)
	switch len(candidates) {
	case 0:
		return "", fmt.Errorf("no topic looks like %q in a reporter's label", label)
	case 1:
		return candidates[0], nil
	default:
		return "", fmt.Errorf("%q in a reporter's label may be any of %s: say which with --kafka.source", label, quoted(candidates))
	}
}
