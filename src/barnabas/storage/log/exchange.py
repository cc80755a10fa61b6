"""The end of a log's move into another log directory: the log and its copy exchange their files.

The partition's UnifiedLog stays the same object while its files are replaced: the partition, requests that wait and
coordinators hold it, and go on with it. Called by UnifiedLog under the locks of both.
Kafka: Partition.maybeReplaceCurrentWithFutureReplica, which replaces the log object.
"""

from __future__ import annotations

from typing import Final

from barnabas.storage.log.state import LogState

_EXCHANGED: Final = ("local", "leader_epochs", "producers", "failures", "identity")


def exchange(state: LogState, future: LogState) -> None:
    """Exchange the files of a log and its copy, and keep what only the log knows. Under both locks.

    The copy has the log's high watermark already. Epochs that no batch has, producers whose batches retention has
    deleted, and verifications are not in the copy. Reads and writes no file, so that nothing fails half-way.
    """
    bounds = state.bounds
    epochs, producers = state.leader_epochs.entries, state.producers.states
    for name in _EXCHANGED:
        own = getattr(state, name)
        setattr(state, name, getattr(future, name))
        setattr(future, name, own)
    state.leader_epochs.replace(epochs)
    state.producers.states, future.producers.states = producers, state.producers.states
    # The first unstable offset stays: batches lie at the same places in both.
    state.bounds = bounds.with_high_watermark(future.bounds.high_watermark)
    # Whatever was due to be written for the old files is due for the new ones.
    state.is_ready = False
    # What the copy has left to the background is looked for in these files by nobody else any more.
    for offset in state.producers.begun_offsets():
        state.flush_later(offset, snapshot_taken=True)
