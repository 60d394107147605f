package org.apache.beam.runners.flink.translation.wrappers.streaming.io.source;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.beam.sdk.io.BoundedSource;
import org.apache.beam.sdk.io.Source;
import org.apache.beam.sdk.io.UnboundedSource;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;

/**
 * Takes the place of the runner's class of this name, for a pipeline without its defect: splits are made and assigned once in the life of
 * a job and never again after a restore, when the readers have them from their own state.
 *
 * <p>The runner restores an enumerator by handing every entry of the checkpointed map to {@link #addSplitsBack} before {@link #start}.
 * The entry of a subtask that cannot exist tells that the checkpoint was taken after the splits had been made.
 */
public class FlinkSourceSplitEnumerator<T> implements SplitEnumerator<FlinkSourceSplit<T>, Map<Integer, List<FlinkSourceSplit<T>>>> {
  private static final int SPLITS_MADE = -1;

  private final SplitEnumeratorContext<FlinkSourceSplit<T>> context;
  private final Source<T> source;
  private final PipelineOptions options;
  private final int numSplits;
  private final Map<Integer, List<FlinkSourceSplit<T>>> unassigned = new TreeMap<>();
  private boolean splitsMade;

  public FlinkSourceSplitEnumerator(
      SplitEnumeratorContext<FlinkSourceSplit<T>> context, Source<T> source, PipelineOptions options, int numSplits) {
    this.context = context;
    this.source = source;
    this.options = options;
    this.numSplits = numSplits;
  }

  @Override public void start() {
    if (splitsMade) {
      return; // readers that register take what is left
    }
    context.callAsync(this::split, (parts, failure) -> {
      if (failure != null) {
        throw new IllegalStateException("split " + source, failure);
      }
      for (int i = 0; i < parts.size(); i++) {
        unassigned.computeIfAbsent(i % context.currentParallelism(), subtask -> new ArrayList<>())
            .add(new FlinkSourceSplit<>(i, parts.get(i)));
      }
      splitsMade = true;
      for (int subtask : List.copyOf(context.registeredReaders().keySet())) {
        assign(subtask);
      }
    });
  }

  private List<Source<T>> split() throws Exception {
    if (source instanceof BoundedSource) {
      BoundedSource<T> bounded = (BoundedSource<T>) source;
      return new ArrayList<>(bounded.split(bounded.getEstimatedSizeBytes(options) / numSplits, options));
    }
    return new ArrayList<>(((UnboundedSource<T, ?>) source).split(numSplits, options));
  }

  private void assign(int subtask) {
    List<FlinkSourceSplit<T>> splits = unassigned.remove(subtask);
    if (splits != null) {
      context.assignSplits(new SplitsAssignment<>(Map.of(subtask, splits)));
    }
    context.signalNoMoreSplits(subtask);
  }

  @Override public void addReader(int subtask) {
    if (splitsMade) {
      assign(subtask);
    }
  }

  @Override public void addSplitsBack(List<FlinkSourceSplit<T>> splits, int subtask) {
    if (subtask == SPLITS_MADE) {
      splitsMade = true;
      return;
    }
    unassigned.computeIfAbsent(subtask, s -> new ArrayList<>()).addAll(splits);
  }

  @Override public void handleSplitRequest(int subtask, String host) {}

  @Override public Map<Integer, List<FlinkSourceSplit<T>>> snapshotState(long checkpoint) {
    Map<Integer, List<FlinkSourceSplit<T>>> state = new TreeMap<>(unassigned);
    if (splitsMade) {
      state.put(SPLITS_MADE, new ArrayList<>());
    }
    return state;
  }

  @Override public void close() {}
}
