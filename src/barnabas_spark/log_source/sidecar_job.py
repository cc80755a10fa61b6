"""The job behind `barnabas log sidecars`: builds, checks and drops the sidecars of data directories.

Called by the command line on its main thread; the broker may run meanwhile. Reads log files, writes sidecars only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.runtime.files import Files
from barnabas.storage.readonly.log_directories import ReadonlyDirectories
from barnabas.storage.readonly.log_split import LogSplit, split_log
from barnabas.storage.readonly.partition_log import PartitionLog
from barnabas_spark.log_source.sidecars import (
    current_sidecar,
    identity_of,
    log_path_of,
    read_source,
    sidecars_in,
    whole_crc,
    write_sidecar,
)

_WHOLE = 1 << 62


class SidecarReport(NamedTuple):
    """What was done to, or found of, one sidecar. `is_wrong`: the source does not use it as it is."""

    path: str
    what: str
    is_wrong: bool = False


class SidecarJob:
    """The sidecars of all topics in `paths`, or of `topics`. The constructor raises LogUnreadable."""

    def __init__(self, paths: Sequence[str], topics: Sequence[str], files: Files) -> None:
        self._directories = ReadonlyDirectories(paths, files)
        self._topics = set(topics) or self._directories.topics()
        self._files = files

    def build(self) -> Iterator[SidecarReport]:
        """Drop what has no segment any more or is outdated, and build what is missing; yield each change.

        A segment is sealed when a later one exists and the high watermark has passed its end. Raises LogUnreadable,
        OSError.
        """
        for log in self._directories.logs(self._topics):
            yield from self._drop_useless(log)
            for split in self._sealed(log):
                if current_sidecar(split.path, self._files) is not None:
                    continue
                try:
                    written = write_sidecar(split, self._files)
                except FileNotFoundError:
                    # Retention has deleted the segment, or the cleaner has merged it into the one before.
                    continue
                yield SidecarReport(written.path, f"built, {written.rows} rows")

    def check(self) -> Iterator[SidecarReport]:
        """Compare every sidecar with the whole log file it was made from; yield each finding.

        Raises LogUnreadable, OSError.
        """
        for log in self._directories.logs(self._topics):
            for path in sidecars_in(log.directory, self._files):
                finding = self._finding(path)
                yield SidecarReport(path, finding or "sound", is_wrong=finding is not None)

    def drop(self) -> Iterator[SidecarReport]:
        """Remove every sidecar; yield each. Raises LogUnreadable, OSError."""
        for log in self._directories.logs(self._topics):
            for path in sidecars_in(log.directory, self._files):
                os.unlink(path)
                yield SidecarReport(path, "dropped")

    def _drop_useless(self, log: PartitionLog) -> Iterator[SidecarReport]:
        for path in sidecars_in(log.directory, self._files):
            log_path = log_path_of(path)
            if not self._files.exists(log_path):
                reason = "its segment is gone"
            elif current_sidecar(log_path, self._files) != path:
                reason = f"it does not fit {log_path} any more"
            else:
                continue
            os.unlink(path)
            yield SidecarReport(path, f"dropped: {reason}")

    def _sealed(self, log: PartitionLog) -> Iterator[LogSplit]:
        """Yield a split for each sealed segment, with all its offsets."""
        readable = self._directories.readable(log)
        for segment, following in zip(readable.segments, readable.segments[1:], strict=False):
            if following.base_offset <= readable.end:
                alone = readable._replace(segments=[segment, following])
                yield from split_log(alone, segment.base_offset, following.base_offset, _WHOLE)

    def _finding(self, path: str) -> str | None:
        """Return what is wrong with a sidecar, or None."""
        log_path = log_path_of(path)
        source = read_source(path)
        if source is None:
            return "is no sidecar of this version"
        try:
            identity = identity_of(log_path, self._files)
        except FileNotFoundError:
            return "its segment is gone"
        if identity != source.identity:
            return f"was made from another file than {log_path}"
        file = self._files.open(log_path)
        try:
            is_same = whole_crc(file) == source.crc
        finally:
            file.close()
        return None if is_same else f"{log_path} has changed in place since: one of the two is damaged"
