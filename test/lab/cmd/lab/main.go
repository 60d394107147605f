// Command lab runs a real Flink cluster on loopback for a developer.
//
//	lab fetch VERSION...     bring Flink distributions into the cache ("all" for every tried release)
//	lab kubernetes           install etcd and build kube-apiserver, for "up --ha=kubernetes"; takes ten minutes, once
//	lab up VERSION [flags]   run a cluster until interrupted and print where everything is
//	lab play SCENARIO VERSION --recorder "COMMAND" --out FOLDER   play an incident and record its moments
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	app := kingpin.New("lab", "Real Flink clusters on loopback.")
	app.HelpFlag.Short('h')
	fetch := app.Command("fetch", "Bring Flink distributions into the cache.")
	versions := fetch.Arg("version", "Releases or release lines, or all.").Required().Strings()

	kubernetes := app.Command("kubernetes", "Install etcd and build kube-apiserver, for high availability on Kubernetes.")

	up := app.Command("up", "Run a cluster until interrupted.")
	o := lab.Options{Log: out, FlinkConf: map[string]string{}, TaskManagerConf: map[string]string{}}
	up.Arg("version", "Release or release line.").Required().StringVar(&o.Version)
	ha := up.Flag("ha", "High availability.").Default("zookeeper").Enum("zookeeper", "kubernetes", "none")
	session := up.Flag("session", "A session cluster, without a job.").Bool()
	up.Flag("jobmanagers", "Number of JobManagers (2; 1 without high availability).").IntVar(&o.JobManagers)
	up.Flag("taskmanagers", "Number of TaskManagers.").Default("2").IntVar(&o.TaskManagers)
	up.Flag("slots", "Slots of each TaskManager.").Default("2").IntVar(&o.Slots)
	up.Flag("parallelism", "Default parallelism.").Default("2").IntVar(&o.Parallelism)
	up.Flag("conf", "A Flink option for every process, OPTION=VALUE.").StringMapVar(&o.FlinkConf)
	up.Flag("tm-conf", "A Flink option for TaskManagers, OPTION=VALUE.").StringMapVar(&o.TaskManagerConf)
	up.Flag("dir", "Folder for configurations, logs and state (default: a temporary one, removed at the end).").StringVar(&o.Dir)
	job := up.Flag("job", "An argument of the job, KEY=VALUE, such as mode=zombie (see jobs/LineageJob.java).").StringMap()

	play := app.Command("play", "Play an incident on a cluster of its own and record its moments.")
	scenario := play.Arg("scenario", scenarioHelp()).Required().Enum(slices.Sorted(maps.Keys(scenarios))...)
	played := lab.Options{Log: out}
	play.Arg("version", "Release or release line.").Required().StringVar(&played.Version)
	play.Flag("dir", "Folder for configurations, logs and state (default: a temporary one, removed at the end).").StringVar(&played.Dir)
	recorder := play.Flag("recorder", "Command that records a cluster; it gets FILE --scenario S --note N --flink.url=URL... --taskmanager.metrics-url=URL...").Required().String()
	folder := play.Flag("out", "Folder for the recordings.").Default(".").ExistingDir()

	parsed, err := app.Parse(args)
	if err != nil {
		return err
	}
	switch parsed {
	case fetch.FullCommand():
		return fetchAll(ctx, *versions, out)
	case kubernetes.FullCommand():
		return lab.PrepareKubernetes(ctx, out)
	case play.FullCommand():
		return playScenario(ctx, *scenario, played, strings.Fields(*recorder), *folder)
	}
	o.HA = map[string]lab.HA{"zookeeper": lab.ZooKeeper, "kubernetes": lab.Kubernetes, "none": lab.None}[*ha]
	if *session {
		o.Mode = lab.Session
	}
	for key, value := range *job {
		o.JobArgs = append(o.JobArgs, "--"+key, value)
	}
	return runCluster(ctx, o, out)
}

func fetchAll(ctx context.Context, versions []string, out io.Writer) error {
	if len(versions) == 1 && versions[0] == "all" {
		versions = lab.Versions
	}
	for _, v := range versions {
		release, err := lab.Latest(v)
		if err != nil {
			return err
		}
		dir, err := lab.Fetch(ctx, release)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, dir)
	}
	return nil
}

func runCluster(ctx context.Context, o lab.Options, out io.Writer) (err error) {
	c, err := lab.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if o.Mode == lab.Application {
		if err := c.WaitRunning(ctx); err != nil {
			return err
		}
	}
	for _, jm := range c.JobManagers() {
		fmt.Fprintf(out, "%s  pid %d  REST %s  reporter %s\n", jm.Name, jm.Pid(), jm.URL, jm.ReporterURL)
	}
	for _, tm := range c.TaskManagers() {
		fmt.Fprintf(out, "%s  pid %d  reporter %s  sink %s\n", tm.Name, tm.Pid(), tm.ReporterURL, tm.Sink)
	}
	fmt.Fprintf(out, "folder %s\nexporter flags: %s\nCtrl-C ends it.\n", c.Dir(), strings.Join(c.ExporterFlags(), " "))
	<-ctx.Done()
	return nil
}
