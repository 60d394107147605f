package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// compare starts an exporter that asks the given JobManagers, and compares each of its numbers that come from REST with REST's own, read
// before and after the scrape. What changed in between is compared again.
func (p *stage) compare(jms []*lab.JobManager) error {
	e, err := scrape.Start(p.ctx, p.settings.exporter, p.cluster.Dir(), p.flags(jms...)...)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	var last error
	for range 20 {
		before, err := restNumbers(p.ctx, jms[0].URL)
		if err != nil {
			return err
		}
		s := e.Scrape(p.ctx)
		if s.Err != nil {
			return s.Err
		}
		after, err := restNumbers(p.ctx, jms[0].URL)
		if err != nil {
			return err
		}
		n, err := sameNumbers(before, after, s)
		if err == nil {
			p.result.note("%d numbers equal REST's through %d JobManager(s)", n, len(jms))
			return nil
		}
		last = err
		time.Sleep(500 * time.Millisecond)
	}
	return last
}

var errDiffers = errors.New("the exporter and REST differ")

// numberNames are the metrics that are compared, and must not have a series that REST does not.
var numberNames = []string{
	"cluster_info", "slots", "taskmanagers", "taskmanager_slots", "taskmanager_last_heartbeat_timestamp_seconds", "job_state",
	"job_start_timestamp_seconds", "job_tasks", "vertex_tasks", "task_attempt", "taskmanager_tasks",
}

// sameNumbers compares, and returns how many series it compared.
func sameNumbers(before, after map[string]float64, s *sample) (int, error) {
	got := map[string]float64{}
	for _, name := range numberNames {
		for _, m := range s.Series(name) {
			if v := scrape.Label(m, "view"); v != "" && v != "jobmanager" {
				continue
			}
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			got[seriesName(name, labels)] = scrape.Value(m)
		}
	}
	// One that no REST answer states.
	for key := range got {
		if strings.HasPrefix(key, "taskmanagers{state=unregistered") {
			delete(got, key)
		}
	}
	for key, want := range before {
		v, ok := got[key]
		switch {
		case !ok:
			return 0, fmt.Errorf("%w: %s is missing", errDiffers, key)
		case strings.HasPrefix(key, "taskmanager_last_heartbeat") && v >= want && v <= after[key]:
		case v != want && v != after[key]:
			return 0, fmt.Errorf("%w: %s is %v, REST says %v", errDiffers, key, v, want)
		}
	}
	for key := range got {
		if _, ok := before[key]; !ok {
			return 0, fmt.Errorf("%w: %s is not in REST", errDiffers, key)
		}
	}
	return len(got), nil
}

func seriesName(name string, labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return name + "{" + strings.Join(parts, ",") + "}"
}

// restNumbers reads REST without any of the exporter's code and states what the exporter should say.
func restNumbers(ctx context.Context, base string) (map[string]float64, error) {
	n := map[string]float64{}
	add := func(v float64, name string, labels ...string) {
		l := map[string]string{}
		for i := 0; i < len(labels); i += 2 {
			l[labels[i]] = labels[i+1]
		}
		n[seriesName(name, l)] = v
	}
	overview, err := rest(ctx, base+"/overview")
	if err != nil {
		return nil, err
	}
	add(1, "cluster_info", "flink_version", overview["flink-version"].(string), "flink_commit", overview["flink-commit"].(string))
	add(overview["slots-total"].(float64), "slots", "state", "total")
	add(overview["slots-available"].(float64), "slots", "state", "free")

	tms, err := rest(ctx, base+"/taskmanagers")
	if err != nil {
		return nil, err
	}
	tasks := map[string]float64{}
	for _, x := range tms["taskmanagers"].([]any) {
		tm := x.(map[string]any)
		id := tm["id"].(string)
		tasks[id] = 0
		add(tm["slotsNumber"].(float64), "taskmanager_slots", "tm_id", id, "state", "total")
		add(tm["freeSlots"].(float64), "taskmanager_slots", "tm_id", id, "state", "free")
		if t := tm["timeSinceLastHeartbeat"].(float64); t > 0 {
			add(t/1000, "taskmanager_last_heartbeat_timestamp_seconds", "tm_id", id)
		}
	}
	add(float64(len(tasks)), "taskmanagers", "state", "registered")

	jobs, err := rest(ctx, base+"/jobs/overview")
	if err != nil {
		return nil, err
	}
	for _, x := range jobs["jobs"].([]any) {
		job := x.(map[string]any)
		id, name := job["jid"].(string), job["name"].(string)
		for _, state := range []string{
			"INITIALIZING", "CREATED", "RUNNING", "FAILING", "FAILED", "CANCELLING", "CANCELED", "FINISHED", "RESTARTING", "SUSPENDED",
			"RECONCILING",
		} {
			v := 0.0
			if state == job["state"] {
				v = 1
			}
			add(v, "job_state", "job_id", id, "job_name", name, "state", state)
		}
		add(job["start-time"].(float64)/1000, "job_start_timestamp_seconds", "job_id", id, "job_name", name)
		for state, v := range job["tasks"].(map[string]any) {
			if state != "total" {
				add(v.(float64), "job_tasks", "job_id", id, "job_name", name, "state", state)
			}
		}
		detail, err := rest(ctx, base+"/jobs/"+id)
		if err != nil {
			return nil, err
		}
		for _, y := range detail["vertices"].([]any) {
			v := y.(map[string]any)
			labels := []string{"job_id", id, "job_name", name, "vertex_id", v["id"].(string), "vertex_name", v["name"].(string)}
			for state, count := range v["tasks"].(map[string]any) {
				add(count.(float64), "vertex_tasks", append(slices.Clone(labels), "state", strings.ToLower(state))...)
			}
			vertex, err := rest(ctx, base+"/jobs/"+id+"/vertices/"+v["id"].(string))
			if err != nil {
				return nil, err
			}
			for _, z := range vertex["subtasks"].([]any) {
				s := z.(map[string]any)
				if !slices.Contains([]string{"DEPLOYING", "INITIALIZING", "RUNNING", "CANCELING"}, s["status"].(string)) {
					continue
				}
				tm := s["taskmanager-id"].(string)
				tasks[tm]++
				subtask := strconv.Itoa(int(s["subtask"].(float64)))
				add(s["attempt"].(float64), "task_attempt", append(slices.Clone(labels), "tm_id", tm, "subtask", subtask)...)
			}
		}
		for tm, count := range tasks {
			if count > 0 {
				add(count, "taskmanager_tasks", "tm_id", tm, "job_id", id, "job_name", name, "view", "jobmanager")
			}
		}
	}
	for tm, count := range tasks {
		if count == 0 {
			add(0, "taskmanager_tasks", "tm_id", tm, "job_id", "", "job_name", "", "view", "jobmanager")
		}
	}
	return n, nil
}

func rest(ctx context.Context, url string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d: %s", url, resp.StatusCode, body)
	}
	var answer map[string]any
	return answer, json.Unmarshal(body, &answer)
}
