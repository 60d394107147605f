package beam

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// table is where the pipelines write. It has no unique key, so that a record written twice stays visible. produced is Kafka's timestamp
// of the record in epoch milliseconds.
const table = "create table rows (id bigint, part int, off bigint, produced bigint, writer text, written timestamptz default clock_timestamp())"

// postgres is a PostgreSQL server with a data folder of its own.
type postgres struct {
	*process
	port int
}

// startPostgres makes a database below dir and starts a server on it, as user postgres when this program is root: PostgreSQL refuses root.
func startPostgres(ctx context.Context, dir string) (*postgres, error) {
	bin, err := postgresBin(ctx)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "postgres")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	credential, err := unprivileged(data)
	if err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-A", "trust", "-U", "beam", "--no-sync", "--no-instructions", "-D", data)
	initdb.Dir, initdb.SysProcAttr = data, &syscall.SysProcAttr{Credential: credential}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	p := &postgres{}
	if p.port, err = freePort(); err != nil {
		return nil, err
	}
	p.process, err = start("postgres", filepath.Join(dir, "postgres.log"), credential, filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(p.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "shared_buffers=32MB", "-c", "fsync=off")
	if err != nil {
		return nil, err
	}
	if err := p.wait(ctx, func(ctx context.Context) error { _, err := p.query(ctx, "select 1"); return err }); err != nil {
		return p, err
	}
	_, err = p.query(ctx, table)
	return p, err
}

// unprivileged returns who the server runs as and gives it the data folder; nil for this user itself.
func unprivileged(data string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(data, int(uid), int(gid))
}

// postgresBin returns the folder of the newest server's programs. Without one it installs Debian's, told not to make and start a
// database of its own.
func postgresBin(ctx context.Context) (string, error) {
	const programs = "/usr/lib/postgresql/*/bin/initdb"
	found, err := filepath.Glob(programs)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		script := `set -e
mkdir -p /etc/postgresql-common
test -e /etc/postgresql-common/createcluster.conf || echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends -o Dpkg::Options::=--force-confold postgresql`
		if out, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput(); err != nil {
			return "", fmt.Errorf("install PostgreSQL with apt-get: %w\n%s", err, out)
		}
		if found, _ = filepath.Glob(programs); len(found) == 0 {
			return "", fmt.Errorf("apt-get installed PostgreSQL, but there is no %s", programs)
		}
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// query runs one statement and returns what psql prints, fields separated by "|".
func (p *postgres) query(ctx context.Context, statement string) (string, error) {
	out, err := exec.CommandContext(ctx, "psql", "-X", "-qAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", strconv.Itoa(p.port),
		"-U", "beam", "-d", "postgres", "-c", statement).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, text)
	}
	return text, nil
}

// jdbcURL is where the pipelines find the database.
func (p *postgres) jdbcURL() string {
	return fmt.Sprintf("jdbc:postgresql://127.0.0.1:%d/postgres?user=beam", p.port)
}

func (p *postgres) close() error { return p.stop(syscall.SIGQUIT) } // at once, the data is not wanted any more
