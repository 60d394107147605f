package lab;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A source, a map that writes to the outside, a shuffle, a map. Every write appends "epoch-millis thread@instance value" to the file
 * named by the system property "sink", so that double work can be counted. When a file "fail" appears beside the sink, one writing task of
 * that TaskManager deletes it and fails.
 *
 * <pre>
 * --mode M          plain        tasks end when they are cancelled (default)
 *                   zombie       the writing map ignores cancellation and goes on writing, as user code with a loop of its own does
 *                   leak-thread  tasks end, but a thread that the writing map started goes on writing
 *                   leak-source  the source is a legacy SourceFunction that leaves a thread behind when it ends (Flink 1.x only)
 *                   stuck-source the source is a legacy SourceFunction that ignores cancellation (Flink 1.x only)
 * --zombie-on T     in mode zombie, only on the TaskManager of this name (tm1, tm2, ...)
 * --name N          the job's name (default beam-pipeline)
 * --source N        the source's name (default kafka-source)
 * --parallelism P   of all operators (default: the cluster's)
 * --shuffle B       false leaves the shuffle out, so that each subtask is a region of its own that restarts alone (default true)
 * --pause MS        between two writes of one task (default 200)
 * --bounded N       a batch job over N values instead of an endless stream
 * --slow-subtask I  of the writing map, 1-based, waits two minutes before its first value at attempt 0: what speculative execution is for
 * </pre>
 */
public class LineageJob {
  public static class Writer implements MapFunction<Long, Long> {
    private final String mode;
    private final String zombieOn;
    private final long pause;
    private final int slowSubtask;
    private transient String me;

    Writer(Args args) {
      mode = args.get("mode", "plain");
      zombieOn = args.get("zombie-on", "");
      pause = args.getLong("pause", 200);
      slowSubtask = (int) args.getLong("slow-subtask", 0);
    }

    @Override public Long map(Long v) throws Exception {
      if (me == null) {
        open();
      }
      if (Sink.FILE != null && Files.deleteIfExists(Sink.FILE.resolveSibling("fail"))) {
        throw new IllegalStateException("asked to fail");
      }
      try {
        Thread.sleep(pause);
        Sink.write(me, v);
        return v;
      } catch (Exception e) {
        if (!mode.equals("zombie") || !zombieOn.isEmpty() && !zombieOn.equals(Sink.taskManager())) {
          throw e;
        }
        writeForever(me, v, pause);
        return v;
      }
    }

    private void open() throws InterruptedException {
      String thread = Thread.currentThread().getName();
      me = thread + "@" + System.identityHashCode(this);
      if (thread.contains(" (" + slowSubtask + "/") && thread.endsWith("#0")) {
        Thread.sleep(120_000);
      }
      if (mode.equals("leak-thread")) {
        startThread("jdbc-flusher for " + thread, pause);
      }
    }
  }

  public static class Pass implements MapFunction<Long, Long> {
    @Override public Long map(Long v) { return v; }
  }

  /** Appends to the file that stands for the outside world. */
  static final class Sink {
    static final Path FILE = System.getProperty("sink") == null ? null : Paths.get(System.getProperty("sink"));

    static void write(String who, long value) throws IOException {
      if (FILE == null) {
        return;
      }
      byte[] line = (System.currentTimeMillis() + " " + who + " " + value + "\n").getBytes(StandardCharsets.UTF_8);
      Files.write(FILE, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** The sink lies in the folder of its TaskManager. */
    static String taskManager() { return FILE == null ? "" : FILE.getParent().getFileName().toString(); }
  }

  /** Writes on and on and swallows interrupts: what a task or thread does that cannot be cancelled. */
  static void writeForever(String who, long from, long pause) {
    for (long i = from; ; i++) {
      try {
        Thread.interrupted();
        Thread.sleep(pause);
        Sink.write(who, i);
      } catch (Exception ignored) {
        // nothing stops it
      }
    }
  }

  /** Starts a thread that nobody ends. */
  static void startThread(String name, long pause) {
    Thread t = new Thread(() -> writeForever(name + "@" + System.identityHashCode(Thread.currentThread()), 0, pause), name);
    t.setDaemon(true);
    t.start();
  }

  /** "--key value" pairs; Flink's own reader of them has another package in every major version. */
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

    String get(String key, String otherwise) { return values.getOrDefault(key, otherwise); }

    long getLong(String key, long otherwise) { return values.containsKey(key) ? Long.parseLong(values.get(key)) : otherwise; }
  }

  public static void main(String[] argv) throws Exception {
    Args args = new Args(argv);
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    if (args.getLong("parallelism", 0) > 0) {
      env.setParallelism((int) args.getLong("parallelism", 0));
    }
    long bound = args.getLong("bounded", 0);
    if (bound > 0) {
      env.setRuntimeMode(RuntimeExecutionMode.BATCH);
    }
    DataStream<Long> written = source(env, args, bound).map(new Writer(args)).name("jdbc-write");
    if (Boolean.parseBoolean(args.get("shuffle", "true"))) {
      written = written.rebalance();
    }
    written.map(new Pass()).name("audit").print().name("log");
    env.execute(args.get("name", "beam-pipeline"));
  }

  private static DataStream<Long> source(StreamExecutionEnvironment env, Args args, long bound) throws Exception {
    String mode = args.get("mode", "plain");
    String name = args.get("source", "kafka-source");
    if (mode.endsWith("-source")) {
      // by reflection: the class is compiled only where Flink still has SourceFunction
      return (DataStream<Long>) Class.forName("lab.LegacySource")
          .getDeclaredMethod("add", StreamExecutionEnvironment.class, String.class, boolean.class)
          .invoke(null, env, name, mode.equals("leak-source"));
    }
    return env.fromSequence(0, bound > 0 ? bound - 1 : Long.MAX_VALUE - 1).name(name);
  }
}
