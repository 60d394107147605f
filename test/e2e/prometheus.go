package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// prometheus asks Prometheus' API.
type prometheus struct{ url string }

// series is one series of an answer.
type series struct {
	Metric map[string]string `json:"metric"`
	Value  []any             `json:"value,omitempty"`
	Values [][]any           `json:"values,omitempty"`
}

// value is the value of a series of an instant query; 0 if there is none.
func (s *series) value() float64 {
	if len(s.Value) < 2 {
		return 0
	}
	text, _ := s.Value[1].(string)
	v, _ := strconv.ParseFloat(text, 64)
	return v
}

func (p *prometheus) instant(ctx context.Context, query string) ([]series, error) {
	return p.ask(ctx, "/api/v1/query", url.Values{"query": {query}})
}

// between asks for the values between two moments.
func (p *prometheus) between(ctx context.Context, query string, begin, end time.Time, step time.Duration) ([]series, error) {
	return p.ask(ctx, "/api/v1/query_range", url.Values{
		"query": {query},
		"start": {strconv.FormatInt(begin.Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)},
		"step": {step.String()},
	})
}

// holds asks whether a query returns anything.
func (p *prometheus) holds(ctx context.Context, query string) (bool, error) {
	found, err := p.instant(ctx, query)
	return len(found) > 0, err
}

func (p *prometheus) ask(ctx context.Context, path string, values url.Values) ([]series, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+values.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var body struct {
		Status, Error string
		Data          struct {
			Result []series
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", values.Get("query"), response.Status, err)
	}
	if body.Status != "success" {
		return nil, fmt.Errorf("%s: %s", values.Get("query"), body.Error)
	}
	return body.Data.Result, nil
}

func writeJSON(file string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
