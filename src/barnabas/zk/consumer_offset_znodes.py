"""Offsets of consumers that keep them in the store, as Kafka's consumers did before 0.9.

A part of `KafkaZkClient` (its attribute `consumer_offsets`), used on request handler threads; stateless, so no lock.
Kafka: kafka.zk.KafkaZkClient.setOrCreateConsumerOffset, getConsumerOffset, ConsumerOffset.
"""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.errors import NodeExistsError, StoreError
from barnabas.zk.store import SetData
from barnabas.zk.znode_access import ZnodeAccess, creations_with_parents


class ConsumerOffsetZnodes:
    """The offsets at /consumers/<group>/offsets/<topic>/<partition>, in digits."""

    def __init__(self, access: ZnodeAccess) -> None:
        self._access = access

    def set_or_create(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Write an offset. The group id must be fit for a path (`is_path_element`). Raises StoreError."""
        path, data = _path(group_id, partition), str(offset).encode()
        # Exactly one of the two succeeds: the creation fails when the znode exists.
        for outcome in self._access.store.batch([*creations_with_parents(path, data), SetData(path, data)]):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                raise outcome

    def get(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return the offset, or None if there is none."""
        node = self._access.get(_path(group_id, partition))
        return None if node is None or not node.data else int(node.data)


def is_path_element(text: str) -> bool:
    """Return whether a text can be one name in a path."""
    return bool(text) and text not in (".", "..") and "/" not in text and text.isprintable()


def _path(group_id: str, partition: TopicPartition) -> str:
    return f"/consumers/{group_id}/offsets/{partition.topic}/{partition.partition}"
