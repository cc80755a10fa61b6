"""The adoption of log directories of a stopped Apache Kafka: the metadata are built from what they contain.

Used by `barnabas log adopt` on its main thread, with no broker running: a `with` block holds the directories' locks and
the metadata store. The logs are not touched, since both brokers use the same files.

Kafka: no counterpart, but TransactionLogValue for the producer ids.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self, TypeVar

from barnabas.config.config_error import ConfigError
from barnabas.config.log_config import validate_topic_config
from barnabas.metadata.broker_registration import get_or_generate_cluster_id
from barnabas.metadata.topic_adoption import AdoptedTopic, TopicAdoption, TopicChange, TopicConflict
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, validate_topic_name
from barnabas.protocol.errors import ApiError
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.files import Files, OperatingSystemFiles
from barnabas.storage.directories.log_dir import DirectoryLock
from barnabas.storage.directories.meta_properties import MetaProperties, write_meta_properties
from barnabas.storage.directories.survey import (
    NO_PRODUCER_ID,
    FoundPartition,
    LogDirSurvey,
    batches_from,
    survey_log_dirs,
)
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.embedded_store import EmbeddedStore
from barnabas.zk.store.znode_table import DATABASE_NAME

_T = TypeVar("_T")

_VERSION_AND_PRODUCER_ID = struct.Struct(">hq")
"""The first fields of a value in `__transaction_state`, in every version."""
DEFAULT_BROKER_ID = 0
CLEANUP_POLICY = "cleanup.policy"
COORDINATOR_SEGMENT_BYTES = "104857600"
INTERNAL_TOPIC_CONFIGS: Mapping[str, Mapping[str, str]] = {
    GROUP_METADATA_TOPIC: {
        CLEANUP_POLICY: "compact",
        "compression.type": "producer",
        "segment.bytes": COORDINATOR_SEGMENT_BYTES,
    },
    TRANSACTION_STATE_TOPIC: {
        CLEANUP_POLICY: "compact",
        "compression.type": "uncompressed",
        # There is one replica.
        "min.insync.replicas": "1",
        "segment.bytes": COORDINATOR_SEGMENT_BYTES,
        "unclean.leader.election.enable": "false",
    },
}
"""The settings of Kafka's internal topics, which are in none of the files."""


@dataclass(frozen=True, slots=True)
class AdoptionOrder:
    """The directories to adopt, and the terms of the adoption.

    broker_id: of directories without one. metadata_dir: where the store goes, None for the first directory.
    topic_configs: settings by topic. ignore_leftovers: adopt beside directories of half-deleted or half-moved logs.
    """

    log_dirs: Sequence[str]
    metadata_dir: str | None = None
    broker_id: int | None = None
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ignore_leftovers: bool = False


@dataclass(frozen=True, slots=True)
class AdoptionPlan:
    """The effects of an adoption. With `refusals`, sentences for the user, it cannot be carried out."""

    broker_id: int
    cluster_id: str | None
    survey: LogDirSurvey
    changes: Sequence[TopicChange]
    highest_producer_id: int
    refusals: Sequence[str]

    @property
    def changed_topics(self) -> list[TopicChange]:
        """The topics that the store lacks, or lacks a part of."""
        return [change for change in self.changes if change.is_needed]


class LogAdoption:
    """One adoption, to be used in a `with` block.

    Raises LogDirectoryLocked, StoreUnavailableError, OSError. Until the adoption is carried out, a missing metadata
    store is an empty one in memory.
    """

    def __init__(self, order: AdoptionOrder, files: Files | None = None) -> None:
        self._order = order
        self._files = files or OperatingSystemFiles()
        self._held = ExitStack()
        self.log_dirs = list(dict.fromkeys(os.path.abspath(path) for path in order.log_dirs))
        self.metadata_dir = os.path.abspath(order.metadata_dir or order.log_dirs[0])

    def __enter__(self) -> Self:
        # If a lock or the store fails, this block releases what is held so far; `pop_all` keeps everything for
        # `__exit__`.
        with self._held:
            for path in self.log_dirs:
                self._held.callback(DirectoryLock(path).release)
            has_metadata = os.path.exists(os.path.join(self.metadata_dir, DATABASE_NAME))
            self._zk = self._open_store(self.metadata_dir if has_metadata else None)
            self._held = self._held.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._held.close()

    def plan(self) -> AdoptionPlan:
        """Compare the directories with the store. Changes nothing."""
        survey = survey_log_dirs(self.log_dirs, self._files)
        refusals = [*survey.problems, *self._refused_leftovers(survey)]
        broker_id = self._one_of(survey, lambda found: found.broker_id, "broker id", refusals)
        cluster_id = self._one_of(survey, lambda found: found.cluster_id, "cluster id", refusals)
        if broker_id is None:
            broker_id = DEFAULT_BROKER_ID if self._order.broker_id is None else self._order.broker_id
        elif self._order.broker_id not in (None, broker_id):
            refusals.append(f"the log directories belong to broker {broker_id}, not to broker {self._order.broker_id}")
        known_cluster_id = self._zk.cluster_id()
        if None not in (known_cluster_id, cluster_id) and known_cluster_id != cluster_id:
            refusals.append(
                f"{self.metadata_dir} holds the metadata of another cluster, {known_cluster_id}; the log directories"
                f" belong to cluster {cluster_id}"
            )
        adoption = TopicAdoption(self._zk, broker_id)
        refusals += self._unknown_policies(survey, adoption.known_topics)
        changes = self._compare(adoption, survey, refusals)
        # Of both places: a transactional id keeps its producer id after the last of its records has gone.
        highest = max(
            _highest_transaction_producer_id(survey.topics.get(TRANSACTION_STATE_TOPIC, ()), self._files),
            *(found.highest_producer_id for found in survey.partitions.values()),
            -1,
        )
        return AdoptionPlan(broker_id, cluster_id or known_cluster_id, survey, changes, highest, refusals)

    def carry_out(self, plan: AdoptionPlan) -> None:
        """Write the metadata, then mark the directories as this broker's. After a crash, a second run completes it."""
        if not os.path.exists(os.path.join(self.metadata_dir, DATABASE_NAME)):
            self._files.make_dirs(self.metadata_dir)
            self._zk = self._open_store(self.metadata_dir)
        self._zk.make_sure_persistent_paths_exist()
        if plan.cluster_id is not None:
            cluster_id = self._zk.create_or_get_cluster_id(plan.cluster_id)
        else:
            cluster_id = get_or_generate_cluster_id(self._zk)
        adoption = TopicAdoption(self._zk, plan.broker_id)
        # Before the topics: with topics, a broker can start, and must not give out the id of a producer of Kafka's
        # again.
        adoption.reserve_producer_ids(plan.highest_producer_id)
        adoption.write(plan.changed_topics)
        for directory, present in plan.survey.meta_properties.items():
            wanted = MetaProperties(cluster_id, plan.broker_id, present.directory_id if present else None)
            if present != wanted:
                write_meta_properties(self._files, directory, wanted)

    def _open_store(self, directory: str | None) -> KafkaZkClient:
        clock = SystemClock()
        store = EmbeddedStore(directory, clock)
        store.start()
        self._held.callback(store.close)
        return KafkaZkClient(store.new_session(), clock)

    def _one_of(
        self, survey: LogDirSurvey, what: Callable[[MetaProperties], _T | None], name: str, refusals: list[str]
    ) -> _T | None:
        """Return the value that all `meta.properties` agree on, or None if none has it."""
        values = [what(properties) for properties in survey.meta_properties.values() if properties is not None]
        found = {value for value in values if value is not None}
        if len(found) > 1:
            refusals.append(f"the log directories have different {name}s: {', '.join(sorted(map(str, found)))}")
        return next(iter(found), None)

    def _refused_leftovers(self, survey: LogDirSurvey) -> list[str]:
        if self._order.ignore_leftovers:
            return []
        return [
            f"{path} holds a log that was being deleted, moved or set aside: start Kafka once more and let it finish,"
            " or remove the directory, or adopt the others with --ignore-leftovers"
            for path in survey.leftovers
        ]

    def _unknown_policies(self, survey: LogDirSurvey, known_topics: frozenset[str]) -> list[str]:
        """Return refusals for topics whose cleanup policy is unknown: a wrong guess would delete records."""
        topics = survey.compacted_topics & survey.topics.keys() - known_topics
        return [
            f"topic {topic} was compacted (cleaner-offset-checkpoint): give its cleanup policy, for example"
            f" --topic-config {topic}:{CLEANUP_POLICY}=compact"
            for topic in sorted(topics)
            if CLEANUP_POLICY not in self._configs(topic, is_new=True)
        ]

    def _configs(self, topic: str, *, is_new: bool) -> Mapping[str, str]:
        """Return the given settings of a topic, over those that Kafka's internal topics begin with."""
        initial = INTERNAL_TOPIC_CONFIGS.get(topic, {}) if is_new else {}
        return {**initial, **self._order.topic_configs.get(topic, {})}

    def _compare(self, adoption: TopicAdoption, survey: LogDirSurvey, refusals: list[str]) -> list[TopicChange]:
        refusals += [
            f"--topic-config names topic {topic}, which has no directory in the log directories"
            for topic in self._order.topic_configs
            if topic not in survey.topics
        ]
        changes = []
        for topic, partitions in survey.topics.items():
            topic_id = next((found.topic_id for found in partitions if found.topic_id is not None), None)
            epochs = {found.topic_partition.partition: found.latest_epoch for found in partitions}
            configs = self._configs(topic, is_new=topic not in adoption.known_topics)
            try:
                validate_topic_name(topic)
                validate_topic_config(configs)
                changes.append(adoption.compare(AdoptedTopic(topic, topic_id, epochs, configs)))
            except (ApiError, ConfigError, TopicConflict) as error:
                refusals.append(f"topic {topic}: {error}")
        return changes


def _highest_transaction_producer_id(partitions: Iterable[FoundPartition], files: Files) -> int:
    """Return the highest producer id in the partitions of `__transaction_state`, -1 for none. Raises OSError.

    An id that a transactional producer will use again must not be given to another producer, even when it has written
    nothing for so long that no partition remembers it.
    """
    highest = NO_PRODUCER_ID
    for found in partitions:
        for batch in batches_from(0, found.directory, files):
            if getattr(batch, "is_control", False):
                continue
            try:
                values = [record.value for record in batch.records()]
            except CorruptRecord:
                continue
            for value in values:
                if value is not None and len(value) >= _VERSION_AND_PRODUCER_ID.size:
                    highest = max(highest, _VERSION_AND_PRODUCER_ID.unpack_from(value)[1])
    return highest
