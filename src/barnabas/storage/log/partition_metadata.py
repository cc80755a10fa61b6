"""`partition.metadata`: which topic, by its id, the log in a directory belongs to. Kafka's text format, version 0.

Functions on files, called by TopicIdentity under the log's lock and by the loader. Kafka: PartitionMetadataFile.
"""

from __future__ import annotations

import os

from barnabas.protocol.uuid import uuid_from_string, uuid_to_string
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import MalformedCheckpoint

FILE_NAME = "partition.metadata"
VERSION = 0


def write_partition_metadata(files: Files, directory: str, topic_id: bytes) -> None:
    """Write the file; durable when this returns. Raises OSError."""
    text = f"version: {VERSION}\ntopic_id: {uuid_to_string(topic_id)}\n"
    files.write_atomically(os.path.join(directory, FILE_NAME), text.encode())


def read_partition_metadata(files: Files, directory: str) -> bytes | None:
    """Return the topic id, or None when there is no file. Raises MalformedCheckpoint, OSError."""
    path = os.path.join(directory, FILE_NAME)
    try:
        text = files.read_bytes(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != str(VERSION):
        raise MalformedCheckpoint(f"{path}: unknown version {fields.get('version')!r}")
    try:
        return uuid_from_string(fields["topic_id"])
    except (KeyError, ValueError):
        raise MalformedCheckpoint(f"{path}: no valid topic_id") from None
