package ledger

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// labEnv turns on the tests on a real broker, which need Java 17 and Maven.
const labEnv = "FLINK_LAB"

const brokerModule = "../../test/beam/broker/pom.xml"

// broker is a real Kafka broker, its own KRaft controller, with a listener for each kind of authentication.
type broker struct {
	dir, jars            string
	plaintext, sasl, tls string
	caFile               string
	cmd                  *exec.Cmd
	exited               chan struct{}
	client               *kgo.Client
	admin                *kadm.Client
}

// newBroker formats and starts a broker that ends with the test.
func newBroker(t *testing.T) *broker {
	t.Helper()
	if os.Getenv(labEnv) != "1" {
		t.Skipf("needs Java and Maven: set %s=1", labEnv)
	}
	b := &broker{dir: t.TempDir(), jars: brokerJars(t)}
	controller := freeAddress(t)
	b.plaintext, b.sasl, b.tls = freeAddress(t), freeAddress(t), freeAddress(t)
	keystore := filepath.Join(b.dir, "broker.pem")
	b.caFile = filepath.Join(b.dir, "ca.pem")
	writeCertificate(t, keystore, b.caFile)
	properties := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[1]s
listeners=PLAINTEXT://%[2]s,SASL_PLAINTEXT://%[3]s,SSL://%[4]s,CONTROLLER://%[1]s
advertised.listeners=PLAINTEXT://%[2]s,SASL_PLAINTEXT://%[3]s,SSL://%[4]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=%[5]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=true
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_exporter="right";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.ssl.ssl.keystore.type=PEM
listener.name.ssl.ssl.keystore.location=%[6]s
`, controller, b.plaintext, b.sasl, b.tls, filepath.Join(b.dir, "data"), keystore)
	file := filepath.Join(b.dir, "kraft.properties")
	if err := os.WriteFile(file, []byte(properties), 0o600); err != nil {
		t.Fatal(err)
	}
	format := exec.CommandContext(t.Context(), "java", b.java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", file)...)
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format the broker's folder: %v\n%s", err, out)
	}
	var err error
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(b.plaintext), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	b.admin = kadm.NewClient(b.client)
	t.Cleanup(func() {
		b.client.Close()
		b.kill(t)
	})
	b.start(t)
	return b
}

func (b *broker) java(args ...string) []string {
	return append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(b.jars, "*"),
	}, args...)
}

// start starts the broker and waits until it serves.
func (b *broker) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(b.dir, "kafka.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	b.cmd = exec.Command("java", b.java("kafka.Kafka", filepath.Join(b.dir, "kraft.properties"))...)
	b.cmd.Stdout, b.cmd.Stderr = log, log
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	exited := make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the broker's parent is this thread
		defer close(exited)
		err := b.cmd.Start()
		started <- err
		if err == nil {
			_ = b.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	b.exited = exited
	eventually(t, 90*time.Second, "the broker to serve", func(ctx context.Context) error {
		select {
		case <-exited:
			out, _ := os.ReadFile(filepath.Join(b.dir, "kafka.log"))
			t.Fatalf("the broker ended:\n%s", out)
		default:
		}
		return b.client.Ping(ctx)
	})
}

func (b *broker) kill(t *testing.T) {
	t.Helper()
	if b.exited == nil {
		return
	}
	_ = b.cmd.Process.Kill()
	<-b.exited
}

func (b *broker) create(t *testing.T, topic string, partitions int32) {
	t.Helper()
	if _, err := b.admin.CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

// produce sends n records to a partition.
func (b *broker) produce(t *testing.T, topic string, partition int32, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte("v")}
	}
	if err := b.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// eventually tries until f succeeds.
func eventually(t *testing.T, timeout time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s for %s: %v", timeout, what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// brokerJars returns the folder with the broker's jars, which are kept between runs.
func brokerJars(t *testing.T) string {
	t.Helper()
	const repository = "../.."
	dir, err := filepath.Abs(filepath.Join(repository, ".cache", "ledger", "broker"))
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "kafka_2.13-*.jar")); found != nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".broker-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	cmd := exec.CommandContext(t.Context(), "mvn", "-B", "-q", "-f", brokerModule, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+work)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("get the broker's jars: %v\n%s", err, out)
	}
	if err := os.Rename(work, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// writeCertificate writes a self-signed certificate for 127.0.0.1 with its key, and without.
func writeCertificate(t *testing.T, keystore, certificate string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	_ = pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	for file, content := range map[string]string{keystore: text.String() + cert, certificate: cert} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
