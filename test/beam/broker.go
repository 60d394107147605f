package beam

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is one Kafka broker that is its own KRaft controller.
type broker struct {
	*process
	address string
	client  *kgo.Client
	admin   *kadm.Client
}

// startBroker formats a broker's folder below dir and starts it.
func startBroker(ctx context.Context, dir string) (*broker, error) {
	jars, err := build(ctx, "broker")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	controller, err := freePort()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "kraft.properties")
	b := &broker{address: "127.0.0.1:" + strconv.Itoa(port)}
	properties := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://%[1]s,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
`, b.address, controller, filepath.Join(dir, "kafka"))
	if err := os.WriteFile(file, []byte(properties), 0o644); err != nil {
		return nil, err
	}
	java := []string{"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(jars, "*")}
	format := append(java[1:len(java):len(java)], "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", file)
	if out, err := exec.CommandContext(ctx, "java", format...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format the broker's folder: %w\n%s", err, out)
	}
	if b.process, err = start("kafka", filepath.Join(dir, "kafka.log"), nil, append(java, "kafka.Kafka", file)...); err != nil {
		return nil, err
	}
	b.client, err = kgo.NewClient(kgo.SeedBrokers(b.address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return b, err
	}
	b.admin = kadm.NewClient(b.client)
	return b, b.wait(ctx, b.client.Ping)
}

func (b *broker) createTopic(ctx context.Context, name string, partitions int) error {
	if _, err := b.admin.CreateTopic(ctx, int32(partitions), 1, nil, name); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

func (b *broker) close() error {
	if b.client != nil {
		b.client.Close()
	}
	return b.stop(syscall.SIGKILL) // a minute's tidy shutdown serves nobody
}
