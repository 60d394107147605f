package beam

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// Options describe a Run. Zero values mean what the comments say.
type Options struct {
	Pipeline Pipeline
	Flink    string // a release or release line, "1.17.2"

	Topics      []string // each read by a source of its own, {"orders"}
	Partitions  int      // of each topic, 4
	Parallelism int      // 2

	TaskManagers int // 1
	Slots        int // of each TaskManager, the parallelism

	Pause   time.Duration // that writing one record takes longer than it has to
	Shuffle bool          // between source and sink (Beam)
	Bounded int           // Beam: adds Create, Impulse and a bounded sequence of so many values. KafkaSource: stop at the end offsets of the start.
	NoKafka bool          // Beam: none but the sources of Bounded

	UniqueKey bool // Beam: (part, off) is a unique key of the table, and the statement does nothing where it is there already

	HA   lab.HA // lab.ZooKeeper
	HDFS bool   // keep checkpoints and the storage of high availability in an HDFS of the run's own

	// Session starts a session cluster without a job; RunJob runs the pipeline there. Without it the cluster is one in application mode,
	// with two JobManagers, that runs the pipeline.
	Session bool

	FlinkConf map[string]string // for every Flink process, over what a Run sets itself
	Log       io.Writer         // what the driver does, a line each; nil for silence
}

func (o Options) withDefaults() (Options, error) {
	def := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	if o.Flink == "" {
		o.Flink = "1.17.2"
	}
	release, err := lab.Latest(o.Flink)
	o.Flink = release
	if len(o.Topics) == 0 {
		o.Topics = []string{"orders"}
	}
	def(&o.Partitions, 4)
	def(&o.Parallelism, 2)
	def(&o.TaskManagers, 1)
	def(&o.Slots, o.Parallelism)
	if o.HA == lab.None {
		o.HA = lab.ZooKeeper
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o, err
}

// Run is a pipeline at work.
type Run struct {
	Cluster *lab.Cluster

	options   Options
	dir       string
	broker    *broker
	postgres  *postgres
	hdfs      *HDFS
	ids       ids
	producers []*Producer
}

// Start starts broker, database, HDFS if asked for, and cluster, makes the topics and returns when every task of the pipeline runs, or, with
// Session, when the cluster leads. On an error nothing is left running. Stop ends it all.
func Start(ctx context.Context, o Options) (*Run, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Run{options: o}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the pipeline: %w", err), r.Stop())
	}
	return r, nil
}

func (r *Run) start(ctx context.Context) error {
	classpath, err := r.options.Pipeline.classpath(ctx, r.options.Flink)
	if err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp("", "flink-beam-"); err != nil {
		return err
	}
	if err := os.Chmod(r.dir, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	if r.postgres, err = startPostgres(ctx, r.dir); err != nil {
		return err
	}
	if r.options.UniqueKey {
		if _, err := r.postgres.query(ctx, "create unique index on rows (part, off)"); err != nil {
			return err
		}
	}
	if r.broker, err = startBroker(ctx, r.dir); err != nil {
		return err
	}
	for _, topic := range r.options.Topics {
		if err := r.broker.createTopic(ctx, topic, r.options.Partitions); err != nil {
			return err
		}
	}
	if r.options.HDFS {
		if r.hdfs, err = StartHDFS(ctx, r.dir); err != nil {
			return err
		}
	}
	if r.Cluster, err = lab.Start(ctx, r.cluster(classpath)); err != nil {
		return err
	}
	if r.options.Session {
		return nil
	}
	return r.Cluster.WaitRunning(ctx)
}

// cluster describes the Flink cluster: small, with the defaults of Flink 1.17 for what decides about a failover.
func (r *Run) cluster(classpath []string) lab.Options {
	o := r.options
	conf := map[string]string{
		"execution.attached":                     "true", // Beam refuses the detached submission of application mode
		"jobmanager.execution.failover-strategy": "full",
		"state.checkpoints.num-retained":         "3",
		// patience, for a machine so busy that a JobManager loses its ZooKeeper session otherwise
		"high-availability.zookeeper.client.session-timeout": "15000",
		"heartbeat.timeout":                     "50000",
		"taskmanager.memory.jvm-metaspace.size": "384m",
		"taskmanager.memory.task.heap.size":     "384m",
	}
	if r.hdfs != nil {
		maps.Copy(conf, r.hdfs.FlinkConf())
		classpath = append(classpath, r.hdfs.Classpath()...)
	}
	maps.Copy(conf, o.FlinkConf)
	cluster := lab.Options{
		Version: o.Flink, HA: o.HA, TaskManagers: o.TaskManagers, Slots: o.Slots, Parallelism: o.Parallelism,
		FlinkConf: conf, Classpath: classpath, JVMArgs: []string{"-Xmx512m", "-XX:MaxMetaspaceSize=384m"}, Log: o.Log,
		Dir: filepath.Join(r.dir, "flink"),
	}
	if o.Session {
		cluster.Mode = lab.Session
		return cluster
	}
	cluster.JobClass, cluster.JobArgs = r.job("flink", o.Topics, true)
	return cluster
}

// job returns the main class of the pipeline and its arguments.
func (r *Run) job(name string, topics []string, attached bool) (class string, args []string) {
	o := r.options
	millis := strconv.FormatInt(o.Pause.Milliseconds(), 10)
	if o.Pipeline == KafkaSource || o.Pipeline == LegacyKafka {
		return "beamlab.KafkaSourceJob", []string{
			"--bootstrap", r.broker.address, "--jdbcUrl", r.postgres.jdbcURL(), "--topics", strings.Join(topics, ","), "--group", name,
			"--pause", millis, "--bounded", strconv.FormatBool(o.Bounded > 0), "--legacy", strconv.FormatBool(o.Pipeline == LegacyKafka)}
	}
	if o.NoKafka {
		topics = nil
	}
	onConflict := ""
	if o.UniqueKey {
		onConflict = "on conflict (part, off) do nothing"
	}
	return "beamlab.BeamJob", []string{
		"--runner=FlinkRunner", "--streaming=true", "--parallelism=" + strconv.Itoa(o.Parallelism), "--jobName=" + name + "-pipeline",
		"--bootstrap=" + r.broker.address, "--jdbcUrl=" + r.postgres.jdbcURL(), "--topics=" + strings.Join(topics, ","), "--group=" + name,
		"--pause=" + millis, "--shuffle=" + strconv.FormatBool(o.Shuffle), "--bounded=" + strconv.Itoa(o.Bounded),
		"--onConflict=" + onConflict,
		"--attachedMode=" + strconv.FormatBool(attached), "--wait=" + strconv.FormatBool(attached)}
}

// RunJob runs the pipeline once more on a session cluster, reading the given topics in a consumer group of its name, and returns the job's
// id once every task of it runs.
func (r *Run) RunJob(ctx context.Context, name string, topics ...string) (id string, err error) {
	class, args := r.job(name, topics, false)
	before, err := r.Cluster.Jobs(ctx)
	if err != nil {
		return "", err
	}
	// Making the pipeline can take a busy JobManager longer than a request waits; the job comes all the same.
	var timeout net.Error
	if _, err := r.Cluster.RunJob(ctx, lab.JobOptions{Class: class, Args: args, Parallelism: r.options.Parallelism}); err != nil &&
		!(errors.As(err, &timeout) && timeout.Timeout()) {
		return "", err
	}
	known := func(id string) bool { return slices.ContainsFunc(before, func(j lab.Job) bool { return j.ID == id }) }
	err = r.Cluster.Wait(ctx, "job "+name+" runs", func(ctx context.Context) (bool, error) {
		jobs, err := r.Cluster.Jobs(ctx)
		for _, j := range jobs {
			if !known(j.ID) && j.AllRunning() {
				id = j.ID
				return true, nil
			}
		}
		return false, err
	})
	return id, err
}

// Brokers is the broker's address.
func (r *Run) Brokers() string { return r.broker.address }

// LedgerFlags are the exporter's flags for the ledger, with what Beam's sources do not tell themselves: which vertex reads which topic.
func (r *Run) LedgerFlags(ctx context.Context, window time.Duration) ([]string, error) {
	flags := []string{"--kafka.brokers=" + r.Brokers(), "--kafka.window=" + window.String()}
	jobs, err := r.Cluster.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		vertices, err := r.Cluster.Vertices(ctx, job.ID)
		if err != nil {
			return nil, err
		}
		for _, v := range vertices {
			for _, topic := range r.options.Topics {
				if strings.HasPrefix(v.Name, "Source: Read "+topic) {
					flags = append(flags, "--kafka.source="+job.Name+"/"+v.Name+"="+topic)
				}
			}
		}
	}
	return flags, nil
}

// Topics lists the topics.
func (r *Run) Topics() []string { return slices.Clone(r.options.Topics) }

// Dir is the folder of logs and data; Stop removes it.
func (r *Run) Dir() string { return r.dir }

// Query runs a statement on the database and returns what psql prints, fields separated by "|". The rows are those of the table "rows".
func (r *Run) Query(ctx context.Context, statement string) (string, error) {
	return r.postgres.query(ctx, statement)
}

// Failover kills the leading JobManager after a checkpoint, waits until the other one leads and runs every task, and starts the dead one
// again as standby.
func (r *Run) Failover(ctx context.Context) error {
	if err := r.Cluster.WaitCheckpoint(ctx); err != nil {
		return err
	}
	old, err := r.Cluster.Leader(ctx)
	if err != nil {
		return err
	}
	if err := old.Kill(); err != nil {
		return err
	}
	err = r.Cluster.Wait(ctx, "the other JobManager leads", func(ctx context.Context) (bool, error) {
		leader, err := r.Cluster.Leader(ctx)
		return err == nil && leader != old, err
	})
	if err != nil {
		return err
	}
	if err := r.Cluster.WaitRunning(ctx); err != nil {
		return err
	}
	return old.Start()
}

// RestartTaskManager kills a TaskManager, starts it again and waits until every task runs.
func (r *Run) RestartTaskManager(ctx context.Context, tm *lab.TaskManager) error {
	if err := tm.Restart(); err != nil {
		return err
	}
	if err := r.waitDown(ctx); err != nil {
		return err
	}
	return r.Cluster.WaitRunning(ctx)
}

// FailTask makes the task of the next record on a TaskManager fail, produces records until one has done so, and waits until every task
// runs again.
func (r *Run) FailTask(ctx context.Context, tm *lab.TaskManager) error {
	if err := tm.FailTask(); err != nil {
		return err
	}
	for _, topic := range r.options.Topics {
		if _, err := r.Produce(ctx, Production{Topic: topic, Rate: 50, Count: r.options.Partitions}); err != nil {
			return err
		}
	}
	if err := r.waitDown(ctx); err != nil {
		return err
	}
	return r.Cluster.WaitRunning(ctx)
}

// waitDown waits until some task of a job does not run.
func (r *Run) waitDown(ctx context.Context) error {
	return r.Cluster.Wait(ctx, "a task fails", func(ctx context.Context) (bool, error) {
		jobs, err := r.Cluster.Jobs(ctx)
		return slices.ContainsFunc(jobs, func(j lab.Job) bool { return !j.AllRunning() }), err
	})
}

// Stop ends producers, cluster, broker and database and removes the folder. It may be called again.
func (r *Run) Stop() error {
	var errs []error
	for _, p := range r.producers {
		_, err := p.Stop()
		errs = append(errs, err)
	}
	r.producers = nil
	if r.Cluster != nil {
		errs = append(errs, r.Cluster.Stop())
	}
	if r.hdfs != nil {
		errs = append(errs, r.hdfs.Stop())
	}
	if r.broker != nil && r.broker.process != nil {
		errs = append(errs, r.broker.close())
	}
	if r.postgres != nil && r.postgres.process != nil {
		errs = append(errs, r.postgres.close())
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}
