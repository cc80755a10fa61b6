"""Turns the records of a source into rows, and the rows of a query into what a sink writes. `formats` do the values.

Called by `plan`, `sources` and `sinks` when a pipeline is planned, on the driver; no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from barnabas_spark.pipeline.formats.value_format import (
    DECODED,
    DELETE,
    ERROR,
    OPERATION,
    OPERATIONS,
    ValueFormat,
    WrittenFormat,
)
from barnabas_spark.pipeline.pipeline_error import FormatError

RECORD_COLUMNS = ("_key", "_topic", "_partition", "_offset", "_timestamp")
"""The columns of every record. No sink but the console writes them, nor HEADERS_COLUMN and OPERATION."""
HEADERS_COLUMN = "_headers"
PLACE_COLUMNS = ("_topic", "_partition", "_offset", "_timestamp")
"""The columns that tell which of two rows of a key is the last."""
DELETED = "_barnabas_deleted"
"""Whether a row of an Iceberg sink deletes the one of its key."""

_SHOWN_CHARACTERS = 80
_RESERVED = {*RECORD_COLUMNS, HEADERS_COLUMN, OPERATION}


class TopicReading(Protocol):
    """What a source says of its records: `sources.TopicSource`."""

    format: ValueFormat
    key_is_text: bool
    has_headers: bool
    is_table: bool
    """Whether the records are the last ones of their keys."""
    sets_aside: bool
    """Whether bad records are left out. Otherwise they fail the query."""


def decoded_rows(records: DataFrame, source: TopicReading) -> DataFrame:
    """Return the value's columns and those of the record. A record that is bad fails the query, or is left out.

    Raises FormatError, RegistryFailed.
    """
    form, error = source.format, sql.col(ERROR)
    parsed = _with_error(records, source)
    columns = [("value", _quoted(DECODED))]
    if not form.is_one_column:
        names = parsed.schema[DECODED].dataType.fieldNames()
        columns = [(name, sql.col(f"{DECODED}.`{name}`")) for name in names[: len(names) - form.fields_behind]]
    if form.has_operations:
        # A tombstone behind a delete event is neither a row nor bad.
        parsed = parsed.where(sql.col(DECODED).isNotNull() | error.isNotNull())
    clash = [name for name, _ in columns if name.lower() in _RESERVED]
    if clash:
        raise FormatError(f"the schema has the column {clash[0]}, which is one of the record's own")
    if source.sets_aside:
        kept = parsed.where(error.isNull())
    else:
        # A filter, because a query may use none of the columns: an unused one is not computed.
        kept = parsed.where(sql.when(error.isNull(), True).otherwise(sql.raise_error(_message(form))))
    operation = sql.col(f"{DECODED}.`{OPERATION}`")
    if form.has_operations and source.is_table:
        # What is deleted has no row, and what is there no operation.
        kept = kept.where(operation != DELETE)
    elif form.has_operations:
        columns.append((OPERATION, operation))
    columns.append(("_key", sql.col("key").cast("string") if source.key_is_text else sql.col("key")))
    columns += [(f"_{name}", sql.col(name)) for name in ("topic", "partition", "offset", "timestamp")]
    if source.has_headers:
        columns.append((HEADERS_COLUMN, sql.col("headers")))
    return kept.select(*[column.alias(name) for name, column in columns])


def bad_records(records: DataFrame, source: TopicReading) -> DataFrame:
    """Return the records that cannot be decoded, as rows for a sink: key, value, and why and where as headers.

    Raises FormatError, RegistryFailed.
    """
    parsed = _with_error(records, source).where(sql.col(ERROR).isNotNull())
    told = {
        "error": sql.col(ERROR),
        "topic": sql.col("topic"),
        "partition": sql.col("partition"),
        "offset": sql.col("offset"),
    }
    headers = [
        sql.struct(sql.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in told.items()
    ]
    return parsed.select("key", "value", sql.array(*headers).alias("headers"))


def last_of_each_key(records: DataFrame) -> DataFrame:
    """Return the last record of each key, without the keys whose last record is a tombstone.

    The offset decides within a partition. Between the partitions that have records of a key, as they do where
    partitions were added or where several topics are read, the timestamp decides. A query of the rows fails at a record
    without a key, and at a key whose last records in two partitions differ, though their timestamps do not say which is
    newer.
    """
    told = "%s-%d, offset %d: the record has no key: 'read: table' has the last record of each key"
    no_key = sql.format_string(told, "topic", "partition", "offset")
    keyed = records.where(sql.when(sql.col("key").isNotNull(), True).otherwise(sql.raise_error(no_key)))
    in_partitions = keyed.groupBy("key", "topic", "partition").agg(sql.max_by(sql.struct("*"), "offset").alias("last"))
    by_key = in_partitions.groupBy("key").agg(sql.collect_list("last").alias("found"))

    def place(record: Column) -> Column:
        return sql.struct(*[record[name].alias(name) for name in ("timestamp", "topic", "partition", "offset")])

    newest = by_key.select("found", sql.array_max(sql.transform("found", place)).alias("newest"))
    chosen = newest.select(
        "found", sql.get(sql.filter("found", lambda record: place(record) == sql.col("newest")), 0).alias("last")
    )
    last = sql.col("last")

    def rivals(record: Column) -> Column:
        # Before 1970 stands what has no timestamp (-1), which cannot be compared with others.
        has_none = record["timestamp"] < sql.timestamp_seconds(sql.lit(0))
        return (has_none | (record["timestamp"] == last["timestamp"])) & ~record["value"].eqNullSafe(last["value"])

    rival = sql.get(sql.filter("found", rivals), 0)
    told = (
        "%s-%d, offset %d and %s-%d, offset %d: which of these records of one key is the last cannot be told: their"
        " timestamps are equal, or missing. Write the key once more"
    )
    places = [record[name] for record in (rival, last) for name in ("topic", "partition", "offset")]
    undecided = sql.format_string(told, *places)
    decided = chosen.where(sql.when(rival.isNull(), True).otherwise(sql.raise_error(undecided))).select("last.*")
    # A key whose last record is a tombstone is deleted.
    return decided.where(sql.col("value").isNotNull())


def _with_error(records: DataFrame, source: TopicReading) -> DataFrame:
    """Return the records with DECODED and ERROR. Raises FormatError, RegistryFailed."""
    parsed = source.format.read(records)
    if not (source.key_is_text and source.format.is_strict):
        return parsed
    is_bad = sql.col("key").isNotNull() & sql.try_validate_utf8(sql.col("key").cast("string")).isNull()
    told = sql.when(is_bad, sql.lit("the key is not UTF-8, as a text is: set 'key: binary' for the source"))
    return parsed.withColumn(ERROR, sql.coalesce(sql.col(ERROR), told))


def _message(form: ValueFormat) -> Column:
    """Return the text of the error for a bad record."""
    value = sql.col("value")
    if form.coding is not None:
        shown = sql.hex(sql.substring(value, 1, _SHOWN_CHARACTERS // 2))
    else:
        shown = sql.try_validate_utf8(sql.substring(value.cast("string"), 1, _SHOWN_CHARACTERS))
        shown = sql.coalesce(shown, sql.hex(sql.substring(value, 1, _SHOWN_CHARACTERS // 2)), sql.lit("NULL"))
    where = sql.format_string("%s-%d, offset %d: ", "topic", "partition", "offset")
    return sql.concat(where, sql.col(ERROR), sql.lit(": "), shown)


# -- the rows of a query


class QueryRows:
    """The rows of a query, of which a sink chooses what it writes.

    reads: what they come from, for messages. delete_when: the condition of rows that delete, if it is not that of the
    operation.
    """

    def __init__(self, rows: DataFrame, reads: str, delete_when: str | None) -> None:
        self._rows = rows
        self._reads = reads
        self._delete_when = delete_when
        # SQL does not distinguish case.
        self._written = [name for name in rows.columns if name.lower() not in _RESERVED]

    def select(self, columns: Sequence[Column]) -> DataFrame:
        """Return these columns of the rows, which Spark's analyser looks at. Raises Spark's errors."""
        return self._rows.select(*columns)

    def columns(self, *, with_record: bool = False) -> tuple[Column, ...]:
        """Return the columns as they are; those about the record only `with_record`."""
        return tuple(_quoted(name) for name in (self._rows.columns if with_record else self._written))

    def left_out(self, written: Sequence[str] | None = None) -> list[str]:
        """Return the columns that are not written. written: those that are, if not all but the record's."""
        # The operation is applied, unless another condition is.
        applied = OPERATION if self._delete_when is None else None
        kept = self._written if written is None else written
        return [name for name in self._rows.columns if name not in kept and name.lower() != applied]

    def encoded(self, form: WrittenFormat, key: str | None, deleted: Column | None) -> tuple[Column, ...]:
        """Return key and value, made of the columns. A row that deletes becomes a tombstone. key: the SQL expression.

        Raises FormatError, RegistryFailed.
        """
        rows, columns = self._rows, self._written
        if form.is_one_column and "value" not in rows.columns:
            raise FormatError(f"format {form.NAME} needs a column 'value'; {self._reads} has {', '.join(rows.columns)}")
        if not form.is_one_column and not columns:
            raise FormatError(f"{self._reads} has no column to write: {', '.join(rows.columns)}")
        value = form.write(rows, columns, deleted)
        if key is None:
            return (value.alias("value"),)
        keys = sql.expr(key)
        if deleted is not None:
            value = sql.when(~deleted, value)
            no_key = sql.raise_error(sql.lit("a row that deletes has NULL for its key, and would delete nothing"))
            keys = sql.when(deleted & keys.isNull(), no_key).otherwise(keys)
        return (keys.alias("key"), value.alias("value"))

    def deleted(self, refusal: str | None = None) -> Column | None:
        """Return whether a row deletes; None for rows that do not say so.

        refusal: why the sink cannot apply an operation, if so. Raises FormatError: there is one, or the condition is
        none. Raises Spark's errors.
        """
        if self._delete_when is not None:
            condition = sql.expr(self._delete_when)
            kind = self._rows.select(condition).schema[0].dataType
            if not isinstance(kind, types.BooleanType):
                raise FormatError(
                    f"delete_when is {kind.simpleString()}: it must be a condition, such as {OPERATION} = 'x'"
                )
            return sql.coalesce(condition, sql.lit(False))
        found = [name for name in self._rows.columns if name.lower() == OPERATION]
        if not found:
            return None
        if len(found) > 1:
            raise FormatError(f"{self._reads} has {len(found)} columns {OPERATION}: keep the one that counts")
        if refusal is not None:
            raise FormatError(f"{self._reads} has the column {OPERATION}, and {refusal}")
        operation = _quoted(found[0])
        told = sql.format_string(
            f"{OPERATION} is '%s'; it must be {', '.join(OPERATIONS.values())} or NULL, or the sink needs"
            " 'delete_when'",
            operation.cast("string"),
        )
        known = operation.isNull() | operation.isin(*OPERATIONS.values())
        return sql.when(known, operation.eqNullSafe(DELETE)).otherwise(sql.raise_error(told))

    def upserted(self) -> tuple[Column, ...]:
        """Return what an upsert needs besides the columns: DELETED, and the place of each row's record if it is known.

        Raises FormatError.
        """
        deleted = self.deleted()
        found = (sql.lit(False) if deleted is None else deleted).alias(DELETED)
        lowered = [name.lower() for name in self._rows.columns]
        has_place = all(lowered.count(name) == 1 for name in PLACE_COLUMNS)
        return (found, *(_quoted(name).alias(name) for name in PLACE_COLUMNS)) if has_place else (found,)


def _quoted(name: str) -> Column:
    return sql.col(f"`{name}`")
