package beamlab;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads Kafka with Flink's connector, one source a topic, and writes a row a record over JDBC.
 *
 * <pre>
 * --bootstrap B --jdbcUrl U       both required
 * --topics T[,T]                  each a source of its own
 * --group G (flink)  --table T (rows)
 * --pause MS (0)                  that writing one record takes longer than it has to
 * --bounded true                  stop at the offsets that are the last ones when the job starts
 * --legacy true                   FlinkKafkaConsumer instead of KafkaSource, where the connector has it
 * </pre>
 *
 * Beside the file that the system property "sink" names, a file "fail" makes the task of the next record fail, and a file "stick" makes
 * the next poll of a KafkaSource not return and ignore interrupts; both are deleted by whom they hit.
 */
public class KafkaSourceJob {
  /** A record as [id, partition, offset, epoch millis]. */
  static class ToRow implements KafkaRecordDeserializationSchema<long[]> {
    @Override public void deserialize(ConsumerRecord<byte[], byte[]> r, Collector<long[]> out) { out.collect(row(r)); }

    @Override public TypeInformation<long[]> getProducedType() { return TypeInformation.of(long[].class); }
  }

  static long[] row(ConsumerRecord<byte[], byte[]> r) {
    return new long[] {Long.parseLong(new String(r.value())), r.partition(), r.offset(), r.timestamp()};
  }

  static class Write extends RichMapFunction<long[], Long> {
    private final String url;
    private final String table;
    private final long pause;
    private transient Connection connection;
    private transient PreparedStatement insert;
    private transient String writer;

    Write(Args args) {
      url = args.get("jdbcUrl", null);
      table = args.get("table", "rows");
      pause = Long.parseLong(args.get("pause", "0"));
    }

    @Override public Long map(long[] row) throws Exception {
      if (Files.deleteIfExists(besideSink("fail"))) {
        throw new IllegalStateException("asked to fail");
      }
      Thread.sleep(pause);
      if (connection == null) { // not in open(), whose parameter has another type in Flink 2
        connection = DriverManager.getConnection(url);
        insert = connection.prepareStatement("insert into " + table + " (id, part, off, produced, writer) values (?, ?, ?, ?, ?)");
        writer = Thread.currentThread().getName() + "@" + UUID.randomUUID().toString().substring(0, 8);
      }
      for (int i = 0; i < row.length; i++) {
        insert.setLong(i + 1, row[i]);
      }
      insert.setString(5, writer);
      insert.executeUpdate();
      return row[0];
    }

    @Override public void close() throws Exception {
      if (connection != null) {
        connection.close();
      }
    }
  }

  /** Keeps one poll from returning for ever, as a client stuck in native code does. */
  public static class Stick implements ConsumerInterceptor<byte[], byte[]> {
    @Override public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
      boolean stick;
      try {
        stick = Files.deleteIfExists(besideSink("stick"));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
      while (stick) {
        try {
          Thread.sleep(60_000);
        } catch (InterruptedException ignored) {
          // that is the point
        }
      }
      return records;
    }

    @Override public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {}

    @Override public void close() {}

    @Override public void configure(Map<String, ?> configs) {}
  }

  static Path besideSink(String name) {
    return Paths.get(System.getProperty("sink", "/nonexistent/sink")).resolveSibling(name);
  }

  /** "--key value" pairs. */
  static final class Args {
    private final Map<String, String> values = new HashMap<>();

    Args(String[] args) {
      for (int i = 0; i < args.length; i += 2) {
        if (!args[i].startsWith("--") || i + 1 == args.length) {
          throw new IllegalArgumentException("want --key value, got " + args[i]);
        }
        values.put(args[i].substring(2), args[i + 1]);
      }
    }

    String get(String key, String otherwise) {
      String value = values.getOrDefault(key, otherwise);
      if (value == null) {
        throw new IllegalArgumentException("--" + key + " is missing");
      }
      return value;
    }
  }

  public static void main(String[] argv) throws Exception {
    Args args = new Args(argv);
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    DataStream<long[]> rows = null;
    for (String topic : args.get("topics", null).split(",")) {
      DataStream<long[]> source = args.get("legacy", "false").equals("true") ? legacy(env, args, topic) : source(env, args, topic);
      rows = rows == null ? source : rows.union(source);
    }
    rows.map(new Write(args)).name("Write").filter(id -> false).returns(Types.LONG).print().name("Nothing");
    env.execute("kafka-pipeline");
  }

  private static DataStream<long[]> source(StreamExecutionEnvironment env, Args args, String topic) {
    var builder = KafkaSource.<long[]>builder()
        .setBootstrapServers(args.get("bootstrap", null))
        .setTopics(topic)
        .setGroupId(args.get("group", "flink"))
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setProperty("interceptor.classes", Stick.class.getName())
        .setDeserializer(new ToRow());
    if (args.get("bounded", "false").equals("true")) {
      builder.setBounded(OffsetsInitializer.latest());
    }
    return env.fromSource(builder.build(), WatermarkStrategy.noWatermarks(), "Read " + topic);
  }

  /** By reflection: the class is compiled only where the connector still has FlinkKafkaConsumer. */
  @SuppressWarnings("unchecked")
  private static DataStream<long[]> legacy(StreamExecutionEnvironment env, Args args, String topic) throws Exception {
    Properties properties = new Properties();
    properties.setProperty("bootstrap.servers", args.get("bootstrap", null));
    properties.setProperty("group.id", args.get("group", "flink"));
    properties.setProperty("auto.offset.reset", "earliest");
    return (DataStream<long[]>) Class.forName("beamlab.LegacyKafka")
        .getDeclaredMethod("read", StreamExecutionEnvironment.class, List.class, Properties.class)
        .invoke(null, env, List.of(topic), properties);
  }
}
