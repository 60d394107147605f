package lab;

import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.RichParallelSourceFunction;

/**
 * A source of the old interface, gone in Flink 2. Flink runs it in a thread of its own, "Legacy Source Thread - TASK". Since 1.12 the task
 * waits for that thread, so a source that ignores cancellation keeps its task alive (stuck). A reader thread that such a source started
 * and named after the current thread, as thread factories do, is left behind when source and task have ended (leak).
 */
public class LegacySource extends RichParallelSourceFunction<Long> {
  private final boolean leak;
  private volatile boolean running = true;

  LegacySource(boolean leak) { this.leak = leak; }

  static DataStream<Long> add(StreamExecutionEnvironment env, String name, boolean leak) {
    return env.addSource(new LegacySource(leak)).name(name);
  }

  @Override public void run(SourceContext<Long> out) throws Exception {
    if (leak) {
      LineageJob.startThread(Thread.currentThread().getName(), 0, 200);
    }
    for (long i = 0; running || !leak; i++) {
      try {
        Thread.sleep(200);
      } catch (InterruptedException e) {
        if (leak) {
          return;
        }
        continue; // stuck: nothing ends it
      }
      synchronized (out.getCheckpointLock()) {
        out.collect(i);
      }
    }
  }

  @Override public void cancel() { running = false; }
}
