package cluster

// Waiting is how many callers wait for the scrape under way.
func (c *Cluster) Waiting() int {
	c.flight.mu.Lock()
	defer c.flight.mu.Unlock()
	if c.flight.current == nil {
		return 0
	}
	return c.flight.current.waiting
}
