"""Dumps of the files of a log directory that belong to no segment: producer snapshots, checkpoints, identities.

Called by `log_file` for the command line, read-only, on one thread. Kafka's DumpLogSegments prints snapshots in the
same lines; the other files are text, which Kafka has no tool for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from barnabas.protocol.uuid import uuid_to_string
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LEADER_EPOCH_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    LeaderEpochCheckpointFile,
    MalformedCheckpoint,
    OffsetCheckpointFile,
)
from barnabas.storage.directories.clean_shutdown import FILE_NAME as CLEAN_SHUTDOWN_FILE
from barnabas.storage.directories.meta_properties import FILE_NAME as META_PROPERTIES_FILE
from barnabas.storage.directories.meta_properties import read_meta_properties
from barnabas.storage.dump.complaint import Complaint
from barnabas.storage.errors import InconsistentMetaProperties
from barnabas.storage.log.partition_metadata import FILE_NAME as PARTITION_METADATA_FILE
from barnabas.storage.log.partition_metadata import read_partition_metadata
from barnabas.storage.producers.snapshot import CorruptSnapshot, read_snapshot


def dump_snapshot(path: str, files: Files) -> Iterator[str]:
    """Yield a line per producer of a `.snapshot` file. Raises OSError."""
    try:
        entries = read_snapshot(files, path)
    except CorruptSnapshot as error:
        yield Complaint(f"{path}: {error}")
        return
    for entry in entries:
        first = entry.transaction_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} coordinatorEpoch:"
            f" {entry.coordinator_epoch} currentTxnFirstOffset:"
            f" {'OptionalLong.empty' if first < 0 else f'OptionalLong[{first}]'} lastTimestamp: {entry.last_timestamp} "
        )
        if entry.batches:
            # A snapshot holds no more than the last batch of a producer.
            batch = entry.batches[0]
            line += (
                f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} lastOffset:"
                f" {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
            )
        yield line


def _dump_offsets(path: str, files: Files) -> Iterator[str]:
    directory, name = os.path.split(path)
    for key, offset in sorted(OffsetCheckpointFile(directory, name, files).read().items()):
        yield f"topic: {key.topic} partition: {key.partition} offset: {offset}"


def _dump_leader_epochs(path: str, files: Files) -> Iterator[str]:
    before = (-1, -1)
    for epoch, start_offset in LeaderEpochCheckpointFile(os.path.dirname(path), files).read():
        yield f"leaderEpoch: {epoch} startOffset: {start_offset}"
        if epoch <= before[0] or start_offset < before[1]:
            yield Complaint(f"{path}: epoch {epoch} from offset {start_offset} follows {before[0]} from {before[1]}")
        before = (epoch, start_offset)


def _dump_partition_metadata(path: str, files: Files) -> Iterator[str]:
    topic_id = read_partition_metadata(files, os.path.dirname(path))
    if topic_id is not None:
        yield f"topicId: {uuid_to_string(topic_id)}"


def _dump_meta_properties(path: str, files: Files) -> Iterator[str]:
    """Yield the one line of `meta.properties`. Raises MalformedCheckpoint, OSError."""
    try:
        found = read_meta_properties(files, os.path.dirname(path))
    except InconsistentMetaProperties as error:
        raise MalformedCheckpoint(str(error)) from None
    if found is not None:
        yield (
            f"version: {found.version} clusterId: {found.cluster_id} brokerId: {found.broker_id}"
            f" directoryId: {found.directory_id}"
        )


def _dump_text(path: str, files: Files) -> Iterator[str]:
    yield from files.read_bytes(path).decode("utf-8", "replace").splitlines()


STATE_FILES: Mapping[str, Callable[[str, Files], Iterator[str]]] = {
    RECOVERY_POINT_FILE: _dump_offsets,
    LOG_START_OFFSET_FILE: _dump_offsets,
    HIGH_WATERMARK_FILE: _dump_offsets,
    CLEANER_OFFSET_FILE: _dump_offsets,
    LEADER_EPOCH_FILE: _dump_leader_epochs,
    PARTITION_METADATA_FILE: _dump_partition_metadata,
    META_PROPERTIES_FILE: _dump_meta_properties,
    CLEAN_SHUTDOWN_FILE: _dump_text,
}
"""The function that dumps a file, by name."""
