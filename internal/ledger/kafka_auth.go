package ledger

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
)

// dialer connects with TLS if that is configured. Certificates are read at each connection, so that they may be replaced.
func dialer(cfg *promconfig.TLSConfig, timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: timeout}
	if cfg == nil {
		return d.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := promconfig.NewTLSConfig(cfg)
		if err != nil {
			return nil, fmt.Errorf("tls_config: %w", err)
		}
		return (&tls.Dialer{NetDialer: d, Config: c}).DialContext(ctx, network, address)
	}
}

// saslMechanism returns the mechanism configured, nil for none. The password is read at each connection, so that it may be replaced.
func saslMechanism(cfg *config.SASL) (sasl.Mechanism, error) {
	scramAuth := func(context.Context) (scram.Auth, error) {
		password, err := password(cfg)
		return scram.Auth{User: cfg.Username, Pass: password}, err
	}
	switch cfg.Mechanism {
	case "":
		return nil, nil
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := password(cfg)
			return plain.Auth{User: cfg.Username, Pass: password}, err
		}), nil
	case "scram-sha-256":
		return scram.Sha256(scramAuth), nil
	case "scram-sha-512":
		return scram.Sha512(scramAuth), nil
	default:
		return nil, fmt.Errorf("kafka: no SASL mechanism %q", cfg.Mechanism)
	}
}

// password reads the password's file without the newline at its end.
func password(cfg *config.SASL) (string, error) {
	b, err := os.ReadFile(cfg.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("kafka SASL password: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
