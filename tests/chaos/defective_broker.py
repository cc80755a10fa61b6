"""A broker with a planted defect, to show that the campaign's checks find it.

    python tests/chaos/defective_broker.py early-high-watermark -m barnabas serve ...

The test kit calls it as the interpreter of its brokers. Each defect replaces one function before the broker starts.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.api.handlers import transaction_markers
from barnabas.cli.main import main
from barnabas.coordinator.group.group_loading import PartitionReplay
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.replica.fetcher.partition_fetch_state import FollowedState, FollowerLogPosition
from barnabas.replica.partitions.leader_state import LeaderState
from barnabas.replica.partitions.partition import Partition


def early_high_watermark() -> None:
    """Have leaders raise the high watermark to their own end: acks=all waits for no follower."""

    def raise_to_end(partition: Partition, state: LeaderState, now_ms: int) -> bool:
        return partition.log.raise_high_watermark_to_end()

    _plant(Partition, "follow_in_sync_replicas", raise_to_end)


def truncation_to_high_watermark() -> None:
    """Have followers cut their logs at their high watermark when the leader changes, as Kafka did before KIP-101."""
    begin = FollowedState.begin

    def at_high_watermark(topic_id: bytes, leader_epoch: int, log: FollowerLogPosition) -> FollowedState:
        return begin(
            topic_id, leader_epoch, FollowerLogPosition(log.start_offset, log.high_watermark, log.end_offset, -1)
        )

    _plant(FollowedState, "begin", at_high_watermark)


def lost_transaction() -> None:
    """Have the leader of a partition end every tenth transaction by an abort, committed ones too."""
    ends = itertools.count(1)

    def some_aborted(*, is_abort: bool, **fields: Any) -> EndTransactionMarker:
        return EndTransactionMarker(is_abort=is_abort or next(ends) % 10 == 0, **fields)

    _plant(transaction_markers, "EndTransactionMarker", some_aborted)


def forgotten_commits() -> None:
    """Have a group coordinator that loads its partition take the first commit of an offset instead of the last."""
    put = PartitionReplay._put

    def keep_first(replay: PartitionReplay, group: bytes, topic: str, partition: int, value: bytes | None) -> None:
        if value is None or partition not in replay.groups.get(group, {}).get(topic, {}):
            put(replay, group, topic, partition, value)

    _plant(PartitionReplay, "_put", keep_first)


def _plant(owner: object, name: str, defect: Callable[..., Any]) -> None:
    getattr(owner, name)  # a defect that replaces nothing would not be one
    setattr(owner, name, defect)


DEFECTS: Mapping[str, Callable[[], None]] = {
    "early-high-watermark": early_high_watermark,
    "truncation-to-high-watermark": truncation_to_high_watermark,
    "lost-transaction": lost_transaction,
    "forgotten-commits": forgotten_commits,
}


if __name__ == "__main__":
    DEFECTS[sys.argv[1]]()
    del sys.argv[1:4]  # the defect, and `-m barnabas`
    main()
