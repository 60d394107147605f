package flink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

type threadAnswer struct {
	Name        *string `json:"threadName"`
	Stringified string  `json:"stringifiedThreadInfo"`
}

// Threads asks for a thread dump of a TaskManager through the JobManager (/taskmanagers/:taskmanagerid/thread-dump) and keeps the threads
// whose names matter. The answer, which may have megabytes of stacks, is not held as a whole.
func (c *Client) Threads(ctx context.Context, taskManager string) ([]lineage.Thread, error) {
	var threads []lineage.Thread
	err := c.get(ctx, endpointThreadDump, map[string]string{"taskmanagerid": taskManager}, func(r io.Reader) error {
		threads = nil
		return readDump(r, func(t *threadAnswer) {
			if thread, ok := lineage.ReadThread(*t.Name, t.Stringified); ok {
				threads = append(threads, thread)
			}
		})
	})
	if err != nil {
		return nil, err // and not the first part of the threads
	}
	return threads, nil
}

// readDump decodes {"threadInfos": [{...}, ...]} and visits one thread after the other.
func readDump(r io.Reader, visit func(*threadAnswer)) error {
	dec := json.NewDecoder(r)
	if err := expectDelim(dec, '{'); err != nil {
		return err
	}
	found := false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if key != "threadInfos" {
			var skipped json.RawMessage
			if err := dec.Decode(&skipped); err != nil {
				return err
			}
			continue
		}
		found = true
		if err := expectDelim(dec, '['); err != nil {
			return err
		}
		for dec.More() {
			var t threadAnswer
			if err := dec.Decode(&t); err != nil {
				return err
			}
			if t.Name == nil {
				return errors.New("threadName of a thread is missing")
			}
			visit(&t)
		}
		if err := expectDelim(dec, ']'); err != nil {
			return err
		}
	}
	if err := expectDelim(dec, '}'); err != nil {
		return err
	}
	if !found {
		return errors.New("threadInfos is missing")
	}
	switch t, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("%v after the end of the answer", t)
	}
}

func expectDelim(dec *json.Decoder, want json.Delim) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("%v in place of %v", t, want)
	}
	return nil
}
