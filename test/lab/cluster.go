package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HA is the kind of high availability.
type HA int

const (
	// None leaves a cluster without its jobs when the only JobManager dies.
	None HA = iota
	// ZooKeeper keeps the leader in ephemeral nodes: it is gone when its session times out.
	ZooKeeper
	// Kubernetes keeps the leader in a ConfigMap with a lease, on an etcd and kube-apiserver of the cluster's own.
	Kubernetes
)

// Mode is how the cluster gets its jobs.
type Mode int

const (
	// Application runs one job, Options.JobClass, for as long as the cluster lives.
	Application Mode = iota
	// Session runs the jobs it is given with RunJob.
	Session
)

// Options describe a cluster. Zero values mean what the comments say.
type Options struct {
	Version string // a Flink release or release line: "1.17.2", "1.20"
	HA      HA
	Mode    Mode

	JobManagers  int // 2, without high availability 1
	TaskManagers int // 2
	Slots        int // of each TaskManager: 2
	Parallelism  int // 2

	JobClass string   // "lab.LineageJob"
	JobArgs  []string // of the job in application mode, see jobs/LineageJob.java

	FlinkConf       map[string]string // for every process
	JobManagerConf  map[string]string // for JobManagers, over FlinkConf
	TaskManagerConf map[string]string // for TaskManagers, over FlinkConf
	Classpath       []string          // further jars or folders of every Flink process
	JVMArgs         []string          // further arguments of every Flink JVM

	// Dir is the cluster's folder and must be empty or missing. Without it the cluster has a temporary one, which Stop removes.
	Dir string
	Log io.Writer // what the driver does, a line each; nil for silence
}

// DefaultJob is the job class of this package.
const DefaultJob = "lab.LineageJob"

func (o Options) withDefaults() Options {
	def := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	if o.HA == None {
		def(&o.JobManagers, 1)
	}
	def(&o.JobManagers, 2)
	def(&o.TaskManagers, 2)
	def(&o.Slots, 2)
	def(&o.Parallelism, 2)
	if o.JobClass == "" {
		o.JobClass = DefaultJob
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o
}

// Cluster is a running Flink cluster.
type Cluster struct {
	options      Options
	version      version
	dir          string
	temporary    bool
	services     []*Process // what high availability needs
	jobManagers  []*JobManager
	taskManagers []*TaskManager
	jobJar       string
	base         place // what all processes share
	kubernetes   *kubernetes
	java         launcher
}

// JobManager is one JobManager process.
type JobManager struct {
	*Process
	URL         string // REST, without a trailing slash
	ReporterURL string // Prometheus reporter
}

// TaskManager is one TaskManager process.
type TaskManager struct {
	*Process
	ReporterURL string // Prometheus reporter
	Sink        string // the file of records its tasks wrote, there once there is one
}

// launcher knows how to start a Flink JVM.
type launcher struct {
	classpath string
	args      []string
	env       []string
}

// Start starts a cluster and returns when one JobManager leads and every process has been started; WaitRunning waits for the job. On an
// error nothing is left running. The first JobManager is the one that leads.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o = o.withDefaults()
	if o.HA == None && o.JobManagers != 1 {
		return nil, fmt.Errorf("%d JobManagers without high availability: each would be a cluster of its own", o.JobManagers)
	}
	release, err := Latest(o.Version)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o}
	if c.version, err = parseVersion(release); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("start flink %s: %w\n%s", release, err, c.tails())
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.makeDir(); err != nil {
		return err
	}
	if err := c.prepareJava(ctx); err != nil {
		return err
	}
	switch c.options.HA {
	case ZooKeeper:
		if err := c.startZooKeeper(ctx); err != nil {
			return err
		}
	case Kubernetes:
		if err := c.startKubernetes(ctx); err != nil {
			return err
		}
	}
	if err := c.prepareFlink(); err != nil {
		return err
	}
	if err := c.jobManagers[0].Start(); err != nil {
		return err
	}
	for _, tm := range c.taskManagers {
		if err := tm.Start(); err != nil {
			return err
		}
	}
	err := c.Wait(ctx, "the first JobManager leads", func(ctx context.Context) (bool, error) {
		leader, err := c.Leader(ctx)
		if err != nil {
			return false, err
		}
		return leader == c.jobManagers[0], call(ctx, "GET", leader.URL+"/config", nil, nil)
	})
	if err != nil {
		return err
	}
	for _, jm := range c.jobManagers[1:] {
		if err := jm.Start(); err != nil {
			return err
		}
	}
	for _, jm := range c.jobManagers[1:] {
		if err := c.Wait(ctx, jm.Name+" answers", func(ctx context.Context) (bool, error) {
			return true, call(ctx, "GET", jm.URL+"/config", nil, nil)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) makeDir() error {
	if c.options.Dir == "" {
		dir, err := os.MkdirTemp("", "flink-lab-")
		c.dir, c.temporary = dir, true
		return err
	}
	dir, err := filepath.Abs(c.options.Dir)
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("folder %s is not empty: logs and state of an earlier cluster would be mixed in", dir)
	}
	c.dir = dir
	return os.MkdirAll(dir, 0o755)
}

// addOpens is what Flink needs of a JDK 17; the distribution's own scripts pass the same.
var addOpens = []string{
	"--add-exports=java.base/sun.net.util=ALL-UNNAMED", "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
	"--add-exports=jdk.httpserver/sun.net.httpserver=ALL-UNNAMED",
	"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.net=ALL-UNNAMED",
	"--add-opens=java.base/java.io=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
	"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
	"--add-opens=java.base/java.text=ALL-UNNAMED", "--add-opens=java.base/java.time=ALL-UNNAMED",
	"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
}

func (c *Cluster) prepareJava(ctx context.Context) error {
	distribution, err := Fetch(ctx, c.version.String())
	if err != nil {
		return err
	}
	jvmJar, err := buildJar(ctx, c.version, distribution, "jvm")
	if err != nil {
		return err
	}
	if c.jobJar, err = buildJar(ctx, c.version, distribution, "jobs"); err != nil {
		return err
	}
	classpath := []string{filepath.Join(distribution, "lib", "*"), filepath.Join(distribution, "plugins", "metrics-prometheus", "*"), jvmJar}
	if c.options.Mode == Application {
		classpath = append(classpath, c.jobJar)
	}
	// Small and quick to start rather than fast: many of these JVMs share few cores.
	args := append([]string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxMetaspaceSize=256m",
		"-Dcom.sun.net.httpserver.HttpServerProvider=lab.LoopbackHttpServerProvider"}, addOpens...)
	c.java = launcher{
		classpath: strings.Join(append(classpath, c.options.Classpath...), ":"),
		args:      append(args, c.options.JVMArgs...),
	}
	return nil
}

// process makes a process with a folder of its own.
func (c *Cluster) process(name string, command, env []string, reserved ...*reservation) (*Process, error) {
	dir := filepath.Join(c.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &Process{Name: name, dir: dir, command: command, env: env, reserved: reserved}, nil
}

func (c *Cluster) startZooKeeper(ctx context.Context) error {
	ports, err := reservePorts(3)
	if err != nil {
		return err
	}
	c.base.zookeeperPort = ports[0].port
	file := filepath.Join(c.dir, "zookeeper", "zoo.cfg")
	p, err := c.process("zookeeper", []string{"java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", c.java.classpath,
		"org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer", "--zkConfigFile", file, "--peerId", "1"}, nil, ports...)
	if err != nil {
		return err
	}
	// Sessions may last as long as Flink asks for by default. server.1 must be there, though one server alone never opens those two ports
	zoo := fmt.Sprintf("tickTime=1000\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"+
		"maxSessionTimeout=60000\ninitLimit=10\nsyncLimit=5\nserver.1=127.0.0.1:%d:%d\n", p.dir, ports[0].port, ports[1].port, ports[2].port)
	if err := os.WriteFile(file, []byte(zoo), 0o644); err != nil {
		return err
	}
	c.services = append(c.services, p)
	if err := p.Start(); err != nil {
		return err
	}
	return c.Wait(ctx, "ZooKeeper answers", func(ctx context.Context) (bool, error) {
		_, err := zookeeperGet(ctx, c.ZooKeeperAddress(), "/")
		return err == nil, err
	})
}

// prepareFlink makes every JobManager and TaskManager, not yet started.
func (c *Cluster) prepareFlink() error {
	o := c.options
	c.base.dir = c.dir
	entry := []string{"org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"}
	if o.Mode == Application {
		entry = append([]string{"org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint", "--job-classname", o.JobClass}, o.JobArgs...)
	}
	for i := range o.JobManagers {
		ports, err := reservePorts(4)
		if err != nil {
			return err
		}
		at := c.base
		at.blob, at.rest, at.reporter, at.jobManagerPort = ports[0].port, ports[1].port, ports[2].port, ports[3].port
		if i == 0 {
			c.base.jobManagerPort = at.jobManagerPort
		}
		conf := jobManagerConf(c.version, o, at).with(o.FlinkConf, o.JobManagerConf)
		p, err := c.flinkProcess("jm"+strconv.Itoa(i+1), conf, []string{"-Xmx448m"}, entry, ports)
		if err != nil {
			return err
		}
		c.jobManagers = append(c.jobManagers, &JobManager{Process: p, URL: loopbackURL(at.rest), ReporterURL: loopbackURL(at.reporter) + "/metrics"})
	}
	for range o.TaskManagers {
		if _, err := c.prepareTaskManager(); err != nil {
			return err
		}
	}
	return nil
}

// prepareTaskManager makes a TaskManager, not yet started; further configuration goes over that of the cluster's options.
func (c *Cluster) prepareTaskManager(further ...map[string]string) (*TaskManager, error) {
	ports, err := reservePorts(2)
	if err != nil {
		return nil, err
	}
	at := c.base
	at.data, at.reporter = ports[0].port, ports[1].port
	name := "tm" + strconv.Itoa(len(c.taskManagers)+1)
	sink := filepath.Join(c.dir, name, "sink")
	conf := taskManagerConf(c.version, c.options, at).with(c.options.FlinkConf, c.options.TaskManagerConf).with(further...)
	p, err := c.flinkProcess(name, conf, []string{"-Xmx384m", "-Dsink=" + sink}, []string{"org.apache.flink.runtime.taskexecutor.TaskManagerRunner"}, ports)
	if err != nil {
		return nil, err
	}
	tm := &TaskManager{Process: p, ReporterURL: loopbackURL(at.reporter) + "/metrics", Sink: sink}
	c.taskManagers = append(c.taskManagers, tm)
	return tm, nil
}

// flinkProcess writes the configuration of a Flink process and makes the process. entry is the main class and its arguments.
func (c *Cluster) flinkProcess(name string, conf conf, jvmArgs, entry []string, ports []*reservation) (*Process, error) {
	dir := filepath.Join(c.dir, name)
	log := filepath.Join(dir, "log")
	command := slices.Concat([]string{"java"}, jvmArgs, c.java.args,
		[]string{"-Dlog4j.configurationFile=file:" + filepath.Join(dir, "conf", "log4j.properties"), "-cp", c.java.classpath, entry[0], "--configDir", filepath.Join(dir, "conf")},
		entry[1:])
	p, err := c.process(name, command, c.java.env, ports...)
	if err != nil {
		return nil, err
	}
	p.log = log
	text, err := render(c.version, conf)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{filepath.Join(dir, "conf"), filepath.Join(c.dir, "tmp")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	return p, errors.Join(
		os.WriteFile(filepath.Join(dir, "conf", confFile(c.version)), text, 0o644),
		os.WriteFile(filepath.Join(dir, "conf", "log4j.properties"), log4jProperties(log), 0o644))
}

// AddTaskManager starts one more TaskManager, with further configuration over that of the options.
func (c *Cluster) AddTaskManager(further ...map[string]string) (*TaskManager, error) {
	tm, err := c.prepareTaskManager(further...)
	if err != nil {
		return nil, err
	}
	return tm, tm.Start()
}

// JobManagers returns the JobManagers, the dead ones too.
func (c *Cluster) JobManagers() []*JobManager { return c.jobManagers }

// TaskManagers returns the TaskManagers, the dead ones too.
func (c *Cluster) TaskManagers() []*TaskManager { return c.taskManagers }

// Dir returns the folder that holds configurations, logs and state, a folder for each process.
func (c *Cluster) Dir() string { return c.dir }

// ZooKeeperAddress is host and port of ZooKeeper, empty without it.
func (c *Cluster) ZooKeeperAddress() string {
	if c.base.zookeeperPort == 0 {
		return ""
	}
	return "127.0.0.1:" + strconv.Itoa(c.base.zookeeperPort)
}

// Version returns the Flink release.
func (c *Cluster) Version() string { return c.version.String() }

// Sinks returns the sinks of all TaskManagers, for CountDoubles.
func (c *Cluster) Sinks() []string {
	var sinks []string
	for _, tm := range c.taskManagers {
		sinks = append(sinks, tm.Sink)
	}
	return sinks
}

// resourceID is how a TaskManager announces its id in its log.
var resourceID = regexp.MustCompile(`Starting TaskManager with ResourceID: (\S+)`)

// ID returns the id under which REST and the reporter know the TaskManager, read from its log: each run has another one. It waits for a
// run that has just begun.
func (tm *TaskManager) ID(ctx context.Context) (string, error) {
	for {
		text, err := tm.logText()
		if err != nil && !os.IsNotExist(err) {
			return "", err
		}
		if m := resourceID.FindStringSubmatch(text); m != nil {
			return m[1], nil
		}
		if !tm.Running() {
			return "", fmt.Errorf("%s does not run and did not say its id", tm.Name)
		}
		if pause(ctx); ctx.Err() != nil {
			return "", fmt.Errorf("%s does not say its id: %w\n%s", tm.Name, ctx.Err(), tm.tail(10))
		}
	}
}

// FailTask makes one task on this TaskManager fail, which the JobManager answers with an ordinary restart. The job must be the one of this
// package; the failure comes with the task's next record.
func (tm *TaskManager) FailTask() error {
	return os.WriteFile(filepath.Join(filepath.Dir(tm.Sink), "fail"), nil, 0o644)
}

// waitLimit is how long Wait waits when ctx has no deadline.
const waitLimit = 3 * time.Minute

// Wait looks at a condition again and again until it holds. Errors of the condition are not final: a cluster in turmoil answers with many.
// Wait gives up when ctx is done, after three minutes if ctx has no deadline, and when a process of the cluster ends that nobody ended;
// the error then names what was waited for, the condition's last error and the ends of the logs.
func (c *Cluster) Wait(ctx context.Context, what string, cond func(context.Context) (bool, error)) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, waitLimit)
		defer cancel()
	}
	begin := time.Now()
	for {
		ok, err := cond(ctx)
		if ok && err == nil {
			fmt.Fprintf(c.options.Log, "lab: %s (after %.1f s)\n", what, time.Since(begin).Seconds())
			return nil
		}
		if died := c.died(); died != nil {
			return fmt.Errorf("waiting until %s: %w\n%s", what, died, c.tails())
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting until %s: %w after %.0f s; last: %w\n%s", what, ctx.Err(), time.Since(begin).Seconds(), notYet(err), c.tails())
		}
		pause(ctx)
	}
}

// notYet is the reason of a condition that gave none.
func notYet(err error) error {
	if err == nil {
		return errors.New("not yet so")
	}
	return err
}

// WaitRunning waits until there is a job, every job that has not ended runs with all its tasks, and every living TaskManager is registered.
func (c *Cluster) WaitRunning(ctx context.Context) error {
	return c.Wait(ctx, "every task runs", func(ctx context.Context) (bool, error) {
		jobs, err := c.Jobs(ctx)
		if err != nil {
			return false, err
		}
		alive := 0
		for _, j := range jobs {
			if j.Ended() {
				continue
			}
			if alive++; !j.AllRunning() {
				return false, fmt.Errorf("job %s is %s with tasks %v", j.Name, j.State, j.Tasks)
			}
		}
		if alive == 0 {
			return false, errors.New("there is no job")
		}
		return c.allRegistered(ctx)
	})
}

func (c *Cluster) allRegistered(ctx context.Context) (bool, error) {
	registered, err := c.RegisteredTaskManagers(ctx)
	if err != nil {
		return false, err
	}
	for _, tm := range c.taskManagers {
		if !tm.Running() {
			continue
		}
		id, err := tm.ID(ctx)
		if err != nil {
			return false, err
		}
		if !slices.Contains(registered, id) {
			return false, fmt.Errorf("%s (%s) is not registered", tm.Name, id)
		}
	}
	return true, nil
}

// processes returns every process, in the order in which to end them.
func (c *Cluster) processes() []*Process {
	var all []*Process
	for _, tm := range c.taskManagers {
		all = append(all, tm.Process)
	}
	for _, jm := range c.jobManagers {
		all = append(all, jm.Process)
	}
	return append(all, c.services...)
}

func (c *Cluster) died() error {
	var errs []error
	for _, p := range c.processes() {
		errs = append(errs, p.died())
	}
	return errors.Join(errs...)
}

func (c *Cluster) tails() string {
	var b strings.Builder
	for _, p := range c.processes() {
		b.WriteString(p.tail(15))
	}
	return b.String()
}

// Stop ends every process, frozen ones too (SIGKILL needs no thawing), and removes a temporary folder. It may be called again.
func (c *Cluster) Stop() error {
	var errs []error
	for _, p := range c.processes() {
		errs = append(errs, p.Kill())
		for _, r := range p.reserved {
			r.release()
		}
	}
	if c.temporary && c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

func loopbackURL(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) }
