"""Turns the records of a source into columns, and the rows of a sink into records.

Called by `plan` on the driver; no state, no lock. All are Spark's own expressions, but for Avro and Protobuf, which
Python decodes and encodes in the executors (`coding`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from barnabas_spark.pipeline.coding.coded_columns import ERROR, VALUE, decoded_column, encoded_column
from barnabas_spark.pipeline.coding.coding_errors import FormatError
from barnabas_spark.pipeline.specification import CODED_FORMATS, Sink, Source

RECORD_COLUMNS = ("_key", "_topic", "_partition", "_offset", "_timestamp")
"""The columns of every record. No sink writes columns whose names begin with `_`."""
HEADERS_COLUMN = "_headers"

_CORRUPT = "_barnabas_corrupt"
_ERROR = "_barnabas_error"
_DECODED = "_barnabas_decoded"
_SHOWN_CHARACTERS = 80


def decoded_rows(records: DataFrame, source: Source) -> DataFrame:
    """Return the value's columns and those of the record. A record that is bad fails the query, or is left out.

    Raises FormatError, RegistryFailed.
    """
    parsed = _with_error(records, source)
    error = sql.col(_ERROR)
    if source.dead_letters is not None:
        kept = parsed.where(error.isNull())
    else:
        # A filter, because a query may use none of the columns: an unused one is not computed.
        kept = parsed.where(sql.when(error.isNull(), True).otherwise(sql.raise_error(_message(source))))
    names = [name for name in _value_columns(parsed, source) if name != _CORRUPT]
    clash = sorted({*RECORD_COLUMNS, HEADERS_COLUMN} & set(names))
    if clash:
        raise FormatError(f"the schema has the column {clash[0]}, which is one of the record's own")
    key = sql.col("key").cast("string") if source.key_is_text else sql.col("key")
    record = [
        key.alias("_key"),
        sql.col("topic").alias("_topic"),
        sql.col("partition").alias("_partition"),
        sql.col("offset").alias("_offset"),
        sql.col("timestamp").alias("_timestamp"),
        *([sql.col("headers").alias(HEADERS_COLUMN)] if source.has_headers else []),
    ]
    if source.format in ("raw", "text"):
        return kept.select(_quoted(_DECODED).alias("value"), *record)
    return kept.select(*[sql.col(f"{_DECODED}.`{name}`").alias(name) for name in names], *record)


def bad_records(records: DataFrame, source: Source) -> DataFrame:
    """Return the records that cannot be decoded, as rows for a sink: key, value, and why and where as headers.

    Raises FormatError, RegistryFailed.
    """
    parsed = _with_error(records, source).where(sql.col(_ERROR).isNotNull())
    told = {
        "error": sql.col(_ERROR),
        "topic": sql.col("topic"),
        "partition": sql.col("partition"),
        "offset": sql.col("offset"),
    }
    headers = [
        sql.struct(sql.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in told.items()
    ]
    return parsed.select("key", "value", sql.array(*headers).alias("headers"))


def encoded_columns(rows: DataFrame, sink: Sink) -> tuple[Column, ...]:
    """Return key and value, made of the columns of such rows. Raises FormatError, RegistryFailed."""
    columns = _written_names(rows)
    name = sink.format
    if name in ("raw", "text"):
        if "value" not in rows.columns:
            raise FormatError(f"format {name} needs a column 'value'; {sink.reads} has {', '.join(rows.columns)}")
        value = sql.col("value").cast("string") if name == "text" else sql.col("value")
    elif not columns:
        raise FormatError(f"{sink.reads} has no column to write: {', '.join(rows.columns)}")
    elif sink.coding is not None:
        value = encoded_column(rows, columns, name, sink.coding)
    else:
        value = sql.to_json(_struct(columns), {"ignoreNullFields": "false"})
    key = [sql.expr(sink.key).alias("key")] if sink.key is not None else []
    return (*key, value.alias("value"))


def plain_columns(rows: DataFrame, *, with_record: bool) -> tuple[Column, ...]:
    """Return the columns of such rows as they are; those about the record only `with_record`."""
    return tuple(_quoted(name) for name in (rows.columns if with_record else _written_names(rows)))


def _written_names(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if not name.startswith("_")]


def _with_error(records: DataFrame, source: Source) -> DataFrame:
    """Return the records with two columns more: the decoded value, and why it could not be decoded.

    Raises FormatError, RegistryFailed.
    """
    value = sql.col("value")
    if source.coding is not None:
        told = decoded_column(value, source.format, source.coding)
        return records.select("*", told.alias(_DECODED)).select(
            *records.columns,
            sql.col(f"{_DECODED}.{VALUE}").alias(_DECODED),
            sql.col(f"{_DECODED}.{ERROR}").alias(_ERROR),
        )
    if source.format == "raw":
        return records.select("*", value.alias(_DECODED), sql.lit(None).cast("string").alias(_ERROR))
    if source.format == "text":
        text = sql.try_validate_utf8(value.cast("string"))
        is_bad = value.isNotNull() & text.isNull()
        return records.select(
            "*", text.alias(_DECODED), sql.when(is_bad, sql.lit("the value is not UTF-8")).alias(_ERROR)
        )
    decoded = sql.from_json(
        value.cast("string"),
        f"{source.schema}, {_CORRUPT} STRING",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )
    # A NULL value, a tombstone, is no error.
    is_bad = value.isNotNull() & (sql.col(_DECODED).isNull() | sql.col(f"{_DECODED}.{_CORRUPT}").isNotNull())
    return records.select("*", decoded.alias(_DECODED)).select(
        "*", sql.when(is_bad, sql.lit("the value is no JSON of the schema")).alias(_ERROR)
    )


def _value_columns(parsed: DataFrame, source: Source) -> list[str]:
    if source.format in ("raw", "text"):
        return []
    names: list[str] = parsed.schema[_DECODED].dataType.fieldNames()
    return names


def _message(source: Source) -> Column:
    """Return the text of the error for a bad record."""
    value = sql.col("value")
    if source.format in CODED_FORMATS:
        shown = sql.hex(sql.substring(value, 1, _SHOWN_CHARACTERS // 2))
    else:
        shown = sql.substring(value.cast("string"), 1, _SHOWN_CHARACTERS)
    where = sql.format_string("%s-%d, offset %d: ", "topic", "partition", "offset")
    return sql.concat(where, sql.col(_ERROR), sql.lit(": "), shown)


def _struct(columns: list[str]) -> Column:
    return sql.struct(*[_quoted(name) for name in columns])


def _quoted(name: str) -> Column:
    return sql.col(f"`{name}`")
