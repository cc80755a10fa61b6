"""Writes the checkpoints of all log directories: `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`.

Owned by LogManager; called by the scheduler, at shutdown, and by a log whose offsets have become smaller (under the
log's lock). Takes only the log table's lock and those of the directories' checkpoints. Kafka: LogManager.checkpoint....
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.storage.directories.log_dir import LogDirectory
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.log_table import LogTable


class LogCheckpoints:
    """The checkpoints of the logs in `table`."""

    def __init__(self, directories: LogDirectories, table: LogTable) -> None:
        self._directories = directories
        self._table = table

    def write_recovery_points(self) -> None:
        """Write `recovery-point-offset-checkpoint` of every directory."""
        self._write(self._write_recovery_points, "writing checkpoint of recovery points")

    def write_log_start_offsets(self) -> None:
        """Write `log-start-offset-checkpoint` of every directory."""
        self._write(self._write_log_start_offsets, "writing checkpoint of log start offsets")

    def write_both(self, log_dir: str) -> None:
        """Write both of one directory. Raises OSError."""
        directory = self._directories[log_dir]
        self._write_recovery_points(directory)
        self._write_log_start_offsets(directory)

    def _write(self, write: Callable[[LogDirectory], None], doing: str) -> None:
        for directory in self._directories.online():
            try:
                write(directory)
            except OSError as error:
                self._directories.failed(directory.path, doing, error)

    def _write_recovery_points(self, directory: LogDirectory) -> None:
        directory.write_recovery_points(
            lambda: {log.topic_partition: log.local.recovery_point for log in self._table.in_dir(directory.path)}
        )

    def _write_log_start_offsets(self, directory: LogDirectory) -> None:
        """Write the start offsets that differ from the base offset of the log's first segment. Raises OSError."""
        # A log that starts where its first segment begins needs no entry: the loader takes that offset, as Kafka does.
        directory.write_log_start_offsets(
            lambda: {
                log.topic_partition: log.log_start_offset
                for log in self._table.in_dir(directory.path)
                if log.log_start_offset > log.local.segments.first.base_offset
            }
        )
