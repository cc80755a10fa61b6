"""The offset up to which each log has been cleaned: `cleaner-offset-checkpoint` of every log directory.

Owned by LogCleanerManager, used under its lock. The content of the files is kept in memory after the first read: no
other code writes them. Kafka: LogCleanerManager, which has the checkpoints itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import CLEANER_OFFSET_FILE, MalformedCheckpoint, OffsetCheckpointFile

logger = logging.getLogger(__name__)


class CleanerCheckpoints:
    """First dirty offsets by log directory and partition. Methods that write raise OSError."""

    def __init__(self, log_dirs: Iterable[str], files: Files) -> None:
        self._checkpoints = {path: OffsetCheckpointFile(path, CLEANER_OFFSET_FILE, files) for path in log_dirs}
        self._offsets: dict[str, dict[TopicPartition, int]] = {}

    def offset(self, log_dir: str, topic_partition: TopicPartition) -> int | None:
        """Return how far the partition's log in this directory is clean; None when nothing is known."""
        return self._load(log_dir).get(topic_partition)

    def update(
        self,
        log_dir: str,
        *,
        changed: tuple[TopicPartition, int] | None = None,
        removed: TopicPartition | None = None,
        present: Iterable[TopicPartition],
    ) -> None:
        """Write the file with one offset changed or removed, and without partitions that are not `present` any more."""
        checkpoint = self._checkpoints.get(log_dir)
        if checkpoint is None:
            return
        before = self._load(log_dir)
        there = set(present)
        offsets = {key: offset for key, offset in before.items() if key in there and key != removed}
        if changed is not None:
            offsets[changed[0]] = changed[1]
        if offsets == before:
            return
        checkpoint.write(offsets)
        self._offsets[log_dir] = offsets

    def forget_log_dir(self, log_dir: str) -> None:
        """Neither read nor write the checkpoint of a directory that has failed."""
        self._checkpoints.pop(log_dir, None)
        self._offsets.pop(log_dir, None)

    def _load(self, log_dir: str) -> dict[TopicPartition, int]:
        """Return the content of the file; an unreadable one counts as empty, so that more is cleaned than needed."""
        offsets = self._offsets.get(log_dir)
        if offsets is None:
            checkpoint = self._checkpoints.get(log_dir)
            try:
                offsets = checkpoint.read() if checkpoint is not None else {}
            except (MalformedCheckpoint, OSError) as error:
                logger.warning("Failed to access checkpoint file %s in dir %s: %s", CLEANER_OFFSET_FILE, log_dir, error)
                offsets = {}
            self._offsets[log_dir] = offsets
        return offsets
