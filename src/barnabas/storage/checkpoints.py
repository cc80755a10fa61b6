"""Checkpoint files: offsets by partition, start offsets by leader epoch. Kafka's text format, version 0.

One file object per file; any thread; `_lock` orders the writes. A write is atomic and durable when it returns.
Format: a line with the version, a line with the number of entries, a line per entry. Kafka: CheckpointFile,
OffsetCheckpointFile, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Files

VERSION = 0

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"


class MalformedCheckpoint(Exception):
    """A checkpoint file has another format; the text names the file and the line."""


# A `recovery-point-offset-checkpoint` with two partitions, as Kafka writes it: version, number of entries, entries.
#
#   0
#   2
#   orders 0 120
#   orders 1 95


class CheckpointFile:
    """Lines of fields, separated by one blank."""

    __slots__ = ("_files", "_lock", "path")

    def __init__(self, path: str, files: Files) -> None:
        self.path = path
        self._files = files
        self._lock = threading.Lock()

    def read_entries(self) -> list[str]:
        """Return the lines of the entries; none when the file is missing, or empty as Kafka's is at first.

        Raises MalformedCheckpoint when the version is unknown or the number of entries is not the one announced.
        Raises OSError.
        """
        try:
            text = self._files.read_bytes(self.path).decode()
        except FileNotFoundError:
            return []
        except UnicodeDecodeError as error:
            raise MalformedCheckpoint(f"{self.path}: {error}") from None
        if not text:
            return []
        lines = text.split("\n")
        version, count = self._number(lines, 0), self._number(lines, 1)
        if version != VERSION:
            raise MalformedCheckpoint(f"{self.path}: unknown version {version}, expected {VERSION}")
        entries = [line for line in lines[2:] if line]
        if count != len(entries):
            raise MalformedCheckpoint(f"{self.path}: {count} entries announced, {len(entries)} found")
        return entries

    def write_entries(self, entries: Iterable[str]) -> None:
        """Replace the content; durable when this returns. Raises OSError."""
        # The number of entries comes first in the file, so the entries are listed before anything is written.
        lines = list(entries)
        data = "\n".join((str(VERSION), str(len(lines)), *lines, "")).encode()
        with self._lock:
            self._files.write_atomically(self.path, data)

    def malformed(self, line: str) -> MalformedCheckpoint:
        """Return the error for an entry that cannot be parsed."""
        return MalformedCheckpoint(f"{self.path}: malformed line {line!r}")

    def _number(self, lines: list[str], place: int) -> int:
        """Return the number in a line. Raises MalformedCheckpoint."""
        try:
            return int(lines[place])
        except (IndexError, ValueError):
            line = lines[place] if place < len(lines) else ""
            raise MalformedCheckpoint(f"{self.path}: malformed line {line!r}") from None


class OffsetCheckpointFile:
    """An offset per partition: `topic partition offset`."""

    __slots__ = ("_file",)

    def __init__(self, directory: str, name: str, files: Files) -> None:
        self._file = CheckpointFile(os.path.join(directory, name), files)

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._file.path

    def read(self) -> dict[TopicPartition, int]:
        """Return all offsets; none when there is no file. Raises MalformedCheckpoint, OSError."""
        offsets = {}
        for line in self._file.read_entries():
            try:
                topic, partition, offset = line.split(" ")
                offsets[TopicPartition(topic, int(partition))] = int(offset)
            except ValueError:
                raise self._file.malformed(line) from None
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace all offsets. Raises OSError."""
        self._file.write_entries(f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items()))


class LeaderEpochCheckpointFile:
    """A start offset per leader epoch: `epoch start-offset`, in the log's directory."""

    __slots__ = ("_file",)

    def __init__(self, directory: str, files: Files) -> None:
        self._file = CheckpointFile(os.path.join(directory, LEADER_EPOCH_FILE), files)

    def read(self) -> list[tuple[int, int]]:
        """Return (epoch, start offset) in the order of the file. Raises MalformedCheckpoint, OSError."""
        epochs = []
        for line in self._file.read_entries():
            try:
                epoch, start_offset = line.split(" ")
                epochs.append((int(epoch), int(start_offset)))
            except ValueError:
                raise self._file.malformed(line) from None
        return epochs

    def write(self, epochs: Iterable[tuple[int, int]]) -> None:
        """Replace all epochs. Raises OSError."""
        self._file.write_entries(f"{epoch} {start_offset}" for epoch, start_offset in epochs)

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory has been renamed."""
        self._file.path = os.path.join(directory, LEADER_EPOCH_FILE)
