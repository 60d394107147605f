package beam

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Writer is one instance of the function that makes rows, hence one execution of one subtask.
type Writer struct {
	Name        string // thread name @ instance
	First, Last time.Time
	Rows        int
}

// Writers lists who wrote rows of Kafka's records, in the order of their first rows.
func (r *Run) Writers(ctx context.Context) ([]Writer, error) {
	text, err := r.postgres.query(ctx, "select (extract(epoch from min(written)) * 1000)::bigint as first, "+
		"(extract(epoch from max(written)) * 1000)::bigint, count(*), writer from rows where id > 0 group by writer order by first")
	if err != nil || text == "" {
		return nil, err
	}
	var writers []Writer
	for line := range strings.SplitSeq(text, "\n") {
		w, err := parseWriter(line)
		if err != nil {
			return nil, err
		}
		writers = append(writers, w)
	}
	return writers, nil
}

// parseWriter reads "first|last|rows|name".
func parseWriter(line string) (Writer, error) {
	numbers := strings.LastIndexByte(line, '|')
	if numbers < 0 {
		return Writer{}, fmt.Errorf("psql answered %q, want three numbers and a name", line)
	}
	var first, last, rows int
	if err := scanRow(line[:numbers], &first, &last, &rows); err != nil {
		return Writer{}, err
	}
	return Writer{Name: line[numbers+1:], First: time.UnixMilli(int64(first)), Last: time.UnixMilli(int64(last)), Rows: rows}, nil
}

// DoubledByOne counts the records produced in [since, until) that have more than one row, all by one writer: one execution that was given
// the record more than once, rather than two executions.
func (r *Run) DoubledByOne(ctx context.Context, since, until time.Time) (int, error) {
	text, err := r.postgres.query(ctx, fmt.Sprintf("select count(*) from (select id from rows where id > 0 and produced >= %d and produced < %d "+
		"group by id having count(*) > 1 and count(distinct writer) = 1) c", ceil(since).UnixMilli(), ceil(until).UnixMilli()))
	if err != nil {
		return 0, err
	}
	var n int
	return n, scanRow(text, &n)
}
