package beamlab;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;
import java.util.UUID;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.io.GenerateSequence;
import org.apache.beam.sdk.io.jdbc.JdbcIO;
import org.apache.beam.sdk.io.kafka.KafkaIO;
import org.apache.beam.sdk.io.kafka.KafkaRecord;
import org.apache.beam.sdk.options.Default;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.options.StreamingOptions;
import org.apache.beam.sdk.options.Validation;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.Flatten;
import org.apache.beam.sdk.transforms.Impulse;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.Reshuffle;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.PCollectionList;
import org.apache.beam.sdk.values.TypeDescriptors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads Kafka with KafkaIO, one source a topic, and writes a row a record with JdbcIO. The table has no unique key, so that a record
 * written twice stays visible.
 *
 * <p>When a file "fail" appears beside the file that the system property "sink" names, the next record of that TaskManager deletes it
 * and fails its task.
 */
public class BeamJob {
  public interface Options extends StreamingOptions {
    @Validation.Required
    String getBootstrap();
    void setBootstrap(String s);

    @Validation.Required
    String getJdbcUrl();
    void setJdbcUrl(String s);

    /** Topics, comma-separated; each becomes a KafkaIO source of its own. Empty: no Kafka at all. */
    @Default.String("")
    String getTopics();
    void setTopics(String s);

    @Default.String("beam")
    String getGroup();
    void setGroup(String s);

    @Default.String("rows")
    String getTable();
    void setTable(String s);

    /** What ends the insert statement: "on conflict ..." where the table has a unique key. */
    @Default.String("")
    String getOnConflict();
    void setOnConflict(String s);

    /** Milliseconds that writing one record takes longer than it has to. */
    @Default.Long(0)
    long getPause();
    void setPause(long ms);

    /** Puts a shuffle between source and sink, so that a slow sink holds the source back over the network. */
    @Default.Boolean(false)
    boolean getShuffle();
    void setShuffle(boolean b);

    /** Adds the other kinds of source: Create, Impulse and a bounded sequence of this many values, whose rows have negative ids. */
    @Default.Long(0)
    long getBounded();
    void setBounded(long n);

    /** Waits for the end of the job; with attachedMode=false there is nothing to wait for. */
    @Default.Boolean(true)
    boolean getWait();
    void setWait(boolean b);
  }

  /** A record as "id|partition|offset|epoch millis|writer". */
  static class ToRow extends DoFn<KafkaRecord<String, String>, String> {
    private final long pause;
    private transient String writer;

    ToRow(long pause) { this.pause = pause; }

    @Setup
    public void setup() { writer = writer(); }

    @ProcessElement
    public void process(@Element KafkaRecord<String, String> r, OutputReceiver<String> out) throws Exception {
      failIfAsked();
      Thread.sleep(pause);
      out.output(String.join("|", r.getKV().getValue(), "" + r.getPartition(), "" + r.getOffset(), "" + r.getTimestamp(), writer));
    }
  }

  /** A value that no broker ever saw. */
  static class ToOtherRow extends DoFn<Long, String> {
    private transient String writer;

    @Setup
    public void setup() { writer = writer(); }

    @ProcessElement
    public void process(@Element Long v, OutputReceiver<String> out) throws Exception {
      failIfAsked();
      out.output(String.join("|", "" + (-1 - v), "-1", "-1", "0", writer));
    }
  }

  private static String writer() {
    return Thread.currentThread().getName().replace('|', '/') + "@" + UUID.randomUUID().toString().substring(0, 8);
  }

  private static void failIfAsked() throws Exception {
    String sink = System.getProperty("sink");
    Path fail = sink == null ? null : Paths.get(sink).resolveSibling("fail");
    if (fail != null && Files.deleteIfExists(fail)) {
      throw new IllegalStateException("asked to fail");
    }
  }

  public static void main(String[] args) {
    Options o = PipelineOptionsFactory.fromArgs(args).withValidation().as(Options.class);
    o.setStreaming(true);
    Pipeline p = Pipeline.create(o);
    PCollectionList<String> all = PCollectionList.empty(p);
    for (String topic : o.getTopics().isEmpty() ? new String[0] : o.getTopics().split(",")) {
      all = all.and(p.apply("Read " + topic, KafkaIO.<String, String>read()
              .withBootstrapServers(o.getBootstrap())
              .withTopic(topic)
              .withConsumerConfigUpdates(Map.of(
                  ConsumerConfig.GROUP_ID_CONFIG, o.getGroup(),
                  ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false",
                  ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"))
              .commitOffsetsInFinalize()
              .withKeyDeserializer(StringDeserializer.class)
              .withValueDeserializer(StringDeserializer.class))
          .apply("ToRow " + topic, ParDo.of(new ToRow(o.getPause()))).setCoder(StringUtf8Coder.of()));
    }
    if (o.getBounded() > 0) {
      all = all
          .and(other("Sequence", p.apply("Sequence", GenerateSequence.from(0).to(o.getBounded()))))
          .and(other("Create", p.apply("Create", Create.of(o.getBounded(), o.getBounded() + 1))))
          .and(other("Impulse", p.apply("Impulse", Impulse.create())
              .apply("One", MapElements.into(TypeDescriptors.longs()).via(b -> Long.MAX_VALUE - 1))));
    }
    PCollection<String> rows = all.size() == 1 ? all.get(0) : all.apply("Flatten", Flatten.pCollections());
    if (o.getShuffle()) {
      rows = rows.apply("Shuffle", Reshuffle.viaRandomKey());
    }
    rows.apply("Write", JdbcIO.<String>write()
        .withDataSourceConfiguration(JdbcIO.DataSourceConfiguration.create("org.postgresql.Driver", o.getJdbcUrl()))
        .withBatchSize(10)
        .withStatement("insert into " + o.getTable() + " (id, part, off, produced, writer) values (?, ?, ?, ?, ?) " + o.getOnConflict())
        .withPreparedStatementSetter((row, statement) -> {
          String[] f = row.split("\\|", 5);
          statement.setLong(1, Long.parseLong(f[0]));
          statement.setInt(2, Integer.parseInt(f[1]));
          statement.setLong(3, Long.parseLong(f[2]));
          statement.setLong(4, Long.parseLong(f[3]));
          statement.setString(5, f[4]);
        }));
    PipelineResult result = p.run();
    if (o.getWait()) {
      result.waitUntilFinish();
    }
  }

  private static PCollection<String> other(String name, PCollection<Long> values) {
    return values.apply(name + " to row", ParDo.of(new ToOtherRow())).setCoder(StringUtf8Coder.of());
  }
}
