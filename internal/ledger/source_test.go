package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

func TestTopicOf(t *testing.T) {
	tests := []struct {
		label string
		names []string
		want  string
		err   string
	}{
		{"orders", []string{"orders", "payments"}, "orders", ""},
		{"shop_orders", []string{"shop-orders", "orders"}, "shop-orders", ""},
		{"shop_orders", []string{"shop.orders"}, "shop.orders", ""},
		{"shop_orders", []string{"shop_orders"}, "shop_orders", ""},
		{"shop_orders", []string{"shop.orders", "shop-orders"}, "", `may be any of "shop-orders, shop.orders"`},
		{"shop_orders", []string{"shop_orders", "shop-orders"}, "", "may be any of"},
		{"shop_orders", []string{"shop-orders", "shop-orders"}, "shop-orders", ""},
		{"shop-orders", []string{"shop-orders", "shop.orders"}, "shop-orders", ""}, // a reporter that replaces nothing
		{"shop-orders", []string{"shop.orders", "shop_orders"}, "", "does not exist"},
		{"orders", nil, "", "no topic looks like"},
		{"", []string{"orders"}, "", "no topic looks like"},
	}
	for _, test := range tests {
		got, err := TopicOf(test.label, test.names)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("TopicOf(%q, %q) = %q, %v, want %q, %q", test.label, test.names, got, err, test.want, test.err)
		}
	}
}

// What is found is always one of the names, looks like the label, and is the only one that does.
func FuzzTopicOf(f *testing.F) {
	f.Add("a_b", "a.b a-b a_b")
	f.Add("a.b", "a.b c")
	f.Add("é", "é _")
	f.Fuzz(func(t *testing.T, label, text string) {
		names := strings.Fields(text)
		got, err := TopicOf(label, names)
		if err != nil {
			if got != "" {
				t.Errorf("%q with error %v", got, err)
			}
			return
		}
		if !slices.Contains(names, got) || got != label && lineage.Sanitize(got) != label {
			t.Errorf("%q for %q among %q", got, label, names)
		}
		for _, name := range names {
			if name != got && lineage.Sanitize(name) == label {
				t.Errorf("%q for %q, which may be %q", got, label, name)
			}
		}
	})
}

func reported(job, vertex, attempt string, subtask int, recordsIn float64, source *lineage.SourceProgress) lineage.ReportedExecution {
	return lineage.ReportedExecution{
		JobID: job, JobName: "ord_ers", VertexID: vertex, VertexName: "Source:_" + vertex, Subtask: subtask,
		AttemptID: lineage.AttemptID(attempt), RecordsIn: recordsIn, Source: source,
	}
}

func out(records float64, partitions ...lineage.PartitionProgress) *lineage.SourceProgress {
	return &lineage.SourceProgress{RecordsOut: records, Partitions: partitions}
}

func TestSources(t *testing.T) {
	s := &lineage.Snapshot{
		Leader: &lineage.LeaderView{Jobs: []lineage.Job{{ID: "j", Name: "ord-ers", StartTime: started, Vertices: []lineage.Vertex{
			{ID: "s", Name: "Source: s", Executions: []lineage.Execution{
				{Subtask: 0, State: lineage.Running}, {Subtask: 1, State: lineage.Running}, {Subtask: 2, State: lineage.Running},
				{Subtask: 3, State: lineage.Initializing}, {Subtask: 1, Attempt: 1, State: lineage.Finished},
			}},
			{ID: "idle", Name: "Source: idle"},
			{ID: "map", Name: "Map"},
		}}}},
		Reporters: []lineage.Reporter{
			{URL: "http://a", TaskManager: "a", Executions: []lineage.ReportedExecution{
				reported("j", "s", "s0", 0, 7, out(7, lineage.PartitionProgress{Topic: "x", Partition: 1, Offset: 3})),
				reported("j", "s", "s1", 1, 0, nil), // more subtasks than partitions: nothing to tell
				reported("j", "map", "m0", 0, 7, nil),
				reported("j", "idle", "i0", 0, 0, nil),
				reported("j", "map2", "n0", 0, 9, nil),
				reported("j", "map2", "n1", 1, 5, out(5)), // sends what it restored before it takes in anything
			}},
			{URL: "http://b", Err: errors.New("refused")},
			{URL: "http://c", TaskManager: "c", Executions: []lineage.ReportedExecution{
				reported("j", "s", "s0", 0, 5, out(5)), // the same attempt on another TaskManager
				reported("gone", "s", "x", 0, 1, out(1)),
			}},
			{URL: "http://a2", TaskManager: "a", Executions: []lineage.ReportedExecution{reported("j", "s", "s0", 0, 7, out(7))}},
		},
	}
	configured := []SourceConfig{
		{Job: "ord-ers", Vertex: "Source: idle", Topics: []string{"b", "a"}, Group: "g", ReadCommitted: true},
		{Job: "ord-ers", Vertex: "Source: idle", Topics: []string{"a"}},
		{Job: "ord-ers", Vertex: "Source:_s", Topics: []string{"wrong"}}, // not as the leader has it
	}
	got := Sources(s, configured)
	want := []SourceObservation{
		{
			JobID: "gone", JobName: "ord_ers", VertexID: "s", VertexName: "Source:_s", Unread: []string{"http://b"}, Topics: []string{"wrong"},
			Executions: []Execution{{ExecutionKey: ExecutionKey{"c", "x"}, Reporter: "http://c", RecordsOut: 1}},
		},
		{
			JobID: "j", JobName: "ord-ers", VertexID: "idle", VertexName: "Source: idle", JobStart: started, Led: true, Unread: []string{"http://b"},
			Topics: []string{"a", "b"}, Group: "g", ReadCommitted: true,
			Executions: []Execution{{ExecutionKey: ExecutionKey{"a", "i0"}, Reporter: "http://a"}},
		},
		{
			JobID: "j", JobName: "ord-ers", VertexID: "s", VertexName: "Source: s", JobStart: started, Led: true, Unread: []string{"http://b"}, Missing: 1,
			Executions: []Execution{
				{ExecutionKey: ExecutionKey{"a", "s0"}, Reporter: "http://a", RecordsOut: 7, Partitions: []lineage.PartitionProgress{{Topic: "x", Partition: 1, Offset: 3}}},
				{ExecutionKey: ExecutionKey{"a", "s1"}, Reporter: "http://a"},
				{ExecutionKey: ExecutionKey{"c", "s0"}, Reporter: "http://c", RecordsOut: 5},
			},
		},
	}
	if got, want := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Sources(&lineage.Snapshot{}, configured); len(got) != 0 {
		t.Errorf("sources of nothing: %+v", got)
	}
}

// producer is a Producer with fixed answers.
type producer struct {
	topics               map[string]TopicEnd
	topicsErr, groupsErr error
	listed               int
	asked                []string
}

func (p *producer) Topics(context.Context) ([]string, error) {
	p.listed++
	var names []string
	for name := range p.topics {
		names = append(names, name)
	}
	return names, p.topicsErr
}

func (p *producer) Produced(_ context.Context, topics []string) (map[string]TopicEnd, error) {
	p.asked = topics
	produced := map[string]TopicEnd{}
	var err error
	for _, topic := range topics {
		if end, ok := p.topics[topic]; ok {
			produced[topic] = end
		} else {
			err = errors.New(topic + " unknown")
		}
	}
	return produced, err
}

func (p *producer) Committed(context.Context, string, []string) (map[TopicPartition]int64, error) {
	return map[TopicPartition]int64{{"orders", 0}: 5, {"shop.orders", 0}: 6}, p.groupsErr
}

func observed(topics []string, labels ...string) SourceObservation {
	e := Execution{}
	for _, label := range labels {
		e.Partitions = append(e.Partitions, lineage.PartitionProgress{Topic: label})
	}
	return SourceObservation{Topics: topics, Executions: []Execution{e, {}}}
}

func TestFetch(t *testing.T) {
	p := &producer{topics: map[string]TopicEnd{"orders": {}, "shop.orders": {}, "a.b": {}, "a-b": {}, "spare": {}}}
	byLabel, configured, ambiguous, told := observed(nil, "shop_orders"), observed([]string{"orders"}), observed(nil, "a_b"), observed([]string{"a.b", "a.c"}, "a_b")
	silent, wrong, unknown := observed(nil), observed([]string{"orders"}, "shop_orders"), observed([]string{"nowhere"})
	configured.Group = "g"
	partitions := byLabel.Executions[0].Partitions
	sources := []SourceObservation{byLabel, configured, ambiguous, told, silent, wrong, unknown}
	produced, err := Fetch(t.Context(), p, sources)
	if err == nil || !strings.Contains(err.Error(), "nowhere unknown") || len(produced) != 3 {
		t.Errorf("%v, %v", produced, err)
	}
	if want := []string{"a.b", "a.c", "nowhere", "orders", "shop.orders"}; !slices.Equal(p.asked, want) {
		t.Errorf("asked for %q, want %q", p.asked, want)
	}
	for i, want := range [][]string{{"shop.orders"}, {"orders"}, nil, {"a.b", "a.c"}, nil, {"orders"}, {"nowhere"}} {
		if !slices.Equal(sources[i].Topics, want) {
			t.Errorf("source %d: topics %q, want %q", i, sources[i].Topics, want)
		}
	}
	for i, want := range []string{"", "", "may be any of", "", "does not name its topics", `configured are "orders"`, ""} {
		if err := sources[i].TopicsErr; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("source %d: %v, want %q", i, err, want)
		}
	}
	if got := sources[0].Executions[0].Partitions[0].Topic; got != "shop.orders" {
		t.Errorf("partition of %q", got)
	}
	if partitions[0].Topic != "shop_orders" {
		t.Error("changes the snapshot's partitions")
	}
	if got := sources[1].Committed; !reflect.DeepEqual(got, map[TopicPartition]int64{{"orders", 0}: 5}) || sources[0].Committed != nil {
		t.Errorf("committed %v", got)
	}
}

func TestFetchWhenPartsFail(t *testing.T) {
	failed := errors.New("broker down")
	p := &producer{topics: map[string]TopicEnd{"orders": {}}, topicsErr: failed, groupsErr: failed}
	sources := []SourceObservation{observed(nil, "orders"), observed([]string{"orders"})}
	sources[1].Group = "g"
	produced, err := Fetch(t.Context(), p, sources)
	if !errors.Is(err, failed) || len(produced) != 1 {
		t.Errorf("%v, %v", produced, err)
	}
	if !errors.Is(sources[0].TopicsErr, failed) || sources[1].TopicsErr != nil || sources[1].Committed != nil {
		t.Errorf("%+v", sources)
	}

	// Nothing is asked for that nothing needs.
	p = &producer{}
	if produced, err := Fetch(t.Context(), p, []SourceObservation{observed(nil)}); produced != nil || err != nil || p.listed != 0 || p.asked != nil {
		t.Errorf("%v, %v, %d lists", produced, err, p.listed)
	}
	p = &producer{topics: map[string]TopicEnd{"orders": {}}}
	if _, err := Fetch(t.Context(), p, []SourceObservation{observed([]string{"orders"}, "orders")}); err != nil || p.listed != 0 {
		t.Errorf("%v, %d lists", err, p.listed)
	}
}
