package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

const (
	// replayedInterval is short, so that the times measured are those of the rules.
	replayedInterval = 3 * time.Second
	// settle is how long a moment is shown that is only passed through.
	settle = 12 * time.Second
)

// The moments of both histories. Each history is of one real cluster.
var (
	incident = []string{
		"1.17.2-night-1-healthy", "1.17.2-night-2-no-leader", "1.17.2-night-3-duplicate", "1.17.2-night-4-restarted",
	}
	cleanFailover = []string{"1.17.2-healthy", "1.17.2-leader-just-died", "1.17.2-clean-failover"}
)

// playReplayed plays both histories beside each other to one Prometheus.
func playReplayed(ctx context.Context, dir string, t *tally, panelsJSON, pictures string) (err error) {
	after, err := pageAfter()
	if err != nil {
		return err
	}
	sick, err := serve(incident)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sick.server.Close()) }()
	clean, err := serve(cleanFailover)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clean.server.Close()) }()

	s, err := start(ctx, dir, replayedInterval, target{instance: "incident", flags: sick.flags()}, target{instance: "clean", flags: clean.flags()})
	defer func() { err = errors.Join(err, s.stop()) }()
	if err != nil {
		return err
	}
	explain(replayedInterval)
	if err := s.waitFor(ctx, "both exporters are scraped and see a healthy job", func() (bool, error) {
		return s.prometheus.holds(ctx, `count(flink_lineage_job_verdict{verdict="ok"} == 1) == 2`)
	}); err != nil {
		return err
	}
	t.check("both exporters are scraped and see a healthy job", nil)
	// Both clusters lose their leader at a time.
	for i := 1; i <= 2; i++ {
		if err := errors.Join(lab.Sleep(ctx, settle), sick.show(i), clean.show(i)); err != nil {
			return err
		}
	}
	began := time.Now()
	page, err := s.receiver.wait(ctx, "page", duplicate, "firing", after+patience)
	if err != nil {
		return err
	}
	fmt.Printf("From the first duplicate to the page: %.1f s, of which the rule waits %s.\n", page.received.Sub(began).Seconds(), after)
	fmt.Printf("The page says: %s\n", page.Annotations["description"])
	want, err := s.replayedCulprit(ctx)
	if err != nil {
		return err
	}
	t.check("the page names the job and the TaskManager of the recording", checkPage(page, "incident", want))
	results, err := s.checkPanels(ctx)
	t.check("every panel's every query returns data during the incident, or is listed as empty", err)
	if panelsJSON != "" {
		if err := writeJSON(panelsJSON, results); err != nil {
			return err
		}
	}
	if pictures != "" {
		if err := draw(pictures, results); err != nil {
			return err
		}
	}

	restarted := time.Now()
	if err := sick.show(3); err != nil {
		return err
	}
	if err := s.waitResolved(ctx, t, restarted); err != nil {
		return err
	}
	t.check("the clean failover was counted, and told nobody", s.checkClean(ctx, "clean"))
	t.check("of the incident there was the one page", s.checkOnePage("incident"))
	return nil
}

// replayedCulprit is the truth of the recording: the only job, and the only TaskManager whose thread dump shows more tasks than it should have.
func (s *stack) replayedCulprit(ctx context.Context) (culprit, error) {
	jobs, err := s.prometheus.instant(ctx, `flink_lineage_job_state{instance="incident", state="RUNNING"} == 1`)
	if err != nil {
		return culprit{}, err
	}
	crowded, err := s.prometheus.instant(ctx, `sum by (tm_id) (flink_lineage_taskmanager_tasks{instance="incident", view="threads"})
> sum by (tm_id) (flink_lineage_taskmanager_tasks{instance="incident", view="jobmanager"})`)
	if err != nil {
		return culprit{}, err
	}
	if len(jobs) != 1 || len(crowded) != 1 {
		return culprit{}, fmt.Errorf("want one job and one TaskManager with more tasks than expected, have %v and %v", jobs, crowded)
	}
	return culprit{jobs[0].Metric["job_id"], jobs[0].Metric["job_name"], crowded[0].Metric["tm_id"]}, nil
}

// replayed is a recorded cluster with its history.
type replayed struct {
	name    string
	moments []*recording.Recording
	server  *recording.Server
}

func serve(names []string) (*replayed, error) {
	r := &replayed{name: strings.TrimSuffix(names[0], "-healthy")}
	for _, name := range names {
		rec, err := recording.Load(filepath.Join("recordings", name+".json.gz"))
		if err != nil {
			return nil, err
		}
		r.moments = append(r.moments, rec)
	}
	var err error
	r.server, err = recording.Serve(r.moments[0].Shift(time.Now()))
	return r, err
}

// flags make an exporter look at the cluster.
func (r *replayed) flags() []string {
	flags := []string{"--threads.interval=0s"}
	for _, u := range r.server.JobManagerURLs() {
		flags = append(flags, "--flink.url="+u)
	}
	for _, u := range r.server.ReporterURLs() {
		flags = append(flags, "--taskmanager.metrics-url="+u)
	}
	return flags
}

func (r *replayed) show(i int) error {
	say("%s: %s", r.name, r.moments[i].Scenario)
	return r.server.Show(r.moments[i].Shift(time.Now()))
}
