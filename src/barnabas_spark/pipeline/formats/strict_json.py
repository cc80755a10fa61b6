"""Decodes JSON values by the columns of a schema, and rejects what the columns cannot hold without a loss.

Made in the executors' Python workers by `framed_json` and `debezium`, once for a column; used by the worker's one
thread, no lock.
Spark's own `from_json` takes much that is bad for good: it reads the first of two objects, rounds decimals, lets
infinity stand for 1e400, replaces bytes that are not UTF-8, ignores NOT NULL. Here each such value is a BadValue, whose
text names the field and the reason. What a column takes:

    BOOLEAN                    true, false
    TINYINT .. BIGINT          whole numbers in the type's range
    FLOAT, DOUBLE              numbers in the type's range; the texts NaN, Infinity, -Infinity, as Spark writes them
    DECIMAL(p, s)              numbers, also as texts, that need no rounding
    STRING                     texts; other values stand as their JSON, which loses nothing
    BINARY                     base64 texts
    DATE                       texts such as 2026-01-31
    TIMESTAMP                  texts such as 2026-01-31T12:00:00.123456+01:00, in the session's zone if they name none;
                               whole numbers are seconds since 1970, as Spark's are, up to the year 9999
    TIMESTAMP_NTZ              such texts without a zone
    STRUCT, MAP<STRING, ..>    objects
    ARRAY                      arrays
"""

from __future__ import annotations

import binascii
import datetime as dt
import json
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import types

from barnabas_spark.pipeline.pipeline_error import BadValue, FormatError

Convert = Callable[[Any], Any]
"""Returns what a column holds of a parsed value that is not null. Raises _Rejected."""

_SHOWN_CHARACTERS = 60
_INTEGERS = {types.ByteType: 8, types.ShortType: 16, types.IntegerType: 32, types.LongType: 64}
_LARGEST_FLOAT = 3.4028235677973366e38
"""From here on a number rounds to a float's infinity."""
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, in seconds since 1970."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NUMBER = re.compile(r"-?\d{1,100}(\.\d{1,100})?([eE][+-]?\d{1,4})?", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
    r" ?(Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)
_USUAL_TIME = re.compile(
    r"(?!0001|9999)\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{3}(?:\d{3})?)?(?:Z|[+-]\d\d:\d\d)?", re.ASCII
)
"""What Python itself reads, in a fifth of the time."""
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
_CONNECT_KEYS = {"schema", "payload"}
_EVENT_KEYS = {"before", "after", "op"}


class StrictJsonDecoder:
    """A reader of JSON objects by a schema. Raises FormatError: a type that cannot be read strictly.

    takes_seconds: whether a whole number is a TIMESTAMP, in seconds since 1970.
    """

    def __init__(self, columns: types.StructType, zone: str, *, takes_seconds: bool = True) -> None:
        self._convert = _struct(columns, _Times(zone_named(zone), takes_seconds))
        self._required = [field.name for field in columns.fields if not field.nullable]
        self._parser = json.JSONDecoder(
            object_pairs_hook=_without_twins, parse_float=_Number, parse_constant=_reject_constant
        )

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return a value's columns. Raises BadValue."""
        return self.columns_of(self.parsed(value))

    def parsed(self, value: bytes) -> Any:
        """Return what a value's JSON says, for `columns_of`: numbers with a fraction as texts. Raises BadValue."""
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            raise BadValue(
                f"the value is not UTF-8: byte {value[error.start]:#04x} at position {error.start}"
            ) from None
        try:
            if text[:1] == "{":
                parsed, end = self._parser.raw_decode(text)
                if end == len(text) or not text[end:].strip(" \t\r\n"):
                    return parsed
                raise BadValue(f"the value goes on behind the end of its object: {shown(text[end:].strip())}")
            if text[:1] == "\0":
                raise BadValue(
                    "the value is no JSON, but begins with a zero byte, as Confluent's frames do, which"
                    " 'framing: confluent' takes away"
                )
            if not text.strip(" \t\r\n"):
                raise BadValue("the value is no JSON: it is empty")
            return self._parser.decode(text)
        except json.JSONDecodeError as error:
            raise BadValue(f"the value is no JSON: {error.msg}, at character {error.pos}") from None
        except RecursionError:
            raise BadValue("the value is JSON that is nested too deeply") from None
        except ValueError:
            # Python reads no whole number of more than 4,300 digits: its time would grow with their square.
            raise BadValue("the value has a whole number with thousands of digits") from None

    def columns_of(self, parsed: Any, *above: str) -> dict[str, Any]:
        """Return the columns of a parsed object. Raises BadValue.

        above: the fields that the object is in, for messages.
        """
        try:
            found: dict[str, Any] = self._convert(parsed)
        except _Rejected as error:
            error.path.extend(reversed(above))
            where = f"{error.where}: " if error.path else ""
            raise BadValue(f"{where}{error.reason}") from None
        except RecursionError:
            # The parser goes deeper than the conversion of what it has read.
            raise BadValue("the value is JSON that is nested too deeply") from None
        return found

    def check_null(self) -> None:
        """Check that a record may lack a value. Raises BadValue: a column is NOT NULL."""
        if self._required:
            raise BadValue(f"{self._required[0]}: the value is NULL, and the column is NOT NULL")


def zone_named(name: str) -> dt.tzinfo:
    """Return the zone of a Spark session. Raises FormatError: it is not known here."""
    if name in ("Z", "UTC", "Etc/UTC", "GMT"):
        return dt.UTC
    if _OFFSET.fullmatch(name):
        return _zone(name.removeprefix("GMT").removeprefix("UTC").removeprefix("UT"))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise FormatError(
            f"spark.sql.session.timeZone is {name!r}, which this machine's time zones lack: use a region such as"
            " Europe/Paris, or an offset such as +02:00"
        ) from error


# -- parsing


class _Times(NamedTuple):
    """How texts and numbers are times."""

    zone: dt.tzinfo
    """That of texts which name none."""
    takes_seconds: bool
    """Whether whole numbers are seconds since 1970."""


class _Rejected(Exception):
    """A value that a column does not take. The path grows outwards while the error passes through its objects."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[str | int] = []
        super().__init__(reason)

    @property
    def where(self) -> str:
        """The field, such as `items[2].price`."""
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in reversed(self.path)]
        return "".join(parts).removeprefix(".")


class _Number(str):
    """A number with a fraction or an exponent, as it stands in the JSON: a float would round it."""

    __slots__ = ()


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises BadValue: a key stands twice, and each reader would take another value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise BadValue(f"the key {shown(name)!r} stands twice in one object")
            seen.add(name)
    return found


def _reject_constant(name: str) -> Any:
    raise BadValue(f"the value is no JSON: {name} is no number of JSON's")


def shown(value: Any) -> str:
    """Return a parsed value in few characters, for a message."""
    text = value if isinstance(value, str) else _json_text(value)
    # What is shown goes to logs and headers: no half of a surrogate pair, no control character.
    text = text[: _SHOWN_CHARACTERS + 1].encode("utf-8", "backslashreplace").decode()
    text = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _kind(value: Any) -> str:
    """Return what a parsed value is, in JSON's words."""
    if type(value) is _Number or type(value) is int:
        return f"the number {shown(str(value))}"
    if isinstance(value, str):
        return f"the text {shown(value)!r}"
    if isinstance(value, bool):
        return f"the value {'true' if value else 'false'}"
    return "null" if value is None else "an object" if isinstance(value, dict) else "an array"


def _json_text(value: Any) -> str:
    """Return a parsed value as JSON again, its numbers as they stood."""
    if type(value) is _Number:
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{_json_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json_text, value)) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- objects and arrays


def _convert(kind: types.DataType, times: _Times) -> Convert:
    """Return what reads values of a column's type. Raises FormatError."""
    if isinstance(kind, types.StructType):
        return _struct(kind, times)
    if isinstance(kind, types.ArrayType):
        return _array(kind, times)
    if isinstance(kind, types.MapType) and isinstance(kind.keyType, types.StringType):
        return _map(kind, times)
    if type(kind) in _INTEGERS:
        return _integer(kind, _INTEGERS[type(kind)])
    if isinstance(kind, types.DecimalType):
        return _decimal(kind)
    if isinstance(kind, types.TimestampType):
        return lambda value: _timestamp(value, times)
    found = {
        types.BooleanType: _boolean,
        types.FloatType: _float,
        types.DoubleType: _double,
        types.StringType: _string,
        types.BinaryType: _binary,
        types.DateType: _date,
        types.TimestampNTZType: _timestamp_ntz,
    }.get(type(kind))
    if found is None:
        raise FormatError(
            f"JSON cannot be read strictly into the type {kind.simpleString().upper()}: declare the column as STRING"
            " and cast it in a transform, or set 'strict: false'"
        )
    return found


def _struct(kind: types.StructType, times: _Times) -> Convert:
    names = frozenset(kind.fieldNames())
    if len(names) < len(kind.fields):
        twin = next(name for name in names if kind.fieldNames().count(name) > 1)
        raise FormatError(f"the schema has two columns {twin!r}")
    fields = [(field.name, _convert(field.dataType, times), not field.nullable) for field in kind.fields]

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _Rejected(f"{_kind(value)} is no object")
        row = {}
        name = ""
        try:
            for name, single, is_required in fields:
                given = value.get(name)
                if given is not None:
                    row[name] = single(given)
                elif is_required:
                    what = "null" if name in value else "missing"
                    raise _Rejected(f"it is {what}, and the column is NOT NULL")
                else:
                    row[name] = None
        except _Rejected as error:
            if value and names.isdisjoint(value):
                raise _of_another_schema(value, kind) from None
            error.path.append(name)
            raise
        if value and names.isdisjoint(value):
            raise _of_another_schema(value, kind)
        return row

    return convert


def _of_another_schema(value: dict[str, Any], kind: types.StructType) -> _Rejected:
    hint = ""
    if value.keys() == _CONNECT_KEYS:
        hint = ": the envelope of Kafka Connect's JsonConverter (its schemas.enable=false writes none)"
    elif value.keys() >= _EVENT_KEYS:
        hint = ": a change event of Debezium, which 'format: debezium' reads"
    wanted, given = (shown(", ".join(names)) for names in (kind.fieldNames(), value))
    return _Rejected(f"the object has none of the columns {wanted}; it has {given}{hint}")


def _array(kind: types.ArrayType, times: _Times) -> Convert:
    single = _convert(kind.elementType, times)

    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _Rejected(f"{_kind(value)} is no array")
        found: list[Any] = []
        try:
            for each in value:
                found.append(None if each is None else single(each))  # noqa: PERF401 - its length is the error's index
        except _Rejected as error:
            error.path.append(len(found))
            raise
        return found

    return convert


def _map(kind: types.MapType, times: _Times) -> Convert:
    single = _convert(kind.valueType, times)

    def convert(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise _Rejected(f"{_kind(value)} is no object")
        found = []
        name = ""
        try:
            for name, each in value.items():
                found.append((_string(name), None if each is None else single(each)))
        except _Rejected as error:
            error.path.append(shown(name))
            raise
        return found

    return convert


# -- single values


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _Rejected(f"{_kind(value)} is no BOOLEAN")
    return value


def _integer(kind: types.DataType, bits: int) -> Convert:
    first, last = -(1 << bits - 1), (1 << bits - 1) - 1
    name = kind.simpleString().upper()

    def convert(value: Any) -> int:
        if type(value) is not int:
            raise _Rejected(f"{_kind(value)} is no {name}")
        if not first <= value <= last:
            raise _Rejected(f"{_kind(value)} is out of the range of {name}, {first} to {last}")
        return value

    return convert


def _double(value: Any) -> float:
    kind = type(value)
    if kind is _Number or kind is int:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if number - number != 0.0:
            raise _Rejected(f"{_kind(value)} is out of the range of DOUBLE")
        if number == 0.0 and kind is _Number and re.match(r"[-0.]*[1-9]", value):
            raise _Rejected(f"{_kind(value)} is too small for DOUBLE, which would make it 0")
        return number
    if kind is str and value in _WORDS:
        return _WORDS[value]
    raise _Rejected(f"{_kind(value)} is no number")


def _float(value: Any) -> float:
    number = _double(value)
    if abs(number) >= _LARGEST_FLOAT and number - number == 0.0:
        raise _Rejected(f"{_kind(value)} is out of the range of FLOAT")
    if number != 0.0 and abs(number) < 1e-45:
        raise _Rejected(f"{_kind(value)} is too small for FLOAT, which would make it 0")
    return number


def _decimal(kind: types.DecimalType) -> Convert:
    name = kind.simpleString().upper()
    unit = Decimal(1).scaleb(-kind.scale)
    exact = Context(prec=kind.precision, Emax=999_999, Emin=-999_999, traps=[Inexact, InvalidOperation])

    def convert(value: Any) -> Decimal:
        if type(value) is bool or not isinstance(value, (int, str)):
            raise _Rejected(f"{_kind(value)} is no {name}")
        if isinstance(value, str) and not _NUMBER.fullmatch(value):
            raise _Rejected(f"{_kind(value)} is no {name}")
        try:
            return Decimal(value).quantize(unit, context=exact)
        except (Inexact, InvalidOperation):
            raise _Rejected(f"{_kind(value)} does not fit {name} without a loss") from None

    return convert


def _string(value: Any) -> str:
    text = value if type(value) is str else _json_text(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Rejected(f"{_kind(text)} has half of a surrogate pair, which is no character") from None
    return text


def _binary(value: Any) -> bytes:
    if type(value) is str:
        try:
            return binascii.a2b_base64(value, strict_mode=True)
        except ValueError as error:
            raise _Rejected(f"{_kind(value)} is no base64, which BINARY takes: {error}") from None
    raise _Rejected(f"{_kind(value)} is no BINARY, which is a text in base64")


# -- dates and times


def _date(value: Any) -> dt.date:
    match = _DATE.fullmatch(value) if type(value) is str else None
    if match is None:
        raise _Rejected(f"{_kind(value)} is no DATE such as '2026-01-31'")
    try:
        return dt.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError as error:
        raise _Rejected(f"{_kind(value)} is no DATE: {error}") from None


def _timestamp(value: Any, times: _Times) -> dt.datetime:
    if type(value) is int:
        if not times.takes_seconds:
            raise _Rejected(
                f"{_kind(value)} is no TIMESTAMP: it counts milliseconds or microseconds, and only a schema beside it"
                " would say which. Declare the column as BIGINT, and use timestamp_millis() or timestamp_micros() in a"
                " transform"
            )
        if not _FIRST_SECOND <= value <= _LAST_SECOND:
            raise _Rejected(
                f"{_kind(value)} is beyond the year 9999: a number in a TIMESTAMP counts seconds since 1970. For"
                " milliseconds declare the column as BIGINT, and use timestamp_millis() in a transform"
            )
        return _EPOCH + dt.timedelta(seconds=value)
    if type(value) is str and _USUAL_TIME.fullmatch(value):
        try:
            usual = dt.datetime.fromisoformat(value)
        except ValueError as error:
            raise _Rejected(f"{_kind(value)} is no TIMESTAMP: {error}") from None
        return usual if usual.tzinfo is not None else usual.replace(tzinfo=times.zone)
    match = _TIME.fullmatch(value) if type(value) is str else None
    if match is None:
        raise _Rejected(f"{_kind(value)} is no TIMESTAMP such as '2026-01-31T12:00:00.123456+01:00'")
    try:
        return _local(match).replace(tzinfo=_zone(match[8]) if match[8] else times.zone).astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise _Rejected(f"{_kind(value)} is no TIMESTAMP: {error}") from None


def _timestamp_ntz(value: Any) -> dt.datetime:
    match = _TIME.fullmatch(value) if type(value) is str else None
    if match is None:
        raise _Rejected(f"{_kind(value)} is no TIMESTAMP_NTZ such as '2026-01-31T12:00:00.123456'")
    if match[8]:
        raise _Rejected(f"{_kind(value)} has a zone, which TIMESTAMP_NTZ would lose: declare the column as TIMESTAMP")
    try:
        return _local(match)
    except ValueError as error:
        raise _Rejected(f"{_kind(value)} is no TIMESTAMP_NTZ: {error}") from None


def _local(match: re.Match[str]) -> dt.datetime:
    """Return the time that a text shows, to the microsecond, Spark's smallest unit. Raises ValueError."""
    year, month, day, hour, minute, second, fraction = match.groups()[:7]
    return dt.datetime(  # noqa: DTZ001 - the zone is another group's
        int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0),
        int((fraction or "").ljust(6, "0")[:6]),
    )  # fmt: skip


def _zone(text: str) -> dt.tzinfo:
    """Return the zone of an offset. Raises ValueError: it is no less than a day."""
    match = _OFFSET.fullmatch(text)
    if match is None:
        return dt.UTC
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return dt.timezone(dt.timedelta(minutes=-minutes if match[1] == "-" else minutes))
