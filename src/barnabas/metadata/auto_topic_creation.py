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


class AutoTopicCreation:
    """The creation of missing topics. config: of internal topics; all others have the broker's defaults."""

    def __init__(self, topic_admin: TopicAdmin, metadata: MetadataCache, config: InternalTopicsConfig) -> None:
        self._topic_admin = topic_admin
        self._metadata = metadata
        self._config = config
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
                if self._has_too_few_brokers(name):
                    errors[name] = ErrorCode.INVALID_REPLICATION_FACTOR
                else:
                    new.append(self._new_topic(name))
            for result in self._topic_admin.create_topics(new, quota=quota):
                errors[result.name] = ErrorCode.NONE if result.error is None else result.error.code
            return errors
        finally:
            # Also after a failure, or the names would be refused for good.
            with self._lock:
                self._in_flight.difference_update(ours)

    def _new_topic(self, name: str) -> TopicToCreate:
        config = self._config
        if name == GROUP_METADATA_TOPIC:
            return TopicToCreate(
                name,
                config.offsets_partitions,
                config.offsets_replication_factor,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_segment_bytes),
                },
            )
        if name == TRANSACTION_STATE_TOPIC:
            return TopicToCreate(
                name,
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
        return TopicToCreate(name)

    def _has_too_few_brokers(self, name: str) -> bool:
        if name == GROUP_METADATA_TOPIC:
            needed, setting_name = self._config.offsets_replication_factor, "offsets.topic.replication.factor"
        elif name == TRANSACTION_STATE_TOPIC:
            needed = self._config.transactions_replication_factor
            setting_name = "transaction.state.log.replication.factor"
        else:
            return False
        alive = len(self._metadata.image.brokers)
        if alive >= needed:
            return False
        logger.error(
            "Number of alive brokers '%d' does not meet the required replication factor '%d' for %s "
            "(configured via '%s'). This error can be ignored if the cluster is starting up and not all brokers are up "
            "yet.",
            alive,
            needed,
            name,
            setting_name,
        )
        return True
