"""Creating topics because somebody asked for them: clients' by Metadata, the broker's own by FindCoordinator too.

Used by those handlers on request handler threads; it blocks on the store. The broker's own topics get the settings that
their coordinators need, and are created only when enough brokers are alive for all their replicas: what is lost with
one of too few is lost. `_lock` guards the names that are being created, so that a crowd of clients that asks for the
same coordinator creates its topic once.

Kafka: DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barnabas.config.setting import Settings, setting
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_admin import NewTopic, TopicAdmin
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.quota.controller_mutation_quota import UNBOUNDED, ControllerMutationQuota

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InternalTopicsConfig(Settings):
    """The properties of the topics that the broker creates for itself (`offsets.topic.`)."""

    offsets_partitions: int = setting("offsets.topic.num.partitions")
    offsets_replication_factor: int = setting("offsets.topic.replication.factor")
    offsets_segment_bytes: int = setting("offsets.topic.segment.bytes")


class AutoTopicCreation:
    """Creates what is missing. config: of the broker's own topics; all others have the broker's defaults."""

    def __init__(self, topic_admin: TopicAdmin, metadata: MetadataCache, config: InternalTopicsConfig) -> None:
        self._topic_admin = topic_admin
        self._metadata = metadata
        self._config = config
        self._lock = threading.Lock()
        self._in_flight: set[str] = set()

    def create(self, names: Iterable[str], quota: ControllerMutationQuota = UNBOUNDED) -> Mapping[str, ErrorCode]:
        """Create the topics; why not, for those that were not, by name. TOPIC_ALREADY_EXISTS: somebody else does."""
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
            with self._lock:
                self._in_flight.difference_update(ours)

    def _new_topic(self, name: str) -> NewTopic:
        config = self._config
        if name == GROUP_METADATA_TOPIC:
            return NewTopic(
                name,
                config.offsets_partitions,
                config.offsets_replication_factor,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_segment_bytes),
                },
            )
        return NewTopic(name)

    def _has_too_few_brokers(self, name: str) -> bool:
        if name != GROUP_METADATA_TOPIC:
            return False
        needed, alive = self._config.offsets_replication_factor, len(self._metadata.image.brokers)
        if alive >= needed:
            return False
        logger.error(
            "Number of alive brokers '%d' does not meet the required replication factor '%d' for the offsets topic "
            "(configured via 'offsets.topic.replication.factor'). This error can be ignored if the cluster is starting "
            "up and not all brokers are up yet.",
            alive,
            needed,
        )
        return True
