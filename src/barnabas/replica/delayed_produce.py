"""A produce with acks=all that waits until every in-sync replica has it.

Made by ReplicaAppender, tried whenever a high watermark moves or leadership changes, expired by the timer.
Kafka: DelayedProduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replica.partition_append import PartitionAppend


class DelayedProduce(DelayedOperation):
    """Completes when every partition is decided:

    Case A: the partition is not led here any more: NOT_LEADER_OR_FOLLOWER.
    Case B: its high watermark reached the required offset: success, or NOT_ENOUGH_REPLICAS_AFTER_APPEND when the
            in-sync replicas are fewer than `min.insync.replicas` by then.
    On time-out the undecided ones answer REQUEST_TIMED_OUT.
    """

    __slots__ = ("_entries", "_on_decided", "_undecided")

    def __init__(
        self,
        timeout_ms: int,
        entries: Sequence[PartitionAppend],
        on_complete: Callable[[Sequence[PartitionAppend]], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._entries = entries
        self._undecided = [entry for entry in entries if entry.hosted_by is not None]
        self._on_decided = on_complete

    def try_complete(self) -> bool:
        """Decide what can be decided (cases A and B of the class)."""
        still_undecided = []
        for entry in self._undecided:
            partition = entry.hosted_by
            outcome = ErrorCode.NONE if partition is None else partition.is_replicated_up_to(entry.required_offset)
            if outcome is None:
                still_undecided.append(entry)
            elif outcome is not ErrorCode.NONE:
                entry.failure = ApiError(outcome)
        self._undecided = still_undecided
        return not still_undecided and self.force_complete()

    def on_complete(self) -> None:
        """Answer; what is undecided ran out of time."""
        for entry in self._undecided:
            entry.failure = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        self._on_decided(self._entries)
