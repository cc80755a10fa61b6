"""The content of the log directories of a stopped broker: partitions with topic ids and epochs, and the owner.

Called by `broker.log_adoption` on the command line's thread, which holds the directories' locks; writes nothing.
Kafka has no counterpart: there the cluster's metadata say what a directory should hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import RecordBatch
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import (
    CLEANER_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    LeaderEpochCheckpointFile,
    MalformedCheckpoint,
    OffsetCheckpointFile,
)
from barnabas.storage.directories.log_dir import CLEAN_SHUTDOWN_FILE
from barnabas.storage.directories.meta_properties import MetaProperties, read_meta_properties
from barnabas.storage.errors import InconsistentMetaProperties
from barnabas.storage.file_names import (
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    LOG_SUFFIX,
    RAFT_METADATA_TOPIC,
    REMOTE_INDEX_CACHE_DIR,
    SNAPSHOT_SUFFIX,
    STRAY_DIR_SUFFIX,
    base_offset_of,
    parse_partition_dir,
    segment_file_name,
)
from barnabas.storage.log.leader_epochs import UNDEFINED_EPOCH
from barnabas.storage.log.topic_identity import read_partition_metadata
from barnabas.storage.producers.snapshot import CorruptSnapshot, read_snapshot, snapshot_offsets
from barnabas.storage.segment.batch_scan import scan_batches

LEFTOVER_SUFFIXES = (DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX)
NO_PRODUCER_ID = -1


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition's directory. topic_id: None when Kafka before 2.8 made the directory. -1 is no epoch or id."""

    topic_partition: TopicPartition
    directory: str
    topic_id: bytes | None
    latest_epoch: int
    highest_producer_id: int
    segment_count: int


@dataclass(slots=True)
class LogDirSurvey:
    """The findings. `problems` say what keeps the directories from being opened, a line each."""

    partitions: dict[TopicPartition, FoundPartition] = field(default_factory=dict)
    topics: dict[str, list[FoundPartition]] = field(default_factory=dict)
    """The partitions by topic, in the order of names and numbers."""
    meta_properties: dict[str, MetaProperties | None] = field(default_factory=dict)
    clean: dict[str, bool] = field(default_factory=dict)
    """Whether the broker of a directory stopped in order, by directory."""
    compacted_topics: set[str] = field(default_factory=set)
    """Topics that a cleaner has worked on."""
    leftovers: list[str] = field(default_factory=list)
    """Directories of logs that were being deleted or moved, or belonged to no topic."""
    raft_metadata: list[str] = field(default_factory=list)
    """Directories of KRaft's metadata log."""
    problems: list[str] = field(default_factory=list)


def survey_log_dirs(directories: Sequence[str], files: Files) -> LogDirSurvey:
    """Look into the log directories of one broker. A malformed file is a problem of the survey. Raises OSError."""
    survey = LogDirSurvey()
    for directory in directories:
        _survey_directory(directory, files, survey)
    for key, found in sorted(survey.partitions.items()):
        survey.topics.setdefault(key.topic, []).append(found)
    for topic, partitions in survey.topics.items():
        survey.problems += _problems_of_topic(topic, partitions)
    return survey


def _survey_directory(directory: str, files: Files, survey: LogDirSurvey) -> None:
    """Add the findings in one log directory to the survey. Raises OSError."""
    try:
        survey.meta_properties[directory] = read_meta_properties(files, directory)
    except InconsistentMetaProperties as error:
        survey.problems.append(str(error))
    survey.clean[directory] = files.exists(os.path.join(directory, CLEAN_SHUTDOWN_FILE))
    recovery_points = _read_offsets(directory, RECOVERY_POINT_FILE, files, survey)
    survey.compacted_topics |= {key.topic for key in _read_offsets(directory, CLEANER_OFFSET_FILE, files, survey)}
    for name in files.list_dir(directory):
        path = os.path.join(directory, name)
        if name == REMOTE_INDEX_CACHE_DIR or not files.is_dir(path):
            continue
        if name.endswith(LEFTOVER_SUFFIXES):
            survey.leftovers.append(path)
            continue
        topic_partition = parse_partition_dir(name)
        if topic_partition is None:
            continue
        if topic_partition.topic == RAFT_METADATA_TOPIC:
            survey.raft_metadata.append(path)
        elif topic_partition in survey.partitions:
            other = survey.partitions[topic_partition].directory
            survey.problems.append(f"partition {topic_partition} has two logs: {other} and {path}")
        else:
            tail_from = None if survey.clean[directory] else recovery_points.get(topic_partition, 0)
            try:
                survey.partitions[topic_partition] = _survey_partition(topic_partition, path, tail_from, files)
            except MalformedCheckpoint as error:
                survey.problems.append(str(error))


def _read_offsets(directory: str, name: str, files: Files, survey: LogDirSurvey) -> dict[TopicPartition, int]:
    try:
        return OffsetCheckpointFile(directory, name, files).read()
    except MalformedCheckpoint as error:
        survey.problems.append(str(error))
        return {}


def _survey_partition(
    topic_partition: TopicPartition, path: str, tail_from: int | None, files: Files
) -> FoundPartition:
    """Describe one partition. Raises MalformedCheckpoint, OSError.

    Epochs and producer ids up to `tail_from` are in small files, later ones in the batches (None: there are none).
    """
    epochs = [epoch for epoch, _ in LeaderEpochCheckpointFile(path, files).read()]
    producer_ids: list[int] = []
    snapshots = snapshot_offsets(files.list_dir(path))
    if snapshots:
        newest = os.path.join(path, segment_file_name(snapshots[-1], SNAPSHOT_SUFFIX))
        # A snapshot that was torn by a crash: the batches are read instead, as when the log is opened.
        with suppress(CorruptSnapshot):
            producer_ids += [entry.producer_id for entry in read_snapshot(files, newest)]
    if tail_from is not None:
        tail_from = min(tail_from, snapshots[-1]) if snapshots else 0
        for batch in batches_from(tail_from, path, files):
            if isinstance(batch, RecordBatch):
                epochs.append(batch.partition_leader_epoch)
                producer_ids.append(batch.producer_id)
    return FoundPartition(
        topic_partition,
        path,
        read_partition_metadata(files, path),
        max(epochs, default=UNDEFINED_EPOCH),
        max(producer_ids, default=NO_PRODUCER_ID),
        len(_base_offsets(path, files)),
    )


def batches_from(offset: int, path: str, files: Files) -> Iterator[RecordBatch | LegacyBatch]:
    """Yield the batches of the segment in `path` that holds `offset` and of later ones, each up to any damage.

    Raises OSError.
    """
    bases = _base_offsets(path, files)
    first = max((base for base in bases if base <= offset), default=0)
    for base in bases:
        if base < first:
            continue
        file = files.open(os.path.join(path, segment_file_name(base, LOG_SUFFIX)))
        try:
            # A torn tail, which will be cut off when the log is opened.
            with suppress(CorruptRecord):
                yield from scan_batches(file, 0, file.size())
        finally:
            file.close()


def _base_offsets(path: str, files: Files) -> list[int]:
    names = [name for name in files.list_dir(path) if name.endswith(LOG_SUFFIX)]
    return sorted(offset for offset in map(base_offset_of, names) if offset is not None)


def _problems_of_topic(topic: str, partitions: Sequence[FoundPartition]) -> list[str]:
    """Return what keeps a topic from being adopted: a missing partition, or two topic ids."""
    problems = []
    numbers = [found.topic_partition.partition for found in partitions]
    missing = sorted(set(range(numbers[-1] + 1)) - set(numbers))
    if missing:
        named = ", ".join(map(str, missing[:20])) + (" and more" if len(missing) > 20 else "")
        problems.append(
            f"topic {topic} has no directory of partition {named}, but one of partition {numbers[-1]}: name every log"
            " directory of the broker; a broker that held only some partitions cannot be adopted"
        )
    ids = {found.topic_id for found in partitions} - {None}
    if len(ids) > 1:
        problems.append(f"the partitions of topic {topic} carry different topic ids")
    return problems
