package lab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// ErrNoLeader says that at this moment no JobManager leads, or none that is alive.
var ErrNoLeader = errors.New("no JobManager leads")

// Leader returns the JobManager that leads, read where Flink itself publishes it: the address of the REST leader in ZooKeeper or in the
// cluster's ConfigMap. Without high availability it is the only JobManager. Both keep naming a leader that died until its session or
// lease runs out; that is ErrNoLeader too. A frozen leader counts as the leader for as long as it is named.
func (c *Cluster) Leader(ctx context.Context) (*JobManager, error) {
	var address string
	var err error
	switch c.options.HA {
	case ZooKeeper:
		address, err = c.zookeeperLeader(ctx)
	case Kubernetes:
		address, err = c.kubernetesLeader(ctx)
	default:
		address = c.jobManagers[0].URL
	}
	if err != nil {
		return nil, err
	}
	for _, jm := range c.jobManagers {
		if !sameHostPort(jm.URL, address) {
			continue
		}
		if !jm.Running() {
			return nil, fmt.Errorf("%w: %s is named, but it does not run", ErrNoLeader, jm.Name)
		}
		return jm, nil
	}
	return nil, fmt.Errorf("leader %s is none of the cluster's JobManagers", address)
}

func (c *Cluster) zookeeperLeader(ctx context.Context) (string, error) {
	data, err := zookeeperGet(ctx, c.ZooKeeperAddress(), restLeader)
	if errors.Is(err, errNoNode) || err == nil && len(data) == 0 {
		return "", fmt.Errorf("%w: ZooKeeper has no %s", ErrNoLeader, restLeader)
	}
	if err != nil {
		return "", fmt.Errorf("ask ZooKeeper for the leader: %w", err)
	}
	return parseLeaderAddress(data)
}

func sameHostPort(a, b string) bool {
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	return errA == nil && errB == nil && ua.Host == ub.Host
}
