package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/alecthomas/kingpin/v2"
)

// health is the subcommand for health checks of containers that have no shell.
type health struct {
	url     *string
	timeout *time.Duration
}

func newHealth(cmd *kingpin.CmdClause) command {
	return &health{
		url:     cmd.Flag("url", "Address to ask.").Default("http://localhost:9269/-/healthy").String(),
		timeout: cmd.Flag("timeout", "How long to wait for the answer.").Default("3s").Duration(),
	}
}

func (c *health) run(*environment) error {
	ctx, cancel := context.WithTimeout(context.Background(), *c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, *c.url, http.NoBody)
	if err != nil {
		return usageError{err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers status %d", *c.url, resp.StatusCode)
	}
	return nil
}
