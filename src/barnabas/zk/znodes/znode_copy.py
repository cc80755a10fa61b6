"""The copy of a cluster's metadata from one store to another: every persistent znode, and the check of the copy.

Used by `broker.metadata_migration` on its main thread, while no broker uses either store; no lock. What only a running
cluster needs is left out: ephemeral znodes, and the queues of notices. Versions of znodes start again, since they fence
writers that run, with one exception: the version of /brokers/seqid is the number of broker ids that were generated.

The cluster's id is written last, so that an interrupted copy has none. A broker with data refuses to start on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.zk.store.errors import NodeExistsError
from barnabas.zk.store.store import (
    Children,
    Create,
    Created,
    GetChildren,
    GetData,
    NodeData,
    Operation,
    Outcome,
    SetData,
    Stat,
    Store,
    value_of,
    value_or_none,
)
from barnabas.zk.znodes.broker_zk_data import (
    BrokerIdsZNode,
    BrokerSequenceIdZNode,
    ClusterIdZNode,
    LogDirEventNotificationZNode,
)
from barnabas.zk.znodes.config_znodes import ConfigEntityChangeNotificationZNode
from barnabas.zk.znodes.topic_zk_data import IsrChangeNotificationZNode

_QUEUES: Final = (
    ConfigEntityChangeNotificationZNode.path,
    IsrChangeNotificationZNode.path,
    LogDirEventNotificationZNode.path,
)
"""The parents of notices, which running brokers read once."""
_OF_ZOOKEEPER: Final = "/zookeeper"
"""The znodes of ZooKeeper itself, if the cluster has no chroot."""
_BATCH: Final = 500


class CopyRefused(Exception):
    """The copy would mix two clusters, or is not what was written. The message is for the user."""


class ZnodeTree(NamedTuple):
    """The persistent znodes of a store: their data by path, parents first. generated_ids: how many broker ids were."""

    data: Mapping[str, bytes]
    generated_ids: int

    @property
    def cluster_id(self) -> bytes | None:
        """The data of /cluster/id."""
        return self.data.get(ClusterIdZNode.path)


def read_tree(store: Store) -> ZnodeTree:
    """Read everything that a copy consists of. Raises StoreError."""
    data: dict[str, bytes] = {}
    generated_ids = 0
    level = _children_of(store, ["/"])
    while level:
        nodes = dict(zip(level, _in_batches(store, [GetData(path) for path in level]), strict=True))
        kept: list[str] = []
        for path, outcome in nodes.items():
            node = value_or_none(outcome, NodeData)
            if node is None or node.stat.ephemeral_owner:
                continue
            data[path] = node.data
            if path == BrokerSequenceIdZNode.path:
                generated_ids = node.stat.version
            if path not in _QUEUES:
                kept.append(path)
        level = _children_of(store, kept)
    return ZnodeTree(data, generated_ids)


def check_no_broker(store: Store, what: str) -> None:
    """Check that no broker is registered. Raises CopyRefused, StoreError."""
    outcome = store.batch([GetChildren(BrokerIdsZNode.path)])[0]
    children = value_or_none(outcome, Children)
    if children is not None and children.names:
        raise CopyRefused(f"the brokers {', '.join(children.names)} are registered in {what}: stop them first")


def write_tree(tree: ZnodeTree, target: Store, what: str) -> None:
    """Write a copy into a store that is empty, or has an interrupted copy of the same tree; then check it.

    Raises CopyRefused: the store has another cluster, or the copy is not equal afterwards. Raises StoreError.
    """
    before = read_tree(target)
    if before.cluster_id is not None and before.cluster_id != tree.cluster_id:
        raise CopyRefused(f"{what} belongs to another cluster already: {before.cluster_id.decode(errors='replace')}")
    if foreign := sorted(before.data.keys() - tree.data.keys()):
        raise CopyRefused(f"{what} is not empty: it has {foreign[0]}, which is not part of this cluster")
    paths = [path for path in tree.data if path != ClusterIdZNode.path]
    _create_all(target, tree, [path for path in paths if path not in before.data])
    _set_all(target, tree, [path for path in paths if before.data.get(path, tree.data[path]) != tree.data[path]])
    for _ in range(before.generated_ids, tree.generated_ids):
        target.set(BrokerSequenceIdZNode.path, tree.data[BrokerSequenceIdZNode.path])
    if before.cluster_id is None and tree.cluster_id is not None:
        target.create(ClusterIdZNode.path, tree.cluster_id)
    check_equal(tree, target, what)


def check_equal(tree: ZnodeTree, target: Store, what: str) -> None:
    """Check that a store has exactly this tree. Raises CopyRefused, StoreError."""
    found = read_tree(target)
    wrong = [
        path for path in sorted(tree.data.keys() | found.data.keys()) if tree.data.get(path) != found.data.get(path)
    ]
    if wrong:
        raise CopyRefused(f"{what} differs from what was copied, at {wrong[0]}")
    if found.generated_ids < tree.generated_ids:
        raise CopyRefused(f"{what} has forgotten generated broker ids: {found.generated_ids} of {tree.generated_ids}")


def _create_all(target: Store, tree: ZnodeTree, paths: Sequence[str]) -> None:
    # Parents come first in the tree, and a store applies a batch in order.
    for outcome in _in_batches(target, [Create(path, tree.data[path]) for path in paths]):
        if not isinstance(outcome, NodeExistsError):
            value_of(outcome, Created)


def _set_all(target: Store, tree: ZnodeTree, paths: Sequence[str]) -> None:
    for outcome in _in_batches(target, [SetData(path, tree.data[path]) for path in paths]):
        value_of(outcome, Stat)


def _children_of(store: Store, parents: Sequence[str]) -> list[str]:
    found = []
    for parent, outcome in zip(parents, _in_batches(store, [GetChildren(path) for path in parents]), strict=True):
        children = value_or_none(outcome, Children)
        if children is not None:
            base = "" if parent == "/" else parent
            found += [f"{base}/{name}" for name in children.names]
    return [path for path in found if path != _OF_ZOOKEEPER]


def _in_batches(store: Store, operations: Sequence[Operation]) -> list[Outcome]:
    """Apply operations in order, some hundred at a time. Raises StoreUnavailableError."""
    outcomes: list[Outcome] = []
    for start in range(0, len(operations), _BATCH):
        outcomes += store.batch(operations[start : start + _BATCH])
    return outcomes
