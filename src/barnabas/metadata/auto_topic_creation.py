"""Creation of topics on first use: clients' topics by Metadata, internal topics by FindCoordinator too.

Late: made by the table of APIs for the first topic. Used by those handlers on request handler threads; blocks on the
store. Internal topics get the settings that their
coordinators need. They are created only when enough brokers are alive for all replicas, since offsets in a single
replica would be lost with its broker. With the embedded store there is never a second broker: they get one replica
then, whatever the settings say. `_lock` guards the names that are being created, and the reasons why internal topics
could not be: when many clients ask for the same coordinator at once, its topic is created once.
Kafka: DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.config.cross_checks import uses_zookeeper
from barnabas.config.setting import Settings, computed, setting
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_admin import TopicAdmin, TopicToCreate
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.quota.controller_mutation_quota import UNBOUNDED, ControllerMutationQuota

logger = logging.getLogger(__name__)

MANY: Final = 1 << 15
"""More replicas than a topic can have."""


class InternalTopicsConfig(Settings):
    """The properties of the topics that the broker creates for itself (`offsets.topic.`, `transaction.state.log.`)."""

    offsets_partitions: int = setting("offsets.topic.num.partitions")
    offsets_replication_factor: int = setting("offsets.topic.replication.factor")
    offsets_segment_bytes: int = setting("offsets.topic.segment.bytes")
    transactions_partitions: int = setting("transaction.state.log.num.partitions")
    transactions_replication_factor: int = setting("transaction.state.log.replication.factor")
    transactions_segment_bytes: int = setting("transaction.state.log.segment.bytes")
    transactions_min_isr: int = setting("transaction.state.log.min.isr")
    min_isr: int = setting("min.insync.replicas")
    is_lone: bool = computed(lambda config: not uses_zookeeper(config), "metadata.store", "zookeeper.connect")


class InternalTopic(NamedTuple):
    """A topic of the broker itself, and the setting that its replication factor comes from."""

    to_create: TopicToCreate
    replication_factor_setting: str
    asked_for: int
    """The value of that setting: more than the topic gets where there is never a second broker."""


class AutoTopicCreation:
    """The creation of missing topics. config: of internal topics; all others have the broker's defaults."""

    def __init__(self, topic_admin: TopicAdmin, metadata: MetadataCache, config: InternalTopicsConfig) -> None:
        self._topic_admin = topic_admin
        self._metadata = metadata
        self._config = config
        self._lock = threading.Lock()
        self._in_flight: set[str] = set()
        self._obstacles: dict[str, str] = {}

    def obstacle(self, name: str) -> str | None:
        """Return why an internal topic could not be created when this was tried last; None if it was."""
        with self._lock:
            return self._obstacles.get(name)

    def create(self, names: Iterable[str], quota: ControllerMutationQuota = UNBOUNDED) -> Mapping[str, ErrorCode]:
        """Create the topics, and return the errors by name.

        TOPIC_ALREADY_EXISTS: another request is creating the topic.
        """
        names = list(dict.fromkeys(names))
        internal_topics = _internal_topics(self._config)
        with self._lock:
            errors = {name: ErrorCode.TOPIC_ALREADY_EXISTS for name in names if name in self._in_flight}
            ours = [name for name in names if name not in errors]
            self._in_flight.update(ours)
        try:
            new = []
            for name in ours:
                internal = internal_topics.get(name)
                if internal is None:
                    new.append(TopicToCreate(name))
                elif obstacle := self._too_few_brokers(internal):
                    errors[name] = ErrorCode.INVALID_REPLICATION_FACTOR
                    self._note(name, obstacle)
                else:
                    new.append(internal.to_create)
            for result in self._topic_admin.create_topics(new, quota=quota):
                errors[result.name] = ErrorCode.NONE if result.error is None else result.error.code
                if (internal := internal_topics.get(result.name)) is not None:
                    self._created(internal, result.error)
            return errors
        finally:
            # Also after a failure, or the names would be refused for good.
            with self._lock:
                self._in_flight.difference_update(ours)

    def _too_few_brokers(self, topic: InternalTopic) -> str | None:
        """Return the sentence for a cluster with fewer brokers than the topic needs, None for one with enough."""
        alive, needed = len(self._metadata.image.brokers), topic.to_create.replication_factor
        if alive >= needed:
            return None
        return (
            f"Number of alive brokers '{alive}' does not meet the required replication factor '{needed}' for "
            f"{topic.to_create.name} (configured via '{topic.replication_factor_setting}'). This error can be ignored "
            "if the cluster is starting up and not all brokers are up yet."
        )

    def _created(self, topic: InternalTopic, error: ApiError | None) -> None:
        """Note the result of a creation."""
        name = topic.to_create.name
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            self._note(name, f"{name} cannot be created: {error.message}")
            return
        with self._lock:
            self._obstacles.pop(name, None)
        if error is None and topic.asked_for > topic.to_create.replication_factor:
            logger.warning(
                "%s has one replica and not %d (%s): a broker without ZooKeeper is never joined by another one",
                name,
                topic.asked_for,
                topic.replication_factor_setting,
            )

    def _note(self, name: str, obstacle: str) -> None:
        """Keep the reason, and log it unless it is known: clients that wait for a coordinator ask all the time."""
        with self._lock:
            is_known = self._obstacles.get(name) == obstacle
            self._obstacles[name] = obstacle
        if not is_known:
            logger.error("%s", obstacle)


def _internal_topics(config: InternalTopicsConfig) -> Mapping[str, InternalTopic]:
    """Return the topics of the coordinators, by name. Kafka: GroupCoordinator.groupMetadataTopicConfigs and its kin."""
    most = 1 if config.is_lone else MANY
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_segment_bytes),
    }
    if config.min_isr > most:
        # The topic would have the broker's default, with which no offset could ever be committed.
        configs["min.insync.replicas"] = str(most)
    offsets = TopicToCreate(
        GROUP_METADATA_TOPIC, config.offsets_partitions, min(config.offsets_replication_factor, most), configs=configs
    )
    transactions = TopicToCreate(
        TRANSACTION_STATE_TOPIC,
        config.transactions_partitions,
        min(config.transactions_replication_factor, most),
        configs={
            # A leader that lacks records could decide a transaction a second time, and otherwise.
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(min(config.transactions_min_isr, most)),
            "segment.bytes": str(config.transactions_segment_bytes),
        },
    )
    return {
        offsets.name: InternalTopic(offsets, "offsets.topic.replication.factor", config.offsets_replication_factor),
        transactions.name: InternalTopic(
            transactions, "transaction.state.log.replication.factor", config.transactions_replication_factor
        ),
    }
