"""Offsets of consumers that keep them in the store, as Kafka's did before 0.9.

A part of `KafkaZkClient` (its attribute `consumer_offsets`), used on request handler threads; stateless, so no lock.
Kafka: kafka.zk.KafkaZkClient.setOrCreateConsumerOffset, getConsumerOffset, ConsumerOffset.
"""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.errors import NodeExistsError, StoreError
from barnabas.zk.store import SetData
from barnabas.zk.znode_access import ZnodeAccess, creations_with_parents


class ConsumerOffsetZnodes:
    """/consumers/<group>/offsets/<topic>/<partition>, with the offset in digits."""

    def __init__(self, access: ZnodeAccess) -> None:
        self._access = access

    def set_or_create(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Keep an offset. The group id must be fit for a path (`is_path_element`)."""
        path, data = _path(group_id, partition), str(offset).encode()
        # one of the two does it: the creation fails when it is there
        for outcome in self._access.store.batch([*creations_with_parents(path, data), SetData(path, data)]):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                raise outcome

    def get(self, group_id: str, partition: TopicPartition) -> int | None:
        """The offset that was kept, if there is one."""
        node = self._access.get(_path(group_id, partition))
        return None if node is None or not node.data else int(node.data)


def is_path_element(text: str) -> bool:
    """Whether it can be one name in a path."""
    return bool(text) and text not in (".", "..") and "/" not in text and text.isprintable()


def _path(group_id: str, partition: TopicPartition) -> str:
    return f"/consumers/{group_id}/offsets/{partition.topic}/{partition.partition}"
