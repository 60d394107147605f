package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/beam"
	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// adviceScenarios try what people are advised for the night of a failover. docs/advice.md tells how they ended.
var adviceScenarios = []*scenario{
	loweredHeartbeat, defaultHeartbeat, optionsAndProbes, doublesRemoved, uniqueKey,
}

// inventedOptions are recommended and do not exist.
var inventedOptions = []string{"taskmanager.task.timeout", "taskmanager.job.gc.enabled", "taskmanager.job.gc.interval"}

// adviceOptions are these and some that exist, which show that looking for their names finds them.
var adviceOptions = slices.Concat(inventedOptions, []string{
	"heartbeat.interval", "heartbeat.timeout", "jobmanager.execution.failover-strategy", "task.cancellation.timeout",
})

// probe is the liveness probe that docs/advice.md recommends. It fails only if the exporter says that this TaskManager is to be restarted.
const probe = `! curl -sf -m 9 "$EXPORTER/metrics" | grep -q "^flink_lineage_taskmanager_restart_advised{.*tm_id=\"$TM_ID\".*} 1"`

// loweredHeartbeat and defaultHeartbeat let a TaskManager pause whose tasks ignore cancellation.
var (
	loweredHeartbeat = &scenario{
		name: "lowered-heartbeat", about: "heartbeat.timeout 5 s; a TaskManager pauses until its tasks run elsewhere",
		options: with(highlyAvailable("--mode", "zombie"), map[string]string{
			"heartbeat.interval": "1000", "heartbeat.timeout": "5000", "task.cancellation.timeout": "0",
		}),
		play: frozen.play,
	}
	defaultHeartbeat = &scenario{
		name: "default-heartbeat", about: "heartbeat.timeout and ZooKeeper's session as they are by default, 50 s and 60 s; a TaskManager pauses for 10 s",
		options: with(highlyAvailable("--mode", "zombie"), map[string]string{
			"heartbeat.interval": "10000", "heartbeat.timeout": "50000", "task.cancellation.timeout": "0",
			"high-availability.zookeeper.client.session-timeout": "60000",
		}),
		play: pauseUnnoticed,
	}
)

func pauseUnnoticed(p *stage) error {
	if err := p.begin(); err != nil {
		return err
	}
	tm, err := p.busiest(time.Now().Add(-5 * time.Second))
	if err != nil {
		return err
	}
	if err := tm.Freeze(); err != nil {
		return err
	}
	if err := p.pause(10 * time.Second); err != nil {
		return err
	}
	thawed := time.Now()
	if err := tm.Thaw(); err != nil {
		return err
	}
	if err := p.pause(15 * time.Second); err != nil {
		return err
	}
	if _, err := p.await("the verdict ok at attempt 0", time.Now(), func(s *sample) bool {
		n, told := s.Sum("task_attempt")
		return told && n == 0 && s.Verdict("") == "ok"
	}); err != nil {
		return err
	}
	doubles, err := lab.CountDoubles(thawed, p.cluster.Sinks()...)
	if err != nil {
		return err
	}
	p.result.note("%s", doubles)
	return p.noAlarm()
}

// optionsAndProbes has the options that do not exist, failover-strategy region, and both kinds of probe.
var optionsAndProbes = &scenario{
	name: "options-and-probes",
	about: "failover-strategy region and the options that do not exist are set; the leader is killed, tasks ignore cancellation; both kinds of " +
		"probe are tried on every TaskManager",
	options: with(zombies.options, map[string]string{
		"jobmanager.execution.failover-strategy": "region",
		"taskmanager.task.timeout":               "30000", "taskmanager.job.gc.enabled": "true", "taskmanager.job.gc.interval": "60000",
	}),
	play: func(p *stage) error {
		if err := p.options(); err != nil {
			return err
		}
		if err := p.begin(); err != nil {
			return err
		}
		_, at, err := p.failover()
		if err != nil {
			return err
		}
		doubled, tm, err := p.doubledOn(at)
		if err != nil {
			return err
		}
		if err := p.sayDuplicate(doubled, tm, "stale_execution_graph", "reporter", "threads"); err != nil {
			return err
		}
		if err := p.restartedTasks(at); err != nil {
			return err
		}
		if err := p.pause(time.Until(doubled.Add(40 * time.Second))); err != nil {
			return err
		}
		late := time.Now().Add(-5 * time.Second)
		doubles, err := lab.CountDoubles(late, p.cluster.Sinks()...)
		if err != nil {
			return err
		}
		if len(doubles.Duplicated()) == 0 {
			return fmt.Errorf("the double work ended by itself: %s", doubles)
		}
		p.result.fact("Later", fmt.Sprintf("%.0f", late.Sub(doubled).Seconds()))
		p.result.fact("LaterDoubles", fmt.Sprintf("%d of 2 subtasks", len(doubles.Duplicated())))
		if err := p.probes(tm); err != nil {
			return err
		}
		return p.restart(doubled, tm)
	},
}

// options states how many classes of the distribution have the name of an option in them, and that Flink takes any without a word.
func (p *stage) options() error {
	distribution, err := lab.Fetch(p.ctx, p.cluster.Version())
	if err != nil {
		return err
	}
	found, err := classesWith(distribution, adviceOptions)
	if err != nil {
		return err
	}
	p.result.fact("Classes", found)
	var taken []struct{ Key, Value string }
	if err := p.cluster.Get(p.ctx, "/jobmanager/config", &taken); err != nil {
		return err
	}
	listed := 0
	for _, option := range taken {
		if n, ours := found[option.Key]; ours && n == 0 {
			listed++
		}
	}
	warnings := 0
	for _, jm := range p.cluster.JobManagers() {
		n, err := warningsOf(jm.Log(), inventedOptions)
		if err != nil {
			return err
		}
		warnings += n
	}
	p.result.fact("Listed", listed)
	p.result.fact("Warnings", warnings)
	return nil
}

// classesWith counts the class files below a distribution's lib that hold each text.
func classesWith(distribution string, texts []string) (map[string]int, error) {
	jars, err := filepath.Glob(filepath.Join(distribution, "lib", "*.jar"))
	if err != nil || len(jars) == 0 {
		return nil, fmt.Errorf("no jars in %s: %w", distribution, err)
	}
	found := map[string]int{}
	for _, text := range texts {
		found[text] = 0
	}
	for _, jar := range jars {
		if err := eachClass(jar, func(class []byte) {
			for _, text := range texts {
				if bytes.Contains(class, []byte(text)) {
					found[text]++
				}
			}
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func eachClass(jar string, do func(class []byte)) error {
	r, err := zip.OpenReader(jar)
	if err != nil {
		return fmt.Errorf("%s: %w", jar, err)
	}
	defer func() { _ = r.Close() }()
	for _, entry := range r.File {
		if !strings.HasPrefix(entry.Name, "org/apache/flink/") || !strings.HasSuffix(entry.Name, ".class") {
			continue
		}
		class, err := entry.Open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(class)
		if err := errors.Join(err, class.Close()); err != nil {
			return fmt.Errorf("%s: %s: %w", jar, entry.Name, err)
		}
		do(text)
	}
	return nil
}

// warningsOf counts the lines of a log that warn of one of the options.
func warningsOf(log string, options []string) (int, error) {
	text, err := os.ReadFile(log) // #nosec G304 -- of the lab's cluster
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		for _, option := range options {
			if strings.Contains(line, option) && (strings.Contains(line, " WARN ") || strings.Contains(line, " ERROR ")) {
				n++
			}
		}
	}
	return n, nil
}

// restartedTasks states how many subtasks began after the leader was killed.
func (p *stage) restartedTasks(at time.Time) error {
	job, err := p.cluster.OnlyJob(p.ctx)
	if err != nil {
		return err
	}
	subtasks, err := p.cluster.Subtasks(p.ctx, job.ID)
	if err != nil {
		return err
	}
	all, restarted := len(subtasks), 0
	for _, s := range subtasks {
		if s.StartTime > at.UnixMilli() {
			restarted++
		}
	}
	if restarted < all || all == 0 {
		return fmt.Errorf("%d of %d subtasks began after the leader was killed", restarted, all)
	}
	p.result.fact("Restarted", fmt.Sprintf("%d of %d", restarted, all))
	return nil
}

// probes tries a TCP connection to every TaskManager's RPC port and the probe that asks the exporter, with and without an exporter.
func (p *stage) probes(sick *lab.TaskManager) error {
	var rows []probed
	for _, tm := range p.cluster.TaskManagers() {
		id, err := tm.ID(p.ctx)
		if err != nil {
			return err
		}
		row := probed{Sick: tm == sick, Exporter: p.probe(p.exporter.URL(), id), NoExporter: p.probe("http://127.0.0.1:1", id)}
		// The id of a TaskManager begins with host and port of its RPC service.
		port, _, _ := strings.Cut(id[strings.LastIndex(id, ":")+1:], "-")
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), 5*time.Second)
		row.TCP = err == nil
		if err == nil {
			_ = conn.Close()
		}
		if !row.TCP || row.Exporter == row.Sick || !row.NoExporter {
			return fmt.Errorf("TaskManager %s, to be restarted: %t; probes succeed: TCP %t, exporter %t, without an exporter %t", id, row.Sick,
				row.TCP, row.Exporter, row.NoExporter)
		}
		rows = append(rows, row)
	}
	p.result.fact("Probes", rows)
	return nil
}

// probed is what the probes say of one TaskManager: true for alive.
type probed struct {
	Sick                      bool
	TCP, Exporter, NoExporter bool
}

func (p *stage) probe(exporter, tm string) bool {
	cmd := exec.CommandContext(p.ctx, "sh", "-c", probe)
	cmd.Env = append(os.Environ(), "EXPORTER="+exporter, "TM_ID="+tm)
	return cmd.Run() == nil
}

// doublesRemoved repairs a table with the statements of the runbook.
var doublesRemoved = &scenario{
	name:  "doubles-removed",
	about: "Beam 2.56 with commitOffsetsInFinalize, leader killed, every record written twice; the TaskManager is restarted and the runbook's SQL repairs the table",
	beam:  func(string) beam.Options { return beam.Options{} },
	play: func(p *stage) error {
		if err := p.doubleRead(2); err != nil {
			return err
		}
		if err := p.restartAll(); err != nil {
			return err
		}
		if err := p.stopProducing(); err != nil {
			return err
		}
		if err := p.drained(); err != nil {
			return err
		}
		return p.repair()
	},
}

// uniqueKey has a table that takes each record once.
var uniqueKey = &scenario{
	name:  "unique-key",
	about: "the same with a unique key and ON CONFLICT DO NOTHING: one row a record, though each is still read twice, which the exporter says",
	beam:  func(string) beam.Options { return beam.Options{UniqueKey: true} },
	play: func(p *stage) error {
		if err := p.doubleRead(1); err != nil {
			return err
		}
		ratio, err := p.wantRatio("after the failover", 2)
		if err != nil {
			return err
		}
		p.result.fact("KeyRatio", ratio)
		return p.restartAll()
	},
}

// doubleRead kills the leader, waits for the verdict, and counts the rows of what is produced then.
func (p *stage) doubleRead(want float64) error {
	if err := p.beginBeam(); err != nil {
		return err
	}
	if err := p.beam.Failover(p.ctx); err != nil {
		return err
	}
	if err := p.readTwice(time.Now()); err != nil {
		return err
	}
	rows, err := p.wantRows("after the failover", want)
	if err != nil {
		return err
	}
	p.result.fact(fmt.Sprintf("Rows%.0f", want), rows)
	return nil
}

// drained waits until nothing is written any more.
func (p *stage) drained() error {
	last := ""
	return p.cluster.Wait(p.ctx, "nothing is written any more", func(ctx context.Context) (bool, error) {
		n, err := p.beam.Query(ctx, "select count(*) from rows")
		if err != nil || n == last {
			return err == nil, err
		}
		last = n
		return false, p.pause(3 * time.Second)
	})
}

// repair runs the statements of alerts/runbook/repair-data.md as they are there.
func (p *stage) repair() error {
	text, err := os.ReadFile("alerts/runbook/repair-data.md")
	if err != nil {
		return fmt.Errorf("%w: run this at the top of the repository", err)
	}
	var remove, key string
	for _, block := range codeBlocks(string(text)) {
		switch {
		case strings.Contains(block, "DELETE FROM orders"):
			remove = block
		case strings.Contains(block, "CREATE UNIQUE INDEX"):
			key = block
		}
	}
	if remove == "" || key == "" {
		return errors.New("alerts/runbook/repair-data.md has no statement that deletes, or none that makes a unique key")
	}
	// The runbook's table is called orders, has the key id and the time written_at.
	if _, err := p.beam.Query(p.ctx, "alter table rows rename to orders; alter table orders rename written to written_at"); err != nil {
		return err
	}
	before, err := p.count()
	if err != nil {
		return err
	}
	for _, statement := range []string{strings.NewReplacer(":begin", "'-infinity'", ":end", "'infinity'").Replace(remove), key} {
		if _, err := p.beam.Query(p.ctx, statement); err != nil {
			return err
		}
	}
	after, err := p.count()
	if err != nil {
		return err
	}
	saved, err := p.beam.Query(p.ctx, "select count(*) from orders_doubles")
	if err != nil {
		return err
	}
	if before[0] <= before[1] || after[0] != after[1] || after[1] != before[1] || saved != strconv.Itoa(before[0]-after[0]) {
		return fmt.Errorf("rows and records %v became %v, %s rows kept as doubles", before, after, saved)
	}
	p.result.fact("RowsBefore", before[0])
	p.result.fact("Records", before[1])
	p.result.fact("RowsAfter", after[0])
	p.result.note("%d rows of %d records became %d rows", before[0], before[1], after[0])
	return nil
}

// count is the number of rows, and of records.
func (p *stage) count() (n [2]int, err error) {
	text, err := p.beam.Query(p.ctx, "select count(*), count(distinct id) from orders")
	if err != nil {
		return n, err
	}
	if _, err := fmt.Sscanf(text, "%d|%d", &n[0], &n[1]); err != nil {
		return n, fmt.Errorf("count: %q: %w", text, err)
	}
	return n, nil
}

// codeBlocks are the indented blocks of a Markdown text.
func codeBlocks(text string) []string {
	var blocks []string
	var block strings.Builder
	for line := range strings.Lines(text + "\n\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			block.WriteString(code)
		} else if block.Len() > 0 {
			blocks = append(blocks, block.String())
			block.Reset()
		}
	}
	return blocks
}
