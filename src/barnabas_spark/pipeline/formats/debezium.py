"""Reads the change events of Debezium: the row that each is about, and what happened to it.

Made in the executors' Python workers, once for a column, for `debezium_format`; used by the worker's one thread, no
lock. An event is an envelope: `op` says what happened, `before` and `after` are the row's two
images. JSON envelopes may stand beside their schema, as Kafka Connect's JsonConverter writes them:

    {"before": null, "after": {"id": 1, "name": "Ann"}, "source": {...}, "op": "c", "ts_ms": 1700000000000}
    {"schema": {...}, "payload": {"before": {"id": 1}, "after": null, "source": {...}, "op": "d", ...}}

    c, u, r    create, update, read (a snapshot): the row is `after`
    d          delete: the row is `before`, with the columns of the record's key where `before` has none
    t, m       the truncation of a table, a message: no row can say this, so the record is bad

Behind a delete event stands a tombstone, a record with the same key and no value. It is no row of its own, unless the
log cleaner may have removed the event before it (`tombstones`).
"""

from __future__ import annotations

import binascii
import datetime as dt
import decimal
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import types

from barnabas_spark.pipeline.formats.coded_columns import nullable
from barnabas_spark.pipeline.formats.framed_json import JsonFrames, frames_of
from barnabas_spark.pipeline.formats.schemas import (
    AVRO,
    SchemaRegistry,
    SchemaText,
    registry_of,
    unframed,
    writer_schemas,
)
from barnabas_spark.pipeline.formats.strict_json import StrictJsonDecoder, shown
from barnabas_spark.pipeline.formats.value_format import DELETE, OPERATION, OPERATIONS, ValueCoding
from barnabas_spark.pipeline.pipeline_error import BadValue

_REFUSED = {
    "t": "the truncation of a table, which no row can say: empty by hand what was written of the table, or let Debezium"
    " skip truncations (skipped.operations)",
    "m": "a message of the database, and no change of a row",
}
_ENVELOPE_KEYS = {"schema", "payload"}
_FLATTENED = ("__deleted", "__op")
"""Fields that Debezium's ExtractNewRecordState adds to rows."""
_UNAVAILABLE = "__debezium_unavailable_value"
_UNAVAILABLE_BYTES = _UNAVAILABLE.encode()
_UNAVAILABLE_FORMS = (
    _UNAVAILABLE,
    _UNAVAILABLE_BYTES,
    binascii.b2a_base64(_UNAVAILABLE_BYTES, newline=False).decode(),
    [_UNAVAILABLE],
    {_UNAVAILABLE: _UNAVAILABLE},
)
"""What PostgreSQL's connector writes for a large value that an update did not change."""


class Envelope(NamedTuple):
    """A change event. `fields` has `op`, `before` and `after`."""

    fields: Mapping[str, Any]
    schema: Any = None
    """The schema that stood beside it, if one did."""


class DebeziumDecoder:
    """A reader of events. names: the columns. takes_tombstones: whether a tombstone is a deleted row."""

    def __init__(self, images: JsonImages | AvroImages, names: list[str], *, takes_tombstones: bool) -> None:
        self._images = images
        self._names = names
        self._takes_tombstones = takes_tombstones

    def decode(self, value: bytes | None, key: bytes | None) -> dict[str, Any] | None:
        """Return an event's columns and OPERATION, or None for a tombstone that is no row.

        Raises BadValue, RegistryFailed.
        """
        try:
            envelope = None if value is None else self._images.envelope(value)
            if envelope is None:
                return self._deleted(None, key) if self._takes_tombstones else None
            operation = _operation(envelope.fields)
            if operation == DELETE:
                return self._deleted(envelope, key)
            row = self._images.row(self._after(envelope, operation), is_deleted=False, above=("after",))
        except RecursionError:
            raise BadValue("the value is JSON that is nested too deeply") from None
        row[OPERATION] = operation
        return row

    def _after(self, envelope: Envelope, operation: str) -> dict[str, Any]:
        """Return the row behind a change. Raises BadValue."""
        after = self._images.image(envelope, "after")
        if after is None:
            raise BadValue(
                f"after: it is null or missing, and the operation is {operation} (MongoDB's connector writes it for"
                " updates with capture.mode=change_streams_update_full)"
            )
        missing = [name for name in self._names if after.get(name) in _UNAVAILABLE_FORMS]
        if missing:
            before = self._images.image(envelope, "before") or {}
            for name in missing:
                old = before.get(name)
                if old is None or old in _UNAVAILABLE_FORMS:
                    raise BadValue(
                        f"after.{name}: the event has {_UNAVAILABLE} instead of a value that did not change: set"
                        " REPLICA IDENTITY FULL for the table"
                    )
                after[name] = old
        return after

    def _deleted(self, envelope: Envelope | None, key: bytes | None) -> dict[str, Any]:
        """Return the row that a delete event, or a tombstone, is about. Raises BadValue, RegistryFailed."""
        before = None if envelope is None else self._images.image(envelope, "before")
        fields = {name: value for name, value in (before or {}).items() if value not in _UNAVAILABLE_FORMS}
        try:
            of_key = {} if key is None else self._images.key_fields(key)
        except BadValue as error:
            # Keys may be written by another converter, and are needed only where the event does not tell the row.
            if not fields:
                raise BadValue(f"the delete has no 'before', and its key cannot be read: {error}") from None
            of_key = {}
        for name, value in of_key.items():
            if fields.get(name) is None:
                fields[name] = value
        if all(fields.get(name) is None for name in self._names):
            what = "tombstone" if envelope is None else "delete"
            given = shown(", ".join({**(before or {}), **of_key})) or "nothing"
            raise BadValue(
                f"the {what} does not say which row is deleted: 'before' and key have {given}, and the columns are"
                f" {shown(', '.join(self._names))}"
            )
        row = self._images.row(fields, is_deleted=True, above=("before",) if before else ("key",))
        row[OPERATION] = DELETE
        return row


def _operation(envelope: Mapping[str, Any]) -> str:
    """Return what an event says has happened. Raises BadValue."""
    code = envelope.get("op")
    if isinstance(code, str) and code in OPERATIONS:
        return OPERATIONS[code]
    if isinstance(code, str) and code in _REFUSED:
        raise BadValue(f"op: {code!r} is {_REFUSED[code]}")
    if code is not None:
        raise BadValue(f"op: {shown(code)!r} is none of Debezium's operations c, u, d, r, t and m")
    flattened = any(name in envelope for name in _FLATTENED)
    hint = ": flattened events, as ExtractNewRecordState makes them, are read with 'format: json'" if flattened else ""
    given = shown(", ".join(envelope)) or "nothing"
    raise BadValue(f"the value is no change event of Debezium: it has no 'op', but {given}{hint}")


# -- JSON


class _Described(NamedTuple):
    """What JSON says. has_envelope: whether it stood beside its schema, as Connect's JsonConverter writes both."""

    content: Any
    schema: Any
    has_envelope: bool


class JsonImages:
    """Events in JSON. frames: what takes Confluent's frames away, if there are any. Raises FormatError."""

    def __init__(self, columns: types.StructType, zone: str, frames: JsonFrames | None) -> None:
        # A whole number in a TIMESTAMP is never seconds: Debezium counts milliseconds, microseconds or nanoseconds.
        self._given = StrictJsonDecoder(columns, zone, takes_seconds=False)
        self._deleted = StrictJsonDecoder(nullable(columns), zone, takes_seconds=False)
        self._frames = frames
        self._columns = {field.name: field.dataType for field in columns.fields}

    def envelope(self, value: bytes) -> Envelope | None:
        """Return an event, or None for one that says NULL. Raises BadValue, RegistryFailed."""
        found = self._described(value)
        if found.content is None and found.has_envelope:
            return None
        if not isinstance(found.content, dict):
            raise BadValue(f"the value is no change event of Debezium: {shown(found.content)}")
        return Envelope(found.content, found.schema)

    def image(self, envelope: Envelope, field: str) -> dict[str, Any] | None:
        """Return the fields of `before` or `after`, or None if there are none. Raises BadValue."""
        found = envelope.fields.get(field)
        if found is None:
            return None
        if isinstance(found, str):
            # MongoDB's documents are texts.
            try:
                found = self._of_mongodb(found)
            except BadValue as error:
                raise BadValue(f"{field}: {error}") from None
        if not isinstance(found, dict):
            raise BadValue(f"{field}: {shown(found)} is no object")
        return self._by_schema(dict(found), _fields_of(envelope.schema, field), field)

    def key_fields(self, key: bytes) -> dict[str, Any]:
        """Return the fields of a key. Raises BadValue, RegistryFailed."""
        found = self._described(key)
        fields = found.content
        if not isinstance(fields, dict):
            raise BadValue(f"{shown(fields)} is no object")
        if fields.keys() == {"id"} and isinstance(fields["id"], str) and "_id" in self._columns:
            # MongoDB's key is the text of the document's _id.
            return {"_id": self._of_mongodb(fields["id"])}
        return self._by_schema(dict(fields), found.schema, "key")

    def row(self, fields: dict[str, Any], *, is_deleted: bool, above: tuple[str, ...]) -> dict[str, Any]:
        """Return the columns. Raises BadValue. A deleted row may lack any of them."""
        return (self._deleted if is_deleted else self._given).columns_of(fields, *above)

    def _described(self, value: bytes) -> _Described:
        """Return what the JSON says, and the schema beside it. Raises BadValue, RegistryFailed."""
        parsed = self._given.parsed(value if self._frames is None else self._frames.body(value))
        if isinstance(parsed, dict) and parsed.keys() == _ENVELOPE_KEYS:
            return _Described(parsed["payload"], parsed["schema"], has_envelope=True)
        return _Described(parsed, None, has_envelope=False)

    def _of_mongodb(self, text: str) -> Any:
        """Return what a text in MongoDB's extended JSON says, in plain JSON. Raises BadValue."""
        return _without_extensions(self._given.parsed(text.encode(errors="surrogatepass")))

    def _by_schema(self, fields: dict[str, Any], schema: Any, above: str) -> dict[str, Any]:
        """Return the fields with times and decimals as texts, where the schema says how they are coded.

        Raises BadValue.
        """
        for each in _fields_in(schema):
            name = each.get("field")
            if isinstance(name, str) and name in self._columns and fields.get(name) is not None:
                wanted = self._columns[name]
                try:
                    fields[name] = _decoded_by(each, fields[name], wanted)
                except (ValueError, TypeError, ArithmeticError, LookupError) as error:
                    told = f"{shown(fields[name])!r} is no {shown(each.get('name'))}"
                    raise BadValue(f"{above}.{name}: {told}: {error}") from None
        return fields


def _fields_in(schema: Any) -> list[dict[str, Any]]:
    """Return the schemas of the fields in a schema; none if it is no schema of Connect's."""
    described = schema.get("fields") if isinstance(schema, dict) else None
    return [each for each in described if isinstance(each, dict)] if isinstance(described, list) else []


def _fields_of(schema: Any, field: str) -> Any:
    """Return the schema of one field of an envelope, or None."""
    return next((each for each in _fields_in(schema) if each.get("field") == field), None)


_MICROSECONDS = {
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1,
}
_NANOSECONDS = "io.debezium.time.NanoTimestamp"
_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_SCALED_DECIMAL = "io.debezium.data.VariableScaleDecimal"


def _decoded_by(schema: Mapping[str, Any], value: Any, wanted: types.DataType) -> Any:
    """Return a value as the text that its column takes, if the schema's name says how it is coded.

    Raises ValueError, TypeError, ArithmeticError, LookupError.
    """
    name = schema.get("name")
    if isinstance(wanted, types.DateType) and name in _DAYS and type(value) is int:
        return (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    if isinstance(wanted, (types.TimestampType, types.TimestampNTZType)) and type(value) is int:
        if name in _MICROSECONDS:
            micros = value * _MICROSECONDS[name]
        elif name == _NANOSECONDS:
            micros = value // 1_000
        else:
            return value
        text = (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)).isoformat()  # noqa: DTZ001 - see below
        # Debezium counts a time without a zone as if it were UTC's.
        return text if isinstance(wanted, types.TimestampNTZType) else f"{text}Z"
    if isinstance(wanted, types.DecimalType):
        if name == _DECIMAL and type(value) is str:
            parameters = schema.get("parameters")
            return _decimal_text(value, int(parameters["scale"]) if isinstance(parameters, dict) else 0)
        if name == _SCALED_DECIMAL and isinstance(value, dict):
            return _decimal_text(value["value"], int(value["scale"]))
    return value


def _decimal_text(coded: str, scale: int) -> str:
    """Return a decimal whose unscaled value is bytes in base64. Raises ValueError, ArithmeticError."""
    unscaled = int.from_bytes(binascii.a2b_base64(coded, strict_mode=True), "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return str(decimal.Decimal((int(unscaled < 0), digits, -scale)))


def _without_extensions(value: Any) -> Any:
    """Return a document without MongoDB's extended JSON, where plain JSON has a like. Raises BadValue."""
    if isinstance(value, list):
        return [_without_extensions(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name in ("$oid", "$numberDouble", "$numberDecimal", "$symbol") and isinstance(inner, str):
            return inner
        if name in ("$numberLong", "$numberInt"):
            if type(inner) is int:
                return inner
            if type(inner) is str and _WHOLE.fullmatch(inner):
                return int(inner)
            raise BadValue(f"{shown(value)} is no number of MongoDB's")
        if name == "$date":
            return _date_text(_without_extensions(inner))
    return {name: _without_extensions(each) for name, each in value.items()}


def _date_text(value: Any) -> Any:
    """Return a date of MongoDB's, which may be milliseconds, as a text. Raises BadValue."""
    if type(value) is not int:
        return value
    try:
        return f"{(dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=value)).isoformat()}Z"  # noqa: DTZ001 - UTC's
    except OverflowError:
        raise BadValue(f"{value} milliseconds since 1970 are no time of the years 1 to 9999") from None


# -- Avro


class AvroImages:
    """Events in Avro. `reader` is the schema of the envelope. Raises FormatError."""

    def __init__(self, reader: SchemaText, registry: SchemaRegistry | None, *, is_framed: bool) -> None:
        # Late: a worker of JSON events needs no Avro.
        from barnabas_spark.pipeline.formats.avro import AvroDecoder  # noqa: PLC0415

        self._events = AvroDecoder(reader, registry, is_framed=is_framed)
        self._names = envelope_columns(reader).fieldNames()
        self._keys = None
        if registry is not None:
            self._keys = writer_schemas(
                self._events, registry, AVRO, lambda text: AvroDecoder(text, registry, is_framed=True)
            )

    def envelope(self, value: bytes) -> Envelope:
        """Return an event. Raises BadValue, RegistryFailed."""
        return Envelope(self._events.decode(value))

    def image(self, envelope: Envelope, field: str) -> dict[str, Any] | None:
        """Return the fields of `before` or `after`."""
        found = envelope.fields.get(field)
        return None if found is None else dict(found)

    def key_fields(self, key: bytes) -> dict[str, Any]:
        """Return the fields of a key, by the schema that it was written with. Raises BadValue, RegistryFailed."""
        if self._keys is None:
            raise BadValue("without a registry the schema of keys is not known")
        return self._keys(unframed(key).schema_id).decode(key)

    def row(self, fields: dict[str, Any], *, is_deleted: bool, above: tuple[str, ...]) -> dict[str, Any]:
        """Return the columns, which Avro has checked."""
        return {name: fields.get(name) for name in self._names}


def envelope_columns(schema: SchemaText) -> types.StructType:
    """Return the columns of the row in an Avro envelope: those of its field `after`. Raises FormatError."""
    from barnabas_spark.pipeline.formats.avro import AvroSchema  # noqa: PLC0415 - as AvroImages does

    return AvroSchema(schema).columns_in("after", "the Avro schema is no envelope of Debezium's")


# -- of a source


def debezium_decoder(
    columns: types.StructType, zone: str, coding: ValueCoding | None, schema: SchemaText | None, takes_tombstones: bool
) -> DebeziumDecoder:
    """Return a decoder of events with rows of these columns. schema: the envelope's, in Avro. Raises FormatError."""
    images: AvroImages | JsonImages
    if schema is None:
        images = JsonImages(columns, zone, frames_of(coding))
    else:
        assert coding is not None
        images = AvroImages(schema, registry_of(coding), is_framed=coding.is_framed)
    return DebeziumDecoder(images, columns.fieldNames(), takes_tombstones=takes_tombstones)


def with_operation(columns: types.StructType) -> types.StructType:
    """Return the columns with OPERATION behind them."""
    return types.StructType([*columns.fields, types.StructField(OPERATION, types.StringType())])
