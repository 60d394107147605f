package lab

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Write is one record that a task or thread of a lab job wrote to its TaskManager's sink.
type Write struct {
	Time   time.Time
	Writer string // thread name @ instance of the function
	Value  int64
}

// Doubles says how much of the work was done twice.
type Doubles struct {
	Writes  int // records written
	Values  int // distinct values of one subtask among them
	Doubled int // values of one subtask that more than one writer wrote
	// Writers counts the records of each writer. Two writers of one thread name are two executions of one subtask.
	Writers map[string]int
}

// CountDoubles reads sinks and counts the records written at or after since. After a clean failover the records since the last checkpoint
// are written again by the successor; their first writing lies before the failover, so take since after it.
func CountDoubles(since time.Time, sinks ...string) (Doubles, error) {
	var all []Write
	for _, sink := range sinks {
		writes, err := ReadSink(sink)
		if err != nil {
			return Doubles{}, err
		}
		all = append(all, writes...)
	}
	return countDoubles(since, all), nil
}

func countDoubles(since time.Time, writes []Write) Doubles {
	type key struct {
		subtask string
		value   int64
	}
	d := Doubles{Writers: map[string]int{}}
	by := map[key]map[string]bool{}
	for _, w := range writes {
		if w.Time.Before(since) {
			continue
		}
		d.Writes++
		d.Writers[w.Writer]++
		k := key{w.subtask(), w.Value}
		if by[k] == nil {
			by[k] = map[string]bool{}
			d.Values++
		}
		if by[k][w.Writer] = true; len(by[k]) == 2 {
			d.Doubled++
		}
	}
	return d
}

// Duplicated lists the subtasks that have more than one writer, "name (i/n)".
func (d Doubles) Duplicated() []string {
	writers := map[string]int{}
	for w := range d.Writers {
		writers[Write{Writer: w}.subtask()]++
	}
	maps.DeleteFunc(writers, func(_ string, n int) bool { return n < 2 })
	return slices.Sorted(maps.Keys(writers))
}

func (d Doubles) String() string {
	return fmt.Sprintf("%d writes of %d values by %d writers, %d values doubled", d.Writes, d.Values, len(d.Writers), d.Doubled)
}

// subtask is the writer without the attempt number and the instance: what old and new executions of one subtask share.
func (w Write) subtask() string {
	if i := strings.LastIndexByte(w.Writer, '#'); i >= 0 {
		return w.Writer[:i]
	}
	thread, _, _ := strings.Cut(w.Writer, "@")
	return thread
}

// ReadSink reads the records of one sink. A sink that does not exist has none: its TaskManager never ran the writing task.
func ReadSink(file string) ([]Write, error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	writes, err := parseSink(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return writes, nil
}

// parseSink reads lines "epoch-millis thread@instance value". A last line without its end is being written, or was when its process was
// killed, and does not count.
func parseSink(text []byte) ([]Write, error) {
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	var writes []Write
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		w, err := parseWrite(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		writes = append(writes, w)
	}
	return writes, lines.Err()
}

func parseWrite(line string) (Write, error) {
	first, last := strings.IndexByte(line, ' '), strings.LastIndexByte(line, ' ')
	if first < 0 || first == last {
		return Write{}, fmt.Errorf("%q is not \"epoch-millis thread@instance value\"", line)
	}
	millis, err := strconv.ParseInt(line[:first], 10, 64)
	if err != nil {
		return Write{}, fmt.Errorf("%q: time: %w", line, err)
	}
	writer := line[first+1 : last]
	if !strings.Contains(writer, "@") {
		return Write{}, fmt.Errorf("%q: writer %q has no @instance", line, writer)
	}
	value, err := strconv.ParseInt(line[last+1:], 10, 64)
	if err != nil {
		return Write{}, fmt.Errorf("%q: value: %w", line, err)
	}
	return Write{Time: time.UnixMilli(millis), Writer: writer, Value: value}, nil
}
