"""The heartbeat of a consumer group's member, and its answer (KIP-848).

Terms are made by the handler, answers by `consumer.heartbeat`; immutable. The handler imports this at start, so
this module imports none of the others, which are loaded with the first consumer group.
Kafka: ConsumerGroupHeartbeat{Request,Response}Data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeAlias

from barnabas.protocol.errors import ErrorCode

MayDescribe: TypeAlias = Callable[[Collection[str]], AbstractSet[str]]
"""Returns those of the topics (names) that a member is allowed to see."""
PartitionEpochs: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which the member got the partition. No topic without a partition."""


class HeartbeatTerms(NamedTuple):
    """A ConsumerGroupHeartbeat request. None, or -1 for the timeout (ms), leaves the member's value as it was.

    needs_member_id: the member must make its own id. owned: topic id -> partitions. may_describe: filters the topics
    that a regular expression matches.
    """

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: Collection[str] | None = None
    # v1: the broker resolves the regular expression, and the member names its own id (KIP-1082).
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Mapping[bytes, AbstractSet[int]] | None = None
    needs_member_id: bool = False
    may_describe: MayDescribe = frozenset

    @property
    def is_full(self) -> bool:
        """Whether the request has all values, as from a member that joins or that has missed an answer."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.owned is not None
        )


class HeartbeatAnswer(NamedTuple):
    """The answer to a ConsumerGroupHeartbeat. assignment: None when the member knows it already."""

    error: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: PartitionEpochs | None = None
