"""The registration in the store of topics whose logs exist: assignments, leaders, settings, producer ids in use.

Called by `broker.log_adoption` on the command line's thread, with a store that no other program has open; blocks on the
store. Existing znodes are compared and left alone, so that a second run, or one after a crash, changes nothing more.
Kafka has no counterpart; the znodes are those that its controller writes for a topic that is led.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from barnabas.metadata.producer_ids import BLOCK_SIZE
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import random_uuid
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.store import ANY_VERSION
from barnabas.zk.znodes.broker_zk_data import ProducerIdsBlock
from barnabas.zk.znodes.config_znodes import ConfigEntityType
from barnabas.zk.znodes.topic_zk_data import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
)

# Bounds what one transaction of the store holds in memory.
PARTITIONS_PER_BATCH = 1000


class AdoptedTopic(NamedTuple):
    """A topic to be adopted. latest_epochs: the newest leader epoch in the log of each partition, -1 for none.

    From now on a partition is led in a higher epoch.
    """

    name: str
    topic_id: bytes | None
    latest_epochs: Mapping[int, int]
    configs: Mapping[str, str]


class TopicChange(NamedTuple):
    """The parts of a topic that the store lacks: the topic, partitions, leaders in new enough epochs, settings."""

    topic: AdoptedTopic
    is_new: bool
    new_partitions: Sequence[int]
    newly_led: Sequence[int]
    configs: Mapping[str, str] | None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.is_new or self.new_partitions or self.newly_led or self.configs is not None)


class TopicConflict(Exception):
    """The error that the store has another topic of this name, or other brokers for a partition, as its text says."""


class TopicAdoption:
    """The adoption, which completes the store. Every partition has its one replica on `broker_id`.

    `known_topics` are the topics of the store when this object was made.
    """

    def __init__(self, zk_client: KafkaZkClient, broker_id: int) -> None:
        self._zk = zk_client
        self._broker_id = broker_id
        self.known_topics = frozenset(zk_client.topics.all_topics())

    def compare(self, topic: AdoptedTopic) -> TopicChange:
        """Return the change that a topic needs. Raises TopicConflict: the store contradicts the logs."""
        name = topic.name
        found = next(iter(self._zk.topics.assignments([name])), None) if name in self.known_topics else None
        if found is None:
            return TopicChange(topic, True, sorted(topic.latest_epochs), sorted(topic.latest_epochs), topic.configs)
        if self._zk.topics.is_marked_for_deletion(name):
            raise TopicConflict(f"topic {name} is being deleted: start the broker once so that the deletion finishes")
        self._check(topic, found)
        known = {key.partition for key in found.assignment}
        states = self._states(topic.name, topic.latest_epochs)
        newly_led = [
            number
            for number, latest in sorted(topic.latest_epochs.items())
            if number not in states or states[number].leader_and_isr.leader_epoch < latest
        ]
        new_partitions = sorted(topic.latest_epochs.keys() - known)
        return TopicChange(topic, False, new_partitions, newly_led, self._changed_configs(topic))

    def write(self, changes: Sequence[TopicChange]) -> None:
        """Write changes: each topic in one batch, then all leaders in few batches. Raises StoreError."""
        for change in changes:
            topic = change.topic
            if change.is_new:
                assignment = dict.fromkeys(sorted(topic.latest_epochs), (self._broker_id,))
                self._zk.topics.create(topic.name, topic.topic_id or random_uuid(), assignment, topic.configs)
            else:
                self._grow(topic, change.new_partitions)
                if change.configs is not None:
                    self._zk.configs.set_or_create(ConfigEntityType.TOPIC, topic.name, change.configs)
        latest = {
            TopicPartition(change.topic.name, number): change.topic.latest_epochs[number]
            for change in changes
            for number in change.newly_led
        }
        waiting = iter(latest.items())
        while batch := dict(islice(waiting, PARTITIONS_PER_BATCH)):
            self._lead(batch)

    def reserve_producer_ids(self, highest: int) -> int | None:
        """Reserve the producer ids up to `highest`. Return the first free one, or None if they were reserved already.

        The block behind `highest` is reserved too: Kafka may have given out ids of it that have written nothing yet.
        """
        first_free = (highest // BLOCK_SIZE + 2) * BLOCK_SIZE
        current, version = self._zk.producer_id_block()
        if highest < 0 or (current is not None and current.last_producer_id >= highest):
            return None
        block = ProducerIdsBlock(self._broker_id, first_free - BLOCK_SIZE, BLOCK_SIZE)
        self._zk.update_producer_id_block(block, version)
        return first_free

    def _check(self, topic: AdoptedTopic, found: TopicIdReplicaAssignment) -> None:
        """Compare a topic with the store. Raises TopicConflict: the ids or the brokers differ."""
        # Topics of Kafka before 2.8 have no id (KIP-516).
        if None not in (topic.topic_id, found.topic_id) and topic.topic_id != found.topic_id:
            raise TopicConflict(f"the metadata store has another topic named {topic.name}, with another topic id")
        for key, assignment in found.assignment.items():
            if key.partition in topic.latest_epochs and assignment.replicas != (self._broker_id,):
                raise TopicConflict(f"the metadata store assigns {key} to the brokers {list(assignment.replicas)}")

    def _changed_configs(self, topic: AdoptedTopic) -> Mapping[str, str] | None:
        present = self._zk.configs.entity(ConfigEntityType.TOPIC, topic.name)
        wanted = {**present, **topic.configs}
        return wanted if wanted != present else None

    def _grow(self, topic: AdoptedTopic, partitions: Iterable[int]) -> None:
        added = {TopicPartition(topic.name, number): ReplicaAssignment((self._broker_id,)) for number in partitions}
        if added:
            (found,) = self._zk.topics.assignments([topic.name])
            self._zk.topics.set_assignment(topic.name, found.topic_id, {**found.assignment, **added})

    def _lead(self, latest_epochs: Mapping[TopicPartition, int]) -> None:
        """Write this broker as leader in the next epochs. Missing states are created. Raises StoreError."""
        controller_epoch, _ = self._zk.controller_epoch() or (0, 0)
        present = self._zk.topics.partition_states(latest_epochs.keys())
        new: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        raised: dict[TopicPartition, LeaderAndIsr] = {}
        for key, latest in latest_epochs.items():
            # Above every epoch in the log: an epoch that was used before would be fenced, or mistaken for the earlier
            # leader's.
            leadership = LeaderAndIsr(self._broker_id, latest + 1, (self._broker_id,))
            if key in present:
                raised[key] = leadership.with_partition_epoch(present[key].leader_and_isr.partition_epoch)
            else:
                new[key] = LeaderIsrAndControllerEpoch(leadership, controller_epoch)
        created = self._zk.topics.create_partition_states(new, ANY_VERSION)
        updated = self._zk.topics.update_leader_and_isr(raised, controller_epoch, ANY_VERSION)
        for outcome in (*created.values(), *updated.finished.values()):
            if isinstance(outcome, Exception):
                raise outcome

    def _states(self, topic: str, partitions: Iterable[int]) -> dict[int, LeaderIsrAndControllerEpoch]:
        found = self._zk.topics.partition_states([TopicPartition(topic, number) for number in partitions])
        return {key.partition: state for key, state in found.items()}
