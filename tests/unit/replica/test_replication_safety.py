"""Whoever may be elected has all that was acknowledged: histories of followers, lag, and a store that answers late.

The model is the cluster: what the store says the in-sync replicas are, and what each follower has. A change of the ISR
is written when its version fits, and the leader hears of it later, or an election comes first.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.errors import ErrorCode
from tests.unit.replica.replica_harness import AlterPartitionRequested, Replicas
from tests.unit.storage.log_harness import Broker, batch, log_config

US = 0
FOLLOWERS = (1, 2)
ALL = (US, *FOLLOWERS)
LAG_MS = 30_000
EVERYTHING = 1000

followers = st.sampled_from(FOLLOWERS)
step = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("follow"), followers, st.sampled_from([0, 1, 2, EVERYTHING, EVERYTHING])),
    st.tuples(st.just("lag"), st.sampled_from([1000, LAG_MS + 1, LAG_MS + 1])),
    st.tuples(st.just("write")),
    st.tuples(st.just("answer")),
    st.tuples(st.just("elect")),
    st.tuples(st.just("lose"), followers),
    st.tuples(st.just("alive"), st.sets(followers)),
)


class Cluster:
    """A leader that never changes, the store, and followers by the end of their logs."""

    def __init__(self, min_isr: int, isr: tuple[int, ...]) -> None:
        self.replicas = Replicas(Broker(config=log_config(min_insync_replicas=min_isr)))
        self.replicas.brokers_alive(*ALL)
        self.ends = dict.fromkeys(FOLLOWERS, 0)
        self.isr = isr
        self.version = 0
        self.leader_epoch = 0
        self.unwritten: list[AlterPartitionRequested] = []
        self.unanswered: list[tuple[AlterPartitionRequested, bool]] = []
        self.taken = 0
        self.produced: list[tuple[int, list[Any]]] = []
        self.tell()

    @property
    def log(self) -> Any:
        return self.replicas.partition().log

    def tell(self) -> None:
        self.replicas.lead(
            leader_epoch=self.leader_epoch, partition_epoch=self.version, isr=self.isr, replicas=ALL, is_new=False
        )

    def append(self, count: int) -> None:
        answered = self.replicas.append(("topic", 0, batch(count)), acks=-1, timeout_ms=10**9)
        self.produced.append((self.log.log_end_offset, answered))

    def follow(self, follower: int, records: int) -> None:
        """It has written so many records more, and fetches on."""
        self.ends[follower] = min(self.ends[follower] + records, self.log.log_end_offset)
        self.replicas.follow(self.ends[follower], replica_id=follower)

    def lag(self, milliseconds: int) -> None:
        self.replicas.clock.advance(milliseconds)
        self.replicas.manager.shrink_isrs()

    def write(self) -> None:
        """The store takes the next change that waits, if nobody wrote since."""
        self.unwritten += self.replicas.alter_partitions.requested[self.taken :]
        self.taken = len(self.replicas.alter_partitions.requested)
        if self.unwritten:
            change = self.unwritten.pop(0)
            fits = change.wanted.partition_epoch == self.version
            if fits:
                self.version += 1
                self.isr = change.wanted.isr
            self.unanswered.append((change, fits))

    def answer(self) -> None:
        if self.unanswered:
            change, fits = self.unanswered.pop(0)
            if fits:
                change.write()
            else:
                change.refuse(ErrorCode.INVALID_UPDATE_VERSION)

    def elect(self) -> None:
        """The controller writes a new epoch and tells."""
        self.version += 1
        self.leader_epoch += 1
        self.tell()

    def lose(self, follower: int) -> None:
        """The controller takes a dead follower out of the ISR, whatever it is."""
        self.isr = tuple(replica for replica in self.isr if replica != follower)
        self.elect()

    def alive(self, alive: set[int]) -> None:
        self.replicas.brokers_alive(US, *alive)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(step, min_size=8, max_size=30),
    st.sampled_from([1, 2]),
    st.sampled_from([ALL, (US,), (US, FOLLOWERS[0])]),
)
def test_every_replica_that_may_lead_has_what_was_acknowledged(
    history: list[tuple[Any, ...]], min_isr: int, isr: tuple[int, ...]
) -> None:
    cluster = Cluster(min_isr, isr)
    high_watermark = 0
    for what, *arguments in history:
        getattr(cluster, what)(*arguments)
        assert high_watermark <= cluster.log.high_watermark <= cluster.log.log_end_offset
        high_watermark = cluster.log.high_watermark
        for replica in cluster.isr:
            assert replica == US or cluster.ends[replica] >= high_watermark
        for end, answered in cluster.produced:
            acknowledged = any(entry.error is ErrorCode.NONE for entry in answered)
            assert acknowledged <= (end <= high_watermark)
            assert len(answered) <= 1
