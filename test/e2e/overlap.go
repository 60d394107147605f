package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/alerts"
	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// life is a piece of ordinary life that must page nobody.
type life struct {
	name string
	// play plays it once and returns the moment it began at. The whole job runs again when it returns.
	play func(context.Context, *ordinary) (time.Time, error)
}

// ordinary is a cluster that leads an ordinary life.
type ordinary struct {
	*cluster
	stack *stack
	relay *relay
}

// measured is what was measured of a piece of ordinary life.
type measured struct {
	flink, name     string
	rounds, scrapes int
	longestScrape   time.Duration
	// shortest and longest are the bounds of the gap between the writes of old and new executions.
	shortest, longest time.Duration
	// held is, for each alert, how long its expression was true without a break, in seconds.
	held map[string]int
}

// setting is a cluster with what is played on it.
type setting struct {
	options lab.Options
	// since is the first minor version of Flink 1 that has it.
	since int
	lives []life
}

var settings = []setting{
	{
		// No pause between the end of the old executions and the start of the new ones, which is when an overlap would be seen first.
		options: lab.Options{FlinkConf: map[string]string{"restart-strategy.fixed-delay.delay": "0 s"}},
		lives:   []life{{"leader killed", killLeader}, {"leader frozen, then thawed", freezeLeader}, {"task failed", failTask}},
	},
	{
		options: lab.Options{JobManagers: 1, FlinkConf: map[string]string{
			"jobmanager.scheduler": "adaptive", "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
			"jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "1 s",
		}},
		since: 18,
		lives: []life{{"job rescaled", rescale}},
	},
}

// measureOverlap plays each piece of ordinary life some rounds long on each version of Flink and prints, for each alert, how long its
// expression was true without a break.
func measureOverlap(ctx context.Context, dir string, versions []string, rounds int) error {
	text, err := committedRules()
	if err != nil {
		return err
	}
	rules, err := alerts.Parse(text)
	if err != nil {
		return err
	}
	var results []measured
	sent := 0
	for _, version := range versions {
		for i, set := range settings {
			if minor := 0; set.since > 0 {
				if _, err := fmt.Sscanf(version, "1.%d", &minor); err == nil && minor < set.since {
					continue
				}
			}
			set.options.Version = version
			found, n, err := measureSetting(ctx, filepath.Join(dir, fmt.Sprintf("%s-%d", version, i)), set, rules, rounds)
			results = append(results, found...)
			sent += n
			if err != nil {
				printMeasured(results, rules)
				return fmt.Errorf("flink %s: %w", version, err)
			}
		}
	}
	printMeasured(results, rules)
	fmt.Printf("\nMessages of Alertmanager meanwhile: %d.\n", sent)
	return nil
}

func measureSetting(ctx context.Context, dir string, set setting, rules []alerts.Rule, rounds int) (results []measured, sent int, err error) {
	c, err := startCluster(ctx, filepath.Join(dir, "flink"), set.options)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	r, err := newRelay()
	if err != nil {
		return nil, 0, err
	}
	s, err := start(ctx, dir, time.Second, target{instance: "ordinary", flags: c.ExporterFlags(), relay: r})
	defer func() { err = errors.Join(err, r.close(), s.stop()) }()
	if err != nil {
		return nil, 0, err
	}
	o := &ordinary{cluster: c, stack: s, relay: r}
	if err := o.settle(ctx); err != nil {
		return nil, 0, err
	}
	for _, l := range set.lives {
		m, err := o.measure(ctx, l, rules, rounds)
		if err != nil {
			return results, 0, fmt.Errorf("%s: %w", l.name, err)
		}
		results = append(results, m)
	}
	return results, len(s.receiver.all()), nil
}

func (o *ordinary) measure(ctx context.Context, l life, rules []alerts.Rule, rounds int) (measured, error) {
	m := measured{flink: o.Version(), name: l.name, rounds: rounds, shortest: math.MaxInt64, longest: math.MinInt64, held: map[string]int{}}
	o.relay.count()
	// The next full second: Prometheus may have nothing of this one yet.
	begin := time.Now().Add(time.Second)
	for i := range rounds {
		at, err := l.play(ctx, o)
		if err != nil {
			return m, err
		}
		h, err := o.takenOver(ctx, at)
		if err != nil {
			return m, err
		}
		if err := o.settle(ctx); err != nil {
			return m, err
		}
		m.shortest, m.longest = min(m.shortest, h.gap()), max(m.longest, h.gap())
		say("Flink %s, %s, round %d: %.1f s from the last write of an old execution to the first of a new one", m.flink, l.name, i+1, h.gap().Seconds())
	}
	end := time.Now()
	m.scrapes, m.longestScrape = o.relay.count()
	for _, rule := range rules {
		found, err := o.stack.prometheus.between(ctx, rule.Expr, begin, end, time.Second)
		if err != nil {
			return m, err
		}
		m.held[rule.Alert] = longestRun(found)
	}
	return m, nil
}

// takenOver waits until every writing task that began after a moment has written.
func (o *ordinary) takenOver(ctx context.Context, at time.Time) (h handover, err error) {
	err = o.Wait(ctx, "every new execution to write", func(ctx context.Context) (bool, error) {
		job, err := o.OnlyJob(ctx)
		if err != nil {
			return false, err
		}
		vertices, err := o.Vertices(ctx, job.ID)
		if err != nil {
			return false, err
		}
		// The first vertex is the one that writes.
		h, err = o.handover(at)
		return h.begun >= vertices[0].Parallelism, err
	})
	return h, err
}

// longestRun is the largest number of consecutive seconds that any series has values for, of an answer in steps of a second.
func longestRun(found []series) int {
	longest := 0
	for _, s := range found {
		run, last := 0, 0.0
		for _, point := range s.Values {
			at, _ := point[0].(float64)
			if at != last+1 {
				run = 0
			}
			run, last = run+1, at
			longest = max(longest, run)
		}
	}
	return longest
}

// settle waits until Prometheus has a scrape that began from now on, in which every JobManager answers and all is well.
func (o *ordinary) settle(ctx context.Context) error {
	now := time.Now()
	var answered time.Time
	return o.stack.waitFor(ctx, "all is well again", func() (bool, error) {
		if o.relay.last().Before(now) {
			return false, nil
		}
		if answered.IsZero() {
			answered = time.Now()
		}
		return o.stack.prometheus.holds(ctx, fmt.Sprintf(`count(flink_lineage_job_verdict{verdict="ok"} == 1) == 1
and count(flink_lineage_jobmanager_up == 1) == %d and count(timestamp(flink_lineage_up) > %d.%03d) unless count(flink_lineage_orphan_executions)`,
			len(o.JobManagers()), answered.Unix(), answered.Nanosecond()/1e6))
	})
}

func killLeader(ctx context.Context, o *ordinary) (time.Time, error) {
	leader, at, err := o.FailOver(ctx, (*lab.JobManager).Kill)
	if err != nil {
		return at, err
	}
	return at, leader.Start()
}

func freezeLeader(ctx context.Context, o *ordinary) (time.Time, error) {
	leader, at, err := o.FailOver(ctx, (*lab.JobManager).Freeze)
	if err != nil {
		return at, err
	}
	return at, leader.Thaw()
}

func failTask(_ context.Context, o *ordinary) (time.Time, error) {
	tm, err := o.writer()
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	return at, tm.FailTask()
}

// rescale goes back and forth between one and two.
func rescale(ctx context.Context, o *ordinary) (time.Time, error) {
	job, err := o.OnlyJob(ctx)
	if err != nil {
		return time.Time{}, err
	}
	before, err := o.Vertices(ctx, job.ID)
	if err != nil {
		return time.Time{}, err
	}
	parallelism := 3 - before[0].Parallelism
	at := time.Now()
	if err := o.Rescale(ctx, job.ID, parallelism); err != nil {
		return at, err
	}
	return at, o.Wait(ctx, fmt.Sprintf("the job to run with parallelism %d", parallelism), func(ctx context.Context) (bool, error) {
		job, err := o.OnlyJob(ctx)
		if err != nil || !job.AllRunning() {
			return false, err
		}
		now, err := o.Vertices(ctx, job.ID)
		return err == nil && now[0].Parallelism == parallelism, err
	})
}

// printMeasured prints two tables in Markdown.
func printMeasured(results []measured, rules []alerts.Rule) {
	fmt.Print("\n| Flink | what | rounds | scrapes | longest scrape | last write of an old execution to first of a new one |\n|---|---|---|---|---|---|\n")
	for _, m := range results {
		fmt.Printf("| %s | %s | %d | %d | %.1f s | %.1f s to %.1f s |\n", m.flink, m.name, m.rounds, m.scrapes, m.longestScrape.Seconds(),
			m.shortest.Seconds(), m.longest.Seconds())
	}
	fmt.Print("\n| alert | severity | `for` |")
	for _, m := range results {
		fmt.Printf(" %s, %s |", m.flink, m.name)
	}
	fmt.Printf("\n|---|---|---|%s\n", strings.Repeat("---|", len(results)))
	var never []string
	for _, rule := range rules {
		name, severity := strings.TrimPrefix(rule.Alert, "FlinkLineage"), rule.Labels["severity"]
		// What only tells is meant to be true.
		if severity == "info" {
			continue
		}
		if severity != "critical" && !slices.ContainsFunc(results, func(m measured) bool { return m.held[rule.Alert] > 0 }) {
			never = append(never, name)
			continue
		}
		fmt.Printf("| %s | %s | %s |", name, severity, rule.For)
		for _, m := range results {
			fmt.Printf(" %d s |", m.held[rule.Alert])
		}
		fmt.Println()
	}
	fmt.Printf("\nWarnings whose expressions were never true: %s.\n", strings.Join(never, ", "))
}
