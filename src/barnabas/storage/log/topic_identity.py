"""The id of the topic a log belongs to, in memory and in `partition.metadata`.

Owned by a log's `LogState` and guarded by the log's lock; `topic_id` is read by any thread.
Kafka: UnifiedLog.assignTopicId, PartitionMetadataFile.
"""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Files
from barnabas.storage.errors import InconsistentTopicId
from barnabas.storage.log.partition_metadata import write_partition_metadata


class TopicIdentity:
    """A log's topic id (None: not known yet), and whether its file still has to be written."""

    __slots__ = ("_topic_partition", "is_pending", "topic_id")

    def __init__(self, topic_partition: TopicPartition, topic_id: bytes | None) -> None:
        self._topic_partition = topic_partition
        self.topic_id = topic_id
        self.is_pending = False

    def assign(self, topic_id: bytes) -> None:
        """Take the id, to be written soon. Raises InconsistentTopicId when the log has another one."""
        if self.topic_id is None:
            self.topic_id = topic_id
            self.is_pending = True
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(
                f"{self._topic_partition} is of topic {self.topic_id.hex()}, not of {topic_id.hex()}"
            )

    def flush(self, files: Files, directory: str) -> None:
        """Write `partition.metadata` into the log's directory if that is due. Raises OSError."""
        if self.is_pending and self.topic_id is not None:
            write_partition_metadata(files, directory, self.topic_id)
            self.is_pending = False
