"""What a sink of a pipeline is: keys of the file, the columns that it writes, and what writes them; and the console.

A kind is a subclass, in a module of this package. It is made while the file is read, planned on the driver's main
thread, and written by Spark's thread for the micro-batches of its query, one at a time. No lock. Spark is imported for
types alone, because a file is read in a third of the time without.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from barnabas_spark.pipeline.checkpoint_layout import spark_id
from barnabas_spark.pipeline.entry import NAME, OPTIONS, Entry, Keys, Part, choice, text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from barnabas_spark.pipeline.rows import QueryRows

SINK_KEYS: Keys = {
    "from": text("The source or transform whose rows are written."),
    "query": text(
        "The streaming query that writes this sink. The default is one of the sink's own name. Sinks of one query share"
        " what it reads and computes, and have the same 'from' and 'mode'.",
        pattern=NAME,
    ),
    "delete_when": text(
        "An SQL condition: rows for which it is true delete. A topic gets a tombstone, Iceberg with upsert_by loses the"
        " row of the key, mode complete leaves it out. The default is _operation = 'delete', if there is such a column."
    ),
    "mode": choice(
        ("append", "update", "complete"),
        "Which rows of an aggregation are written: finished ones (the default), changed ones, all.",
    ),
    "options": OPTIONS,
}
"""The keys that every kind has."""

Show = Callable[[str, int, "DataFrame", int], None]
"""Shows the rows of a micro-batch: the sink's name, the micro-batch's number, the rows, how many to show at most."""


class QueryPlace(NamedTuple):
    """The place of a sink in a query that runs."""

    checkpoint: str
    """The directory of the query's checkpoint."""
    number: int
    """The sink's number in the query."""
    suffix: str
    """What tells its notes in a topic or a table from those of the query's other sinks. Empty: it has no other."""
    show: Show

    def writer_id(self) -> str:
        """Return the id of the checkpoint, for notes. Spark has written it by now. Raises OSError, ValueError."""
        found = spark_id(self.checkpoint)
        if found is None:
            raise FileNotFoundError(f"Spark's file {self.checkpoint}/metadata is gone")
        return f"{found}{self.suffix}"


class PlannedSink(NamedTuple):
    """One output of a query."""

    sink: Sink
    columns: tuple[Column, ...]
    """What is written of the query's rows: for a topic, key and value."""
    write: Callable[[DataFrame, int, QueryPlace], None]
    """Writes the rows of a micro-batch, of which the number is given, unless they are there already."""
    left_out: Sequence[str] = ()
    """The columns of the query's rows that are not written."""
    deleted: Column | None = None
    """The rows that are not written, because the sink replaces all it has, and they are deleted."""
    prepare: Callable[[bool], None] | None = None
    """Checks that the columns fit what is there, and makes what is missing if told so. Raises IcebergError."""

    def written(self, rows: DataFrame) -> DataFrame:
        """Return what the sink writes of the query's rows, or of those of one micro-batch."""
        return (rows if self.deleted is None else rows.where(~self.deleted)).select(*self.columns)


class Sink(Part):
    """One output."""

    keeps_rows: ClassVar[bool] = True
    """Whether a row that is deleted must not be written like others."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        keys = entry.keys
        self.columns_line = self.line
        """The line of what is wrong with the columns."""
        self.reads: str = keys["from"]
        self.query: str = keys.get("query", entry.name)
        """The streaming query that writes it. Sinks of one query have the same rows."""
        self.mode: str = keys.get("mode", "append")
        self.delete_when: str | None = keys.get("delete_when")
        """The SQL condition of rows that delete. None: those whose operation, if there is one, is a delete."""
        if self.delete_when is not None:
            self._check_deletes(entry)

    @abstractmethod
    def planned(self, rows: QueryRows) -> PlannedSink:
        """Return what is written of the rows, and how.

        Raises FormatError, IcebergError, OptionError, RegistryFailed, Spark's errors: the rows cannot be written.
        """

    def stream(self, rows: DataFrame) -> DataStreamWriter | None:
        """Return Spark's own writer of a stream in mode append; None if the sink is written by micro-batches."""
        return None

    def place_problem(self, sinks: Sequence[Sink]) -> str | None:
        """Return why the sink, one of these, cannot write to its place, or None. Raises OSError."""
        return None

    def _deleted(self, rows: QueryRows, instead: str = "") -> Column | None:
        """Return whether a row deletes, of a sink that either appends or replaces all. Raises as QueryRows does.

        instead: what such a sink needs to delete single rows, if it can.
        """
        told = f"rows that are appended delete nothing: {instead}rename the column to write it as data"
        return rows.deleted(None if self.mode == "complete" else told)

    def _check_deletes(self, entry: Entry) -> None:
        if "upsert_by" not in entry.keys and self.mode != "complete":
            entry.refuse("that cannot delete: of Iceberg, 'upsert_by' can", ("delete_when",))


class ConsoleSink(Sink):
    """The display of the run: the smallest kind."""

    CHOICES, NOUN = ("console",), "to the console"
    KEYS: ClassVar[Keys] = {
        "console": {"type": "integer", "minimum": 1, "description": "Rows to print of every micro-batch."}
    }
    keeps_rows = False
    what = "the console"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        self.rows: int = entry.keys["console"]
        entry.refuse("that prints", ("options",))

    def planned(self, rows: QueryRows) -> PlannedSink:
        """Return all columns, those about the record too. Raises Spark's errors."""
        columns = rows.columns(with_record=True)
        # Spark's analyser looks at the columns here.
        rows.select(columns)
        return PlannedSink(self, columns, self._write)

    def _write(self, rows: DataFrame, batch: int, place: QueryPlace) -> None:
        place.show(self.name, batch, rows, self.rows)
