"""The id of the topic a log belongs to, in memory and in `partition.metadata`.

A TopicIdentity is owned by a log's `LogState` and guarded by the log's lock; `topic_id` is read by any thread. The file
has Kafka's text format, version 0. Kafka: UnifiedLog.assignTopicId, PartitionMetadataFile.
"""

from __future__ import annotations

import os

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import uuid_from_string, uuid_to_string
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import MalformedCheckpoint
from barnabas.storage.errors import InconsistentTopicId

PARTITION_METADATA_FILE = "partition.metadata"
_FORMAT_VERSION = 0


def write_partition_metadata(files: Files, directory: str, topic_id: bytes) -> None:
    """Write the file; durable when this returns. Raises OSError."""
    text = f"version: {_FORMAT_VERSION}\ntopic_id: {uuid_to_string(topic_id)}\n"
    files.write_atomically(os.path.join(directory, PARTITION_METADATA_FILE), text.encode())


def read_partition_metadata(files: Files, directory: str) -> bytes | None:
    """Return the topic id, or None when there is no file. Raises MalformedCheckpoint, OSError."""
    path = os.path.join(directory, PARTITION_METADATA_FILE)
    try:
        text = files.read_bytes(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != str(_FORMAT_VERSION):
        raise MalformedCheckpoint(f"{path}: unknown version {fields.get('version')!r}")
    try:
        return uuid_from_string(fields["topic_id"])
    except (KeyError, ValueError):
        raise MalformedCheckpoint(f"{path}: no valid topic_id") from None


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
