"""Kafka's calls on ZooKeeper, by name: brokers, controller, cluster id, features, producer ids, consumer offsets.

Made by `broker`, used by metadata and controller on any thread; blocks on the store. Its state is the table of handlers
(in `znode_access`) and the ids of earlier sessions, which `_lock` guards. Topics, settings, consumer offsets,
delegation tokens and access control lists are in its parts `topics`, `configs`, `consumer_offsets`, `tokens`, `acls`.

Kafka: kafka.zk.KafkaZkClient; ConsumerOffset.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.zk.store.errors import BadVersionError, ControllerMovedError, NodeExistsError, StoreError
from barnabas.zk.store.store import (
    ANY_VERSION,
    Create,
    Created,
    Delete,
    Outcome,
    SessionState,
    SetData,
    Stat,
    Store,
    value_of,
)
from barnabas.zk.znodes.broker_zk_data import (
    BrokerIdsZNode,
    BrokerIdZNode,
    BrokerInfo,
    BrokerSequenceIdZNode,
    ClusterIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    FeatureZNode,
    FinalizedFeatures,
    LogDirEventNotificationZNode,
    ProducerIdBlockZNode,
    ProducerIdsBlock,
)
from barnabas.zk.znodes.config_znodes import (
    ConfigEntityChangeNotificationZNode,
    ConfigEntityType,
    ConfigEntityTypeZNode,
    ConfigZnodes,
)
from barnabas.zk.znodes.topic_zk_data import DeleteTopicsZNode, IsrChangeNotificationZNode, TopicsZNode
from barnabas.zk.znodes.topic_znodes import TopicZnodes
from barnabas.zk.znodes.znode_access import ZnodeAccess, creations_with_parents
from barnabas.zk.znodes.znode_json import understood

if TYPE_CHECKING:
    from barnabas.zk.znodes.acl_znodes import AclZnodes
    from barnabas.zk.znodes.token_znodes import TokenZnodes

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

PERSISTENT_PATHS: Final[tuple[str, ...]] = (
    "/consumers",
    BrokerIdsZNode.path,
    TopicsZNode.path,
    ConfigEntityChangeNotificationZNode.path,
    DeleteTopicsZNode.path,
    BrokerSequenceIdZNode.path,
    IsrChangeNotificationZNode.path,
    ProducerIdBlockZNode.path,
    LogDirEventNotificationZNode.path,
    *(ConfigEntityTypeZNode.path(entity_type) for entity_type in ConfigEntityType.ALL),
)
"""The znodes that exist before a broker starts; their parents are made on the way. Kafka: ZkData.PersistentZkPaths."""


class ConsumerOffsetZnodes:
    """Offsets of consumers that keep them in the store, as Kafka's consumers did before 0.9.

    An offset is at /consumers/<group>/offsets/<topic>/<partition>, in digits. Used on request handler threads;
    stateless, so no lock.
    """

    def __init__(self, access: ZnodeAccess) -> None:
        self._access = access

    def set_or_create(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Write an offset. The group id must be fit for a path (`is_path_element`). Raises StoreError."""
        path, data = _offset_path(group_id, partition), str(offset).encode()
        # Exactly one of the two succeeds: the creation fails when the znode exists.
        for outcome in self._access.store.batch([*creations_with_parents(path, data), SetData(path, data)]):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                raise outcome

    def get(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return the offset, or None if there is none."""
        node = self._access.get(_offset_path(group_id, partition))
        return None if node is None or not node.data else int(node.data)


def is_path_element(text: str) -> bool:
    """Return whether a text can be one name in a path."""
    return bool(text) and text not in (".", "..") and "/" not in text and text.isprintable()


def _offset_path(group_id: str, partition: TopicPartition) -> str:
    return f"/consumers/{group_id}/offsets/{partition.topic}/{partition.partition}"


class KafkaZkClient:
    """The store as Kafka uses it, call by call.

    Arguments: `store`, one session, closed by the code that opened it; `clock`, for the timestamps in registrations.
    Every method may raise StoreUnavailableError.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.access = ZnodeAccess(store)
        self.topics = TopicZnodes(self.access)
        self.configs = ConfigZnodes(self.access)
        self.consumer_offsets = ConsumerOffsetZnodes(self.access)
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._former_sessions: set[int] = set()
        self._current_session = store.session_id
        store.add_session_listener(self._on_session_state)

    # Imported by the brokers that have them.
    @cached_property
    def tokens(self) -> TokenZnodes:
        """The znodes of delegation tokens."""
        from barnabas.zk.znodes.token_znodes import TokenZnodes  # noqa: PLC0415

        return TokenZnodes(self.access)

    @cached_property
    def acls(self) -> AclZnodes:
        """The znodes of access control lists."""
        from barnabas.zk.znodes.acl_znodes import AclZnodes  # noqa: PLC0415

        return AclZnodes(self.access)

    def make_sure_persistent_paths_exist(self) -> None:
        """Create the znodes that every broker expects. Kafka: createTopLevelPaths."""
        self.access.make_sure_exist(PERSISTENT_PATHS)

    # -- cluster

    def cluster_id(self) -> str | None:
        """Return the cluster's id, or None in a new store."""
        node = self.access.get(ClusterIdZNode.path)
        return None if node is None else ClusterIdZNode.decode(node.data)

    def create_or_get_cluster_id(self, proposed: str) -> str:
        """Return the cluster's id, which becomes `proposed` if there is none yet."""
        existing = self.cluster_id()
        if existing is not None:
            return existing
        try:
            self.access.create_recursive(ClusterIdZNode.path, ClusterIdZNode.encode(proposed))
        except NodeExistsError:
            return _present(self.cluster_id(), ClusterIdZNode.path)
        return proposed

    # -- brokers

    def register_broker(self, broker: BrokerInfo) -> int:
        """Create the broker's ephemeral znode, and return the broker epoch (its czxid).

        A registration of an earlier session of this process is replaced. Raises NodeExistsError: a broker with this id
        is alive.
        """
        path = BrokerIdZNode.path(broker.id)
        creation = Create(path, BrokerIdZNode.encode(broker, self._clock.milliseconds()), ephemeral=True)
        outcome = self._store.batch([creation])[0]
        if isinstance(outcome, NodeExistsError):
            outcome = self._take_over(creation, outcome)
        epoch = value_of(outcome, Created).stat.czxid
        addresses = ",".join(endpoint.connection_string for endpoint in broker.endpoints)
        logger.info(
            "Registered broker %d at path %s with addresses: %s, czxid (broker epoch): %d",
            broker.id,
            path,
            addresses,
            epoch,
        )
        return epoch

    def _take_over(self, creation: Create, error: NodeExistsError) -> Outcome:
        # KAFKA-7165: the znode of an expired session may outlive the session, and is no other broker's then.
        stat = self.access.stat(creation.path)
        if stat is not None and stat.ephemeral_owner == self._store.session_id:
            # Created by an attempt whose answer was lost with the connection.
            return Created(creation.path, stat)
        with self._lock:
            ours = stat is not None and stat.ephemeral_owner in self._former_sessions
        if stat is not None and not ours:
            return error
        logger.info("Replacing %s, which an earlier session of this broker left", creation.path)
        return self._store.batch([Delete(creation.path), creation])[1]

    def update_broker_info(self, broker: BrokerInfo) -> None:
        """Rewrite the broker's registration (its endpoints changed); the epoch stays."""
        data = BrokerIdZNode.encode(broker, self._clock.milliseconds())
        self._store.set(BrokerIdZNode.path(broker.id), data)

    def brokers_and_epochs(self) -> dict[int, tuple[BrokerInfo, int]]:
        """Return the live brokers and their epochs, in the order of ids. Sets the watch on /brokers/ids.

        A broker whose registration cannot be understood counts as dead.
        """
        ids = sorted(int(name) for name in self.access.children(BrokerIdsZNode.path) if name.isdecimal())
        nodes = self.access.get_many([BrokerIdZNode.path(broker_id) for broker_id in ids])
        found = {
            broker_id: (_registration_of(broker_id, node.data), node.stat.czxid)
            for broker_id, node in zip(ids, nodes, strict=True)
            if node is not None
        }
        return {broker_id: (info, epoch) for broker_id, (info, epoch) in found.items() if info is not None}

    def broker(self, broker_id: int) -> BrokerInfo | None:
        """Return the registration of a live broker, or None."""
        node = self.access.get(BrokerIdZNode.path(broker_id))
        return None if node is None else _registration_of(broker_id, node.data)

    def generate_broker_id(self) -> int:
        """Return a number that no broker has got before, from 1 on. Kafka: generateBrokerSequenceId."""
        self.access.make_sure_exist([BrokerSequenceIdZNode.path])
        # The version counts the writes, so that every write returns a number of its own.
        return self._store.set(BrokerSequenceIdZNode.path, b"").version

    def stop_waiting(self) -> bool:
        """Have no call wait for ZooKeeper to be back from now on. Return whether the store is connected."""
        return self._store.stop_waiting()

    # -- controller

    def controller_id(self) -> int | None:
        """Return the controller's broker id, or None."""
        node = self.access.get(ControllerZNode.path)
        return None if node is None else ControllerZNode.decode(node.data)

    def controller_epoch(self) -> tuple[int, int] | None:
        """Return the controller epoch and the version of its znode, or None."""
        node = self.access.get(ControllerEpochZNode.path)
        return None if node is None else (ControllerEpochZNode.decode(node.data), node.stat.version)

    def register_controller_and_increment_controller_epoch(self, broker_id: int) -> tuple[int, int]:
        """Become the controller: create /controller and raise /controller_epoch, both or neither.

        Returns the new epoch and the version of its znode. Raises ControllerMovedError: another broker was faster.
        """
        epoch, version = self.controller_epoch() or self._create_controller_epoch()
        operations = (
            Create(ControllerZNode.path, ControllerZNode.encode(broker_id, self._clock.milliseconds()), ephemeral=True),
            SetData(ControllerEpochZNode.path, ControllerEpochZNode.encode(epoch + 1), version),
        )
        try:
            # One transaction, fenced by the version that was read: of two candidates only one wins.
            results = self._store.multi(operations)
        except (NodeExistsError, BadVersionError) as error:
            # Perhaps this broker's own, after a lost answer: then both writes were applied.
            if self.controller_id() == broker_id:
                current = _present(self.controller_epoch(), ControllerEpochZNode.path)
                if current[0] == epoch + 1:
                    return current
            raise ControllerMovedError(
                "Controller moved to another broker. Aborting controller startup procedure"
            ) from error
        return epoch + 1, value_of(results[1], Stat).version

    def _create_controller_epoch(self) -> tuple[int, int]:
        data = ControllerEpochZNode.encode(ControllerEpochZNode.initial_epoch)
        outcome = self._store.batch([Create(ControllerEpochZNode.path, data)])[0]
        if isinstance(outcome, NodeExistsError):
            return _present(self.controller_epoch(), ControllerEpochZNode.path)
        value_of(outcome, Created)
        return ControllerEpochZNode.initial_epoch, ControllerEpochZNode.initial_version

    def delete_controller(self, expected_controller_epoch_version: int) -> None:
        """Delete /controller, so that another broker is elected.

        Raises ControllerMovedError: that has happened already.
        """
        self.access.delete_children("", [ControllerZNode.path[1:]], expected_controller_epoch_version)

    # -- features, producer ids, notices

    def finalized_features(self) -> tuple[FinalizedFeatures, int] | None:
        """Return the finalized features and the version of their znode (their epoch), or None."""
        node = self.access.get(FeatureZNode.path)
        return None if node is None else (FeatureZNode.decode(node.data), node.stat.version)

    def create_finalized_features(self, finalized: FinalizedFeatures) -> None:
        """Write the finalized features for the first time. Raises NodeExistsError: they exist."""
        self.access.create_recursive(FeatureZNode.path, FeatureZNode.encode(finalized))

    def update_finalized_features(self, finalized: FinalizedFeatures) -> int:
        """Replace the finalized features. Return the new version of their znode."""
        return value_of(
            self._store.batch([SetData(FeatureZNode.path, FeatureZNode.encode(finalized))])[0], Stat
        ).version

    def producer_id_block(self) -> tuple[ProducerIdsBlock | None, int]:
        """Return the last block of producer ids, None if there was none, and the version of its znode."""
        node = self.access.get(ProducerIdBlockZNode.path)
        if node is None:
            return None, ANY_VERSION
        return (ProducerIdBlockZNode.decode(node.data) if node.data else None), node.stat.version

    def update_producer_id_block(self, block: ProducerIdsBlock, expected_version: int) -> bool:
        """Write a new block. Return False if another broker wrote one in between."""
        data = ProducerIdBlockZNode.encode(block)
        return self.access.conditional_update(ProducerIdBlockZNode.path, data, expected_version) is not None

    def log_dir_event_notifications(self) -> list[str]:
        """Return the names of notices of failed log directories. Sets the watch on their parent."""
        return self._sequence(LogDirEventNotificationZNode.path, LogDirEventNotificationZNode.prefix)

    def brokers_of_log_dir_events(self, names: list[str]) -> list[int]:
        """Return the brokers of those notices that can be understood."""
        return list(self._notices(LogDirEventNotificationZNode.path, names, LogDirEventNotificationZNode.decode))

    def delete_log_dir_event_notifications(self, names: list[str], expected_controller_epoch_version: int) -> None:
        """Remove notices that were handled, or all old ones at a failover. Fenced."""
        self.access.delete_children(LogDirEventNotificationZNode.path, names, expected_controller_epoch_version)

    def propagate_log_dir_event(self, broker_id: int) -> None:
        """Notify the controller that this broker lost a log directory."""
        path = f"{LogDirEventNotificationZNode.path}/{LogDirEventNotificationZNode.prefix}"
        self._store.create(path, LogDirEventNotificationZNode.encode(broker_id), sequential=True)

    def propagate_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        """Notify the controller that this broker changed the in-sync replicas of these partitions."""
        path = f"{IsrChangeNotificationZNode.path}/{IsrChangeNotificationZNode.prefix}"
        self._store.create(path, IsrChangeNotificationZNode.encode(partitions), sequential=True)

    def isr_change_notifications(self) -> list[str]:
        """Return the names of notices of changed in-sync replicas. Sets the watch on their parent."""
        return self._sequence(IsrChangeNotificationZNode.path, IsrChangeNotificationZNode.prefix)

    def partitions_of_isr_changes(self, names: list[str]) -> set[TopicPartition]:
        """Return the partitions of those notices that can be understood."""
        notices = self._notices(IsrChangeNotificationZNode.path, names, IsrChangeNotificationZNode.decode)
        return {partition for partitions in notices for partition in partitions}

    def delete_isr_change_notifications(
        self, expected_controller_epoch_version: int, names: list[str] | None = None
    ) -> None:
        """Remove notices of changed in-sync replicas, all of them for None. Fenced."""
        self.access.delete_children(
            IsrChangeNotificationZNode.path,
            self.isr_change_notifications() if names is None else names,
            expected_controller_epoch_version,
        )

    def _notices(self, parent: str, names: list[str], decode: Callable[[bytes], _T]) -> Iterator[_T]:
        paths = [f"{parent}/{name}" for name in names]
        for path, node in zip(paths, self.access.get_many(paths), strict=True):
            notice = None if node is None else understood(path, partial(decode, node.data))
            if notice is not None:
                yield notice

    def _sequence(self, path: str, prefix: str) -> list[str]:
        return [name for name in self.access.children(path) if name.startswith(prefix)]

    # -- sessions

    def _on_session_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            with self._lock:
                self._former_sessions.add(self._current_session)
                self._current_session = self._store.session_id


def _present(value: _T | None, path: str) -> _T:
    """Return a value that existed a moment ago. Raises StoreError: the value is gone."""
    if value is None:
        raise StoreError(path, "existed before but goes away while trying to read it")
    return value


def _registration_of(broker_id: int, data: bytes) -> BrokerInfo | None:
    return understood(BrokerIdZNode.path(broker_id), partial(BrokerIdZNode.decode, broker_id, data))
