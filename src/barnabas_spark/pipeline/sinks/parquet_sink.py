"""The sink of a directory of Parquet files: replaced by each micro-batch, or appended to, each micro-batch once.

Threads: see `sink`. Queries that append to one directory take turns by a lock in it.

Readers of such a directory heed Spark's log in it, `_spark_metadata`, whose entries are numbered one after the other.
Spark's own sink takes the number of the micro-batch for the number of the entry. That is right for one query that
never begins anew: a second query, or the first one with a new checkpoint, has its micro-batches dropped while their
numbers are below the newest entry's. So here the two numbers are apart, and a micro-batch is written in two steps:

1. Spark's sink writes the files, and lists them in a log of this micro-batch's own, inside of the query's checkpoint
   (`barnabas-files/<sink>/<micro-batch>`). Readers do not see the files yet.
2. The list becomes the next entry of the directory's log.

A micro-batch that is repeated after a crash finds its own list, and asks the directory's log for one of the files: they
have names of their own. What is in the checkpoint is as old as the checkpoint, so a query that begins anew has written
nothing yet, whatever its name.

A checkpoint of an earlier version has no lists. Its last micro-batch may be in the directory, as the entry of its own
number: `written_by_earlier_version` decides.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from barnabas_spark.pipeline.checkpoint_layout import batch_time_ms, is_of_earlier_version
from barnabas_spark.pipeline.entry import PARTITION_BY, Entry, Keys, text
from barnabas_spark.pipeline.sinks.sink import PlannedSink, QueryPlace, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas_spark.pipeline.rows import QueryRows

_STATE = "barnabas-files"
_LOG = "_spark_metadata"
_LOCK = ".barnabas.lock"
_CLOCK_SLACK_MS = 2_000
"""How much older than the clock a file system may show a file that was just written."""


class ParquetSink(Sink):
    """A directory of Parquet files."""

    CHOICES, NOUN = ("parquet",), "Parquet"
    KEYS: ClassVar[Keys] = {
        "parquet": text("The directory to write Parquet files to."),
        "partition_by": PARTITION_BY,
    }

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        self.directory = entry.resolved(entry.keys["parquet"])
        self.what = f"files of {self.directory}"
        self.partition_by: Sequence[str] = entry.keys.get("partition_by", ())
        if self.mode == "update":
            entry.note("files cannot be updated: use append or complete", "mode")

    def planned(self, rows: QueryRows) -> PlannedSink:
        """Return the columns. Raises FormatError, Spark's errors."""
        columns, deleted = rows.columns(), self._deleted(rows)
        # Spark's analyser looks at the columns here.
        rows.select(columns)
        return PlannedSink(self, columns, self._write, rows.left_out(), deleted)

    def place_problem(self, sinks: Sequence[Sink]) -> str | None:
        """Return why the directory cannot be written, or None. Raises OSError."""
        if self.mode == "append":
            return problem_of_directory(self.directory)
        replaced = os.path.join(os.path.realpath(self.directory), "")
        for other in sinks:
            if (
                isinstance(other, ParquetSink)
                and other is not self
                and os.path.join(os.path.realpath(other.directory), "").startswith(replaced)
            ):
                return (
                    f"sinks.{self.name} replaces all of {self.directory} with each micro-batch, and so what"
                    f" sinks.{other.name} writes there: give each a directory of its own"
                )
        return None

    def _write(self, rows: DataFrame, batch: int, place: QueryPlace) -> None:
        """Write a micro-batch. Raises Spark's errors, OSError."""
        if self.mode == "append":
            _AppendedFiles(self, place).write(rows, batch)
            return
        # A micro-batch that is repeated writes the same whole table again.
        writer = rows.write.mode("overwrite").options(**self.options)
        (writer.partitionBy(*self.partition_by) if self.partition_by else writer).parquet(self.directory)


class _AppendedFiles:
    """The files of one sink in a query."""

    def __init__(self, sink: ParquetSink, place: QueryPlace) -> None:
        self._sink = sink
        self._checkpoint = place.checkpoint
        self._state = os.path.join(place.checkpoint, _STATE, str(place.number))

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a micro-batch, unless it is there already. Raises Spark's errors, OSError."""
        session: Any = rows.sparkSession
        jvm = session._jvm  # noqa: SLF001 Spark shows this sink to streams only, and foreachBatch gets batches
        sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
        file_sink = sinks.FileStreamSink(
            session._jsparkSession,  # noqa: SLF001
            self._sink.directory,
            jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat(),
            jvm.PythonUtils.toSeq(list(self._sink.partition_by)),
            jvm.PythonUtils.toScalaMap({"path": self._sink.directory, **self._sink.options}),
        )
        # The sink lists what it writes in the log of this field; its interface has no other way to name a log.
        field = file_sink.getClass().getDeclaredField("fileLog")
        field.setAccessible(True)
        shared = field.get(file_sink)
        if self._is_written_by_earlier_version(shared, batch):
            return
        own = sinks.FileStreamSinkLog(
            sinks.FileStreamSinkLog.VERSION(),
            session._jsparkSession,  # noqa: SLF001
            # With the scheme: Spark's default may be another file system.
            f"file:{os.path.join(self._state, str(batch))}",
            jvm.scala.Option.empty(),
        )
        is_repeated = own.getLatestBatchId().isDefined()
        if not is_repeated:
            field.set(file_sink, own)
            file_sink.addBatch(0, rows._jdf)  # noqa: SLF001
        files = own.get(0).get()
        if len(files):
            self._publish(jvm, shared, files, is_repeated=is_repeated)
        self._forget(batch)

    def _publish(self, jvm: Any, shared: Any, files: Any, *, is_repeated: bool) -> None:
        """Make the list of files the next entry of the directory's log, unless it has them."""
        with self._turn():
            if is_repeated and files[0].path() in _text(jvm, shared):
                return
            latest = shared.getLatestBatchId()
            number = latest.get() + 1 if latest.isDefined() else 0
            if not shared.add(number, files):
                raise OSError(
                    f"another writer has added entry {number} to {self._sink.directory}/{_LOG} at the same time"
                )

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until no other query adds to the directory's log. Raises OSError.

        On a local disk a rename replaces a file that has come into being at the same moment. Other file systems refuse
        the second of two equal entries, and so fail one of the queries, which goes on with its next run.
        """
        directory = _local(self._sink.directory)
        if directory is None or not os.path.isdir(os.path.join(directory, _LOG)):
            # Not on this machine: Spark's default file system may be another one.
            yield
            return
        with open(os.path.join(directory, _LOG, _LOCK), "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _is_written_by_earlier_version(self, shared: Any, batch: int) -> bool:
        if not is_of_earlier_version(self._checkpoint) or os.path.isdir(self._state):
            return False
        latest = shared.getLatestBatchId()
        if not latest.isDefined() or latest.get() != batch:
            return False
        # The micro-batch's own files are the last ones, also where the entry is a summary of all before it.
        files = shared.get(batch).get()
        modified_ms = files[len(files) - 1].modificationTime() if len(files) else None
        return written_by_earlier_version(modified_ms, batch_time_ms(self._checkpoint, batch))

    def _forget(self, batch: int) -> None:
        """Remove the lists of the micro-batches before: they are not repeated any more. Raises OSError."""
        for name in os.listdir(self._state):
            if name.isdigit() and int(name) < batch:
                shutil.rmtree(os.path.join(self._state, name))


def _text(jvm: Any, log: Any) -> str:
    """Return all that a log has, as text: its files one by one would each be a call of the JVM."""
    text = jvm.java.io.ByteArrayOutputStream()
    log.serialize(log.allFiles(), text)
    # As Spark writes it: the JVM's default charset may be another one.
    return str(text.toString("UTF-8"))


def written_by_earlier_version(modified_ms: int | None, planned_ms: int | None) -> bool:
    """Return whether the newest entry, which has the number of this query's micro-batch, is of this query.

    modified_ms: when the entry's files were written. planned_ms: when the micro-batch was planned. Files from before
    are those of another query, or of this one before it began anew.
    """
    return modified_ms is not None and planned_ms is not None and modified_ms >= planned_ms - _CLOCK_SLACK_MS


def problem_of_directory(directory: str) -> str | None:
    """Return why files cannot be appended to a directory, or None. Raises OSError.

    Directories elsewhere than on this machine are not looked at.
    """
    local = _local(directory)
    if local is None or not os.path.isdir(local):
        return None
    log = os.path.join(local, _LOG)
    if not os.path.isdir(log):
        found = sorted(name for name in os.listdir(local) if not name.startswith(("_", ".")))
        return None if not found else (
            f"{directory} has files that were not appended by a stream, such as {found[0]}: readers would not see them"
            f" any more, because they heed the log {_LOG} of what is appended; choose another directory"
        )  # fmt: skip
    try:
        listed = _some_files(log)
    except (ValueError, KeyError, TypeError) as error:
        return f"Spark's log {log} is damaged: {error}; choose another directory"
    for path in listed:
        if not any(parent.exists() and parent.samefile(local) for parent in path.parents):
            return (
                f"{directory} was moved or copied here: Spark's log in it names its files by their absolute paths, such"
                f" as {path}, and readers look for them there; move it back, or choose another directory"
            )
    return None


def _some_files(log: str) -> list[Path]:
    """Return the first file that the oldest entry of a log names, and the last one of the newest.

    Raises OSError; ValueError, KeyError or TypeError for a damaged log.
    """
    numbered = sorted((int(name.partition(".")[0]), name) for name in os.listdir(log) if name[0].isdigit())
    found = []
    for number, line in ((0, 1), (-1, -1)):
        # The first line is the version of the form.
        lines = Path(log, numbered[number][1]).read_text(encoding="utf-8").splitlines() if numbered else []
        if len(lines) > 1:
            found.append(Path(unquote(urlsplit(json.loads(lines[line])["path"]).path)))
    return found


def _local(directory: str) -> str | None:
    """Return the path of a directory on this machine, or None for one elsewhere."""
    parts = urlsplit(directory)
    if parts.scheme == "file":
        return unquote(parts.path)
    return None if parts.scheme else directory
