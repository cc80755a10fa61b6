"""Creation, deletion and growth of topics: Kafka's checks, then znodes; the controller does the rest.

Used by CreateTopics, DeleteTopics, CreatePartitions and auto-creation, on request handler threads; blocks on the store.
Stateless but for its arguments, so no lock. Answers do not wait for the controller: a caller that wants to wait watches
the metadata image. Error texts are Kafka's. Kafka: kafka.server.ZkAdminManager, kafka.zk.AdminZkClient.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.config.kept_settings import KEPT_TOPIC_KEYS, by_reason
from barnabas.config.log_config import validate_topic_config
from barnabas.config.setting import Settings, setting
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.replica_placement import AdminOperationFailed, assign_replicas_to_brokers
from barnabas.metadata.topic_name import (
    has_collision,
    has_collision_characters,
    invalid_reason,
    validate_new_topic_name,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID, random_uuid
from barnabas.quota.controller_mutation_quota import UNBOUNDED, ControllerMutationQuota
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import BadVersionError, NodeExistsError, StoreUnavailableError
from barnabas.zk.znodes.topic_zk_data import ReplicaAssignment

logger = logging.getLogger(__name__)

_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""How many partitions one request may create. A few bytes could ask for two thousand million.

Kafka 4: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH; 3.9 has no such limit."""
_MOST_LOGGED: Final = 20
"""Settings, partitions and brokers of a refused request that a log line names."""
# As the number of partitions or the replication factor: the broker's default.
DEFAULT_COUNT = -1


class TopicAdminConfig(Settings):
    """The defaults for new topics, and a function that checks the settings of a topic (raising ConfigError)."""

    num_partitions: int = setting("num.partitions")
    default_replication_factor: int = setting("default.replication.factor")
    validate_topic_config: Callable[[Mapping[str, str]], None] = validate_topic_config


class TopicToCreate(NamedTuple):
    """A topic to create: with numbers, or `assignments` (partition -> broker ids, the preferred leader first)."""

    name: str
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Mapping[int, Sequence[int]] = _NONE
    configs: Mapping[str, str | None] = _NONE

    def __str__(self) -> str:
        """Return what a log line says of it; of very many settings and partitions the first."""
        configs = dict(islice(self.configs.items(), _MOST_LOGGED))
        assignments = {key: ids[:_MOST_LOGGED] for key, ids in islice(self.assignments.items(), _MOST_LOGGED)}
        return (
            f"{self.name} (partitions {self.num_partitions}, replication factor {self.replication_factor}, "
            f"{len(self.assignments)} assignments {assignments}, {len(self.configs)} settings {configs})"
        )


class CreateTopicResult(NamedTuple):
    """The outcome of a creation.

    With an error the numbers are -1 and the id zeros. configs: the topic's own settings.
    """

    name: str
    error: ApiError | None = None
    topic_id: bytes = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = _NONE


# No NamedTuple: `count` is a method of tuples.
@dataclass(frozen=True, slots=True)
class TopicToGrow:
    """A topic to grow to `count` partitions. assignments: broker ids for each added one, None to place them."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None

    def __str__(self) -> str:
        """Return what a log line says of it; of very many assignments the first."""
        assignments = [ids[:_MOST_LOGGED] for ids in (self.assignments or ())[:_MOST_LOGGED]]
        return f"{self.name} (to {self.count} partitions, assignments {assignments})"


class TopicAdmin:
    """The changes of topics, written to the store. chance: places replicas; tests give a seeded one."""

    def __init__(
        self,
        zk_client: KafkaZkClient,
        metadata_cache: MetadataCache,
        config: TopicAdminConfig,
        chance: random.Random | None = None,
        require_room: Callable[[], None] = lambda: None,
    ) -> None:
        """require_room: checks that logs can be made. Raises ApiError: KAFKA_STORAGE_ERROR."""
        self._require_room = require_room
        self._zk = zk_client
        self._metadata = metadata_cache
        self._config = config
        self._chance = chance or random.Random()

    # -- creation

    def create_topics(
        self,
        topics: Iterable[TopicToCreate],
        *,
        validate_only: bool = False,
        quota: ControllerMutationQuota = UNBOUNDED,
    ) -> list[CreateTopicResult]:
        """Create topics, or only check whether they could be created. Return one result each, in order.

        An error of a topic is in its result. The handler rejects names that occur twice in a request. `quota` may
        reject partitions.
        """
        topics = list(topics)
        # Before the placement, which itself would take memory for each partition.
        if sum(self._count_of(topic) for topic in topics) > MAX_PARTITIONS_PER_REQUEST:
            return [CreateTopicResult(topic.name, _too_many_partitions()) for topic in topics]
        return [self._create_topic(topic, quota, validate_only=validate_only) for topic in topics]

    def _count_of(self, topic: TopicToCreate) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return self._config.num_partitions if topic.num_partitions == DEFAULT_COUNT else max(topic.num_partitions, 0)

    def _create_topic(
        self, topic: TopicToCreate, quota: ControllerMutationQuota, *, validate_only: bool
    ) -> CreateTopicResult:
        try:
            self._require_room()
            return self._try_to_create_topic(topic, quota, validate_only=validate_only)
        except ApiError as error:
            logger.info("Error processing create topic request %s: %s", topic, error)
            return CreateTopicResult(topic.name, error.as_value())
        except ConfigError as error:
            logger.info("Error processing create topic request %s: %s", topic, error)
            return CreateTopicResult(topic.name, ApiError(ErrorCode.INVALID_CONFIG, error.message))
        except StoreUnavailableError as error:
            logger.error("Error processing create topic request %s: %s", topic, error)  # noqa: TRY400 - says it all
            return CreateTopicResult(topic.name, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        except Exception:
            # The other topics of the request can still be created.
            logger.exception("Error processing create topic request %s", topic)
            return CreateTopicResult(topic.name, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))

    def _try_to_create_topic(
        self, topic: TopicToCreate, quota: ControllerMutationQuota, *, validate_only: bool
    ) -> CreateTopicResult:
        """Create one topic, or only check it. Raises ApiError: TOPIC_ALREADY_EXISTS, INVALID_CONFIG and others."""
        if self._metadata.contains(topic.name):
            raise _already_exists(topic.name)
        without_value = [name for name, value in topic.configs.items() if value is None]
        if without_value:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without_value)}"
            )
        configs = {name: value for name, value in topic.configs.items() if value is not None}
        # Kafka's order of checks: it decides which of several errors the client sees.
        assignments = self._assignments_for(topic)
        self._validate_name(topic.name)
        _validate_assignments(assignments)
        self._config.validate_topic_config(configs)
        counts = (len(assignments), len(assignments[0]))
        if validate_only:
            return CreateTopicResult(topic.name, None, ZERO_UUID, *counts, configs)
        # Before the write, and not for a mere check: KIP-599 limits the changes that a client causes.
        quota.record(len(assignments))
        topic_id = random_uuid()
        try:
            self._zk.topics.create(topic.name, topic_id, assignments, configs)
        except NodeExistsError as error:
            raise _already_exists(topic.name) from error
        logger.info(
            "Creating topic %s with configuration %s and initial partition assignment %s",
            topic.name,
            configs,
            assignments,
        )
        # As when they are altered later: the client gets success, as from Kafka, and the log says what that is worth.
        if kept := {name: why for name, why in KEPT_TOPIC_KEYS.items() if name in configs}:
            logger.warning("Settings of topic %s are kept, and nothing acts on them: %s", topic.name, by_reason(kept))
        return CreateTopicResult(topic.name, None, topic_id, *counts, configs)

    def _assignments_for(self, topic: TopicToCreate) -> Mapping[int, Sequence[int]]:
        """Return the assignments of a new topic, given or placed. Raises ApiError: INVALID_REQUEST and others."""
        has_counts = topic.num_partitions != DEFAULT_COUNT or topic.replication_factor != DEFAULT_COUNT
        if topic.assignments:
            if has_counts:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at "
                    "the same time.",
                )
            return topic.assignments
        config = self._config
        brokers = [(broker.id, broker.rack) for broker in self._metadata.image.brokers.values()]
        return assign_replicas_to_brokers(
            brokers,
            config.num_partitions if topic.num_partitions == DEFAULT_COUNT else topic.num_partitions,
            config.default_replication_factor
            if topic.replication_factor == DEFAULT_COUNT
            else topic.replication_factor,
            self._chance,
        )

    def _validate_name(self, name: str) -> None:
        """Check the name of a new topic.

        Raises ApiError: INVALID_REQUEST, TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION.
        """
        validate_new_topic_name(name)
        if self._zk.topics.is_marked_for_deletion(name):
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        if self._zk.topics.exists(name):
            raise _already_exists(name)
        if has_collision_characters(name):
            colliding = sorted(other for other in self._zk.topics.all_topics() if has_collision(name, other))
            # Created since the test for existence above.
            if name in colliding:
                raise _already_exists(name)
            if colliding:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
                )

    # -- deletion

    def delete_topics(
        self, names: Iterable[str], quota: ControllerMutationQuota = UNBOUNDED
    ) -> dict[str, ApiError | None]:
        """Mark topics for deletion. Return None for each marked one (also if it was marked before), else the error.

        The handler checks whether topics may be deleted at all (`delete.topic.enable`). `quota` may reject deletions.
        """
        return {name: self._delete_topic(name, quota) for name in names}

    def _delete_topic(self, name: str, quota: ControllerMutationQuota) -> ApiError | None:
        try:
            topic = self._metadata.image.topics.get(name)
            # KIP-599 counts the partitions of a deleted topic; a topic that does not exist costs nothing.
            quota.record(0 if topic is None else len(topic.partitions))
            if not self._zk.topics.exists(name):
                return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic `{name}` to delete does not exist")
            self._zk.topics.request_deletion(name)
        except NodeExistsError:
            logger.debug("Topic %s is already marked for deletion", name)
        except ApiError as error:
            return error.as_value()
        except Exception:
            # The other topics of the request can still be deleted.
            logger.exception("Error processing delete topic request for topic %s", name)
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    # -- growth

    def create_partitions(
        self, wanted: Iterable[TopicToGrow], *, validate_only: bool = False, quota: ControllerMutationQuota = UNBOUNDED
    ) -> dict[str, ApiError | None]:
        """Add partitions to topics, or only check whether they could be added. Return the error of each topic, or None.

        `quota` may reject partitions.
        """
        wanted = list(wanted)
        if sum(self._growth_of(new) for new in wanted) > MAX_PARTITIONS_PER_REQUEST:
            return {new.name: _too_many_partitions() for new in wanted}
        return {new.name: self._create_partitions(new, quota, validate_only=validate_only) for new in wanted}

    def _growth_of(self, new: TopicToGrow) -> int:
        """Return the growth of a topic as this broker knows it. It is checked again when it is known exactly."""
        known = self._metadata.image.topics.get(new.name)
        return 0 if known is None else max(new.count - len(known.partitions), 0)

    def _create_partitions(
        self, new: TopicToGrow, quota: ControllerMutationQuota, *, validate_only: bool
    ) -> ApiError | None:
        try:
            self._require_room()
            self._try_to_create_partitions(new, quota, validate_only=validate_only)
        except ApiError as error:
            return error.as_value()
        except AdminOperationFailed as error:
            logger.info("Error processing create partitions request %s: %s", new, error)
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        except Exception:
            # The other topics of the request can still grow.
            logger.exception("Error processing create partitions request %s", new)
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    def _try_to_create_partitions(
        self, new: TopicToGrow, quota: ControllerMutationQuota, *, validate_only: bool
    ) -> None:
        """Grow one topic, or only check it. Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION and others."""
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{new.name}' does not exist.")
        if invalid_reason(new.name) is not None:
            # Before the first read, since such a name could not be a path in the store.
            raise unknown
        if self._zk.topics.is_marked_for_deletion(new.name):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        found = self._zk.topics.assignments([new.name])
        if not found or not found[0].assignment:
            raise unknown
        existing = found[0].assignment
        if any(assignment.is_being_reassigned for assignment in existing.values()):
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{new.name}'.",
            )
        added = self._assignments_to_add(new, existing)
        if not validate_only:
            quota.record(len(added))
            grown = dict(existing)
            for index, replicas in added.items():
                grown[TopicPartition(new.name, index)] = ReplicaAssignment(tuple(replicas))
            try:
                self._zk.topics.set_assignment(new.name, found[0].topic_id, grown, expected_version=found[0].version)
            except BadVersionError:
                # Another request grew the topic in between. Overwritten, its partitions would be lost with their
                # records. The quota has counted this request already.
                self._try_to_create_partitions(new, UNBOUNDED, validate_only=False)
                return
            logger.info("Creating %d partitions for '%s': %s", len(added), new.name, added)

    def _assignments_to_add(
        self, new: TopicToGrow, existing: Mapping[TopicPartition, ReplicaAssignment]
    ) -> Mapping[int, Sequence[int]]:
        """Return the assignments of added partitions.

        Raises ApiError: INVALID_PARTITIONS and others. Raises AdminOperationFailed: there is no partition 0.
        """
        increment = new.count - len(existing)
        if increment < 0:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic currently has {len(existing)} partitions, which is higher than the requested {new.count}.",
            )
        if increment == 0:
            raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {len(existing)} partitions.")
        if increment > MAX_PARTITIONS_PER_REQUEST:
            raise _too_many_partitions()
        first = existing.get(TopicPartition(new.name, 0))
        if first is None:
            raise AdminOperationFailed(f"Topic '{new.name}' has no partition 0. Assignment: {existing}")
        brokers = [(info.id, info.rack) for info, _ in self._zk.brokers_and_epochs().values()]
        if new.assignments is not None:
            added = dict(enumerate(new.assignments, len(existing)))
            _validate_new_assignments(added, increment, len(first.replicas), {b for b, _ in brokers})
            return added
        at_or_after = (index for index, (broker_id, _) in enumerate(brokers) if broker_id >= first.replicas[0])
        return assign_replicas_to_brokers(
            brokers,
            increment,
            len(first.replicas),
            self._chance,
            # From the leader of partition 0 on, so that the topic looks as if all partitions had been made at once.
            fixed_start_index=next(at_or_after, 0),
            start_partition_id=len(existing),
        )


def _too_many_partitions() -> ApiError:
    return ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _already_exists(name: str) -> ApiError:
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _invalid_assignment(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def _validate_assignments(assignments: Mapping[int, Sequence[int]]) -> None:
    """Check given assignments. Raises ApiError: INVALID_REPLICA_ASSIGNMENT.

    An empty list is rejected, as by KRaft. Kafka: the second half of AdminZkClient.validateTopicCreate.
    """
    if len({len(replicas) for replicas in assignments.values()}) != 1:
        raise _invalid_assignment("All partitions should have the same number of replicas")
    if any(not replicas for replicas in assignments.values()):
        raise _invalid_assignment("The manual partition assignment includes an empty replica list.")
    if any(len(set(replicas)) != len(replicas) for replicas in assignments.values()):
        raise _invalid_assignment(f"Duplicate replica assignment found: {dict(assignments)}")
    if sorted(assignments) != list(range(len(assignments))):
        raise _invalid_assignment("partitions should be a consecutive 0-based integer sequence")


def _validate_new_assignments(
    assignments: Mapping[int, Sequence[int]], increment: int, replication_factor: int, brokers: set[int]
) -> None:
    """Check given assignments of added partitions. Raises ApiError: INVALID_REPLICA_ASSIGNMENT."""
    unknown = sorted({broker_id for replicas in assignments.values() for broker_id in replicas} - brokers)
    if unknown:
        raise _invalid_assignment(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if len(assignments) != increment:
        raise _invalid_assignment(
            f"Increasing the number of partitions by {increment} but {len(assignments)} assignments provided."
        )
    for partition, replicas in assignments.items():
        if not replicas:
            raise _invalid_assignment(f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(set(replicas)) != len(replicas):
            raise _invalid_assignment(
                f"Duplicate brokers not allowed in replica assignment: {', '.join(map(str, replicas))} for partition "
                f"id {partition}."
            )
    wrong = {p: len(replicas) for p, replicas in assignments.items() if len(replicas) != replication_factor}
    if wrong:
        raise _invalid_assignment(
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while "
            f"partitions [{', '.join(map(str, wrong))}] have replication factors "
            f"[{', '.join(map(str, wrong.values()))}], respectively."
        )
