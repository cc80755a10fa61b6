"""Brokers come and go, topics are made and deleted, in any order: afterwards store, leaders and metadata agree."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import random_uuid
from barnabas.zk.znodes.topic_zk_data import NO_LEADER, LeaderAndIsr
from tests.support.controller_cluster import Cluster, RecordingBroker

BROKERS = (0, 1, 2)
TOPICS = ("a", "b")

_steps = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(TOPICS), st.permutations(BROKERS), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS)),
    st.tuples(st.just("start"), st.sampled_from(BROKERS)),
    st.tuples(st.just("stop"), st.sampled_from(BROKERS)),
    st.tuples(st.just("expire"), st.sampled_from(BROKERS)),
    st.tuples(st.just("refuse"), st.sampled_from(BROKERS)),
    st.tuples(st.just("accept"), st.sampled_from(BROKERS)),
    st.tuples(st.just("catch up"), st.sampled_from(TOPICS)),
    st.tuples(st.just("deliver")),
    st.tuples(st.just("settle")),
)


class Simulation:
    """Applies steps, as far as they make sense, and checks what must hold whenever nothing is on its way."""

    def __init__(self) -> None:
        self.cluster = Cluster(*BROKERS)
        # A broker that goes on after its session expired may have missed a deletion, and so may all when the controller
        # goes in the middle of one. Nothing tells them later: a full UpdateMetadata names living topics only. Apache
        # Kafka has this too.
        self.may_miss_deletions: set[int] = set()
        # As some controller was told; another one may not know it yet.
        self.refusing: set[int] = set()
        self.leader_epochs: dict[tuple[bytes, int], int] = {}

    def step(self, name: str, *arguments: object) -> None:
        getattr(self, name.replace(" ", "_"))(*arguments)

    def create(self, topic: str, order: list[int], replicas: int) -> None:
        zk = self.cluster.active.zk if self._has_controller() else None
        if zk is not None and not zk.topics.exists(topic):
            zk.topics.create(topic, random_uuid(), {0: order[:replicas], 1: order[-replicas:]}, {})

    def delete(self, topic: str) -> None:
        if self._has_controller():
            zk = self.cluster.active.zk
            if zk.topics.exists(topic) and not zk.topics.is_marked_for_deletion(topic):
                zk.topics.request_deletion(topic)

    def start(self, broker_id: int) -> None:
        if broker_id not in self.cluster.brokers:
            self.may_miss_deletions.discard(broker_id)
            self.refusing.discard(broker_id)
            self.cluster.start(broker_id)

    def stop(self, broker_id: int) -> None:
        if broker_id in self.cluster.brokers and len(self.cluster.brokers) > 1:
            broker = self.cluster.brokers[broker_id]
            self._miss_deletions_of(broker)
            broker.stop()

    def expire(self, broker_id: int) -> None:
        if broker_id in self.cluster.brokers:
            self.may_miss_deletions.add(broker_id)
            self._miss_deletions_of(self.cluster.brokers[broker_id])
            self.cluster.brokers[broker_id].session.expire()

    def _miss_deletions_of(self, broker: RecordingBroker) -> None:
        """Note that a controller goes, perhaps in the middle of a deletion."""
        if broker.controller.is_active and broker.zk.topics.deletions():
            self.may_miss_deletions.update(self.cluster.brokers)

    def refuse(self, broker_id: int) -> None:
        """Nothing listens at the broker's address, and its session lasts."""
        if broker_id in self.cluster.brokers:
            self.refusing.add(broker_id)
            self.cluster.brokers[broker_id].become_reachable(False)

    def accept(self, broker_id: int) -> None:
        if broker_id in self.cluster.brokers:
            self.refusing.discard(broker_id)
            self.cluster.brokers[broker_id].become_reachable(True)

    def catch_up(self, topic: str) -> None:
        """All live replicas are in sync again: the leader writes that, as it does through AlterPartition."""
        self.settle()
        zk = self.cluster.active.zk
        for found in zk.topics.assignments([topic]):
            for partition, assignment in found.assignment.items():
                states = zk.topics.partition_states([partition])
                if partition in states and states[partition].leader_and_isr.leader != NO_LEADER:
                    self._join_isr(partition, states[partition].leader_and_isr, assignment.replicas)
        self.cluster.settle()

    def _join_isr(self, partition: TopicPartition, state: LeaderAndIsr, replicas: tuple[int, ...]) -> None:
        isr = tuple(replica for replica in replicas if replica in self.cluster.brokers)
        grown = LeaderAndIsr(state.leader, state.leader_epoch, isr, partition_epoch=state.partition_epoch)
        epoch = self.cluster.active.controller.epoch
        self.cluster.active.zk.topics.update_leader_and_isr({partition: grown}, epoch, -1)

    def deliver(self) -> None:
        self.cluster.store.deliver()

    def settle(self) -> None:
        self.cluster.settle()
        self.check()

    def _has_controller(self) -> bool:
        return any(broker.controller.is_active for broker in self.cluster.brokers.values())

    def check(self) -> None:
        cluster = self.cluster
        active = [broker.id for broker in cluster.brokers.values() if broker.controller.is_active]
        assert len(active) == 1
        zk = cluster.active.zk
        deleting = zk.topics.deletions()
        topics = {found.topic: found for found in zk.topics.assignments(zk.topics.all_topics())}
        for broker in cluster.brokers.values():
            image = broker.cache.image
            assert image.controller_id == active[0]
            assert set(image.brokers) == set(cluster.brokers)
            if broker.id not in self.may_miss_deletions:
                assert set(image.topics) <= set(topics) - deleting
        for topic in set(topics) - deleting:
            topic_id = topics[topic].topic_id
            assert topic_id is not None
            for partition, assignment in topics[topic].assignment.items():
                self._check_partition(topic_id, partition, assignment.replicas)

    def _check_partition(self, topic_id: bytes, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        live = [replica for replica in replicas if replica in self.cluster.brokers]
        states = self.cluster.active.zk.topics.partition_states([partition])
        if partition not in states:
            assert self.refusing.issuperset(live)  # never led: none of its brokers was up since
            return
        state = states[partition].leader_and_isr
        in_sync = [replica for replica in live if replica in state.isr]
        assert (state.leader in in_sync) or self.refusing.issuperset(in_sync)
        assert state.leader in (*live, NO_LEADER)
        assert state.isr
        key = (topic_id, partition.partition)
        assert state.leader_epoch >= self.leader_epochs.get(key, 0)
        self.leader_epochs[key] = state.leader_epoch
        for broker in self.cluster.brokers.values():
            known = broker.cache.image.partition(partition)
            assert known is not None
            assert (known.leader, known.leader_epoch) == (state.leader, state.leader_epoch)
            assert broker.cache.image.topic_names[topic_id] == partition.topic


@settings(max_examples=60, deadline=None)
@example([("create", "a", [0, 1, 2], 1), ("catch up", "a"), ("delete", "a"), ("stop", 0)])
@given(st.lists(_steps, max_size=25))
def test_store_leaders_and_metadata_agree(steps: list[tuple[str, ...]]) -> None:
    simulation = Simulation()
    for name, *arguments in steps:
        simulation.step(name, *arguments)
    simulation.settle()
    # once every broker is back and can be reached, everything is led and everything asked for is deleted
    for broker_id in BROKERS:
        simulation.start(broker_id)
        simulation.accept(broker_id)
    simulation.settle()
    zk = simulation.cluster.active.zk
    assert zk.topics.deletions() == set()
    for found in zk.topics.assignments(zk.topics.all_topics()):
        for state in zk.topics.partition_states(list(found.assignment)).values():
            assert state.leader_and_isr.leader != NO_LEADER
