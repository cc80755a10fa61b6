"""Creation of topics on first use: clients' topics by Metadata, internal topics by FindCoordinator too.

Used by those handlers on request handler threads; blocks on the store. Internal topics get the settings that their
coordinators need. They are created only when enough brokers are alive for all replicas, since offsets in a single
replica would be lost with its broker. `_lock` guards the names that are being created: when many clients ask for the
same coordinator at once, its topic is created once.

Kafka: DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.config.setting import Settings, setting
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_admin import TopicAdmin, TopicToCreate
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.quota.controller_mutation_quota import UNBOUNDED, ControllerMutationQuota

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InternalTopicsConfig(Settings):
    """The properties of the topics that the broker creates for itself (`offsets.topic.`, `transaction.state.log.`)."""

    offsets_partitions: int = setting("offsets.topic.num.partitions")
    offsets_replication_factor: int = setting("offsets.topic.replication.factor")
    offsets_segment_bytes: int = setting("offsets.topic.segment.bytes")
    transactions_partitions: int = setting("transaction.state.log.num.partitions")
    transactions_replication_factor: int = setting("transaction.state.log.replication.factor")
    transactions_segment_bytes: int = setting("transaction.state.log.segment.bytes")
    transactions_min_isr: int = setting("transaction.state.log.min.isr")


class InternalTopic(NamedTuple):
    """A topic of the broker itself, and the setting that its replication factor comes from."""

    to_create: TopicToCreate
    replication_factor_setting: str


class AutoTopicCreation:
    """The creation of missing topics. config: of internal topics; all others have the broker's defaults."""

    def __init__(self, topic_admin: TopicAdmin, metadata: MetadataCache, config: InternalTopicsConfig) -> None:
        self._topic_admin = topic_admin
        self._metadata = metadata
        self._internal_topics = _internal_topics(config)
        self._lock = threading.Lock()
        self._in_flight: set[str] = set()

    def create(self, names: Iterable[str], quota: ControllerMutationQuota = UNBOUNDED) -> Mapping[str, ErrorCode]:
        """Create the topics, and return the errors by name.

        TOPIC_ALREADY_EXISTS: another request is creating the topic.
        """
        names = list(dict.fromkeys(names))
        with self._lock:
            errors = {name: ErrorCode.TOPIC_ALREADY_EXISTS for name in names if name in self._in_flight}
            ours = [name for name in names if name not in errors]
            self._in_flight.update(ours)
        try:
            new = []
            for name in ours:
                internal = self._internal_topics.get(name)
                if internal is None:
                    new.append(TopicToCreate(name))
                elif self._has_too_few_brokers(internal):
                    errors[name] = ErrorCode.INVALID_REPLICATION_FACTOR
                else:
                    new.append(internal.to_create)
            for result in self._topic_admin.create_topics(new, quota=quota):
                errors[result.name] = ErrorCode.NONE if result.error is None else result.error.code
            return errors
        finally:
            # Also after a failure, or the names would be refused for good.
            with self._lock:
                self._in_flight.difference_update(ours)

    def _has_too_few_brokers(self, topic: InternalTopic) -> bool:
        alive = len(self._metadata.image.brokers)
        if alive >= topic.to_create.replication_factor:
            return False
        logger.error(
            "Number of alive brokers '%d' does not meet the required replication factor '%d' for %s "
            "(configured via '%s'). This error can be ignored if the cluster is starting up and not all brokers are up "
            "yet.",
            alive,
            topic.to_create.replication_factor,
            topic.to_create.name,
            topic.replication_factor_setting,
        )
        return True


def _internal_topics(config: InternalTopicsConfig) -> Mapping[str, InternalTopic]:
    """Return the topics of the coordinators, by name. Kafka: GroupCoordinator.groupMetadataTopicConfigs and its kin."""
    offsets = TopicToCreate(
        GROUP_METADATA_TOPIC,
        config.offsets_partitions,
        config.offsets_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_segment_bytes),
        },
    )
    transactions = TopicToCreate(
        TRANSACTION_STATE_TOPIC,
        config.transactions_partitions,
        config.transactions_replication_factor,
        configs={
            # A leader that lacks records could decide a transaction a second time, and otherwise.
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(config.transactions_min_isr),
            "segment.bytes": str(config.transactions_segment_bytes),
        },
    )
    return {
        offsets.name: InternalTopic(offsets, "offsets.topic.replication.factor"),
        transactions.name: InternalTopic(transactions, "transaction.state.log.replication.factor"),
    }
