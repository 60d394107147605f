package lab;

import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.RichParallelSourceFunction;

/**
 * A source of the old interface, gone in Flink 2. Flink runs it in a thread of its own, "Legacy Source Thread - TASK". Since 1.12 the task
 * waits for that thread, so a source that ignores cancellation keeps its task alive (stuck). A thread that the source starts when it ends,
 * to finish something, and that it names after the current thread, as thread factories do, outlives source and task (leak).
 */
public class LegacySource extends RichParallelSourceFunction<Long> {
  private final boolean leak;
  private volatile boolean running = true;

  LegacySource(boolean leak) { this.leak = leak; }

  static DataStream<Long> add(StreamExecutionEnvironment env, String name, boolean leak) {
    return env.addSource(new LegacySource(leak)).name(name);
  }

  @Override public void run(SourceContext<Long> out) throws Exception {
    try {
      for (long i = 0; running || !leak; i++) {
        pause();
        synchronized (out.getCheckpointLock()) {
          out.collect(i);
        }
      }
    } finally {
      if (leak) {
        LineageJob.startThread(Thread.currentThread().getName(), 200);
      }
    }
  }

  private void pause() {
    try {
      Thread.sleep(200);
    } catch (InterruptedException e) {
      // leak: cancel() has said the same; stuck: nothing ends it
    }
  }

  @Override public void cancel() { running = false; }
}
