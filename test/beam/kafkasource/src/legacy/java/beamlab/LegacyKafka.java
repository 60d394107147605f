package beamlab;

import java.util.List;
import java.util.Properties;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.connectors.kafka.FlinkKafkaConsumer;
import org.apache.flink.streaming.connectors.kafka.KafkaDeserializationSchema;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The consumer before KafkaSource, gone with connector 4. */
class LegacyKafka {
  static class ToRow implements KafkaDeserializationSchema<long[]> {
    @Override public boolean isEndOfStream(long[] row) { return false; }

    @Override public long[] deserialize(ConsumerRecord<byte[], byte[]> r) { return KafkaSourceJob.row(r); }

    @Override public TypeInformation<long[]> getProducedType() { return TypeInformation.of(long[].class); }
  }

  static DataStream<long[]> read(StreamExecutionEnvironment env, List<String> topics, Properties properties) {
    return env.addSource(new FlinkKafkaConsumer<>(topics, new ToRow(), properties)).name("Read " + String.join(",", topics));
  }
}
