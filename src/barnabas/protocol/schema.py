"""The notation in which messages are written: field types, version ranges, and `field`.

Used by the modules under `messages/` at import, and by the source generators when a codec is compiled. Everything
here is immutable once made, so no lock guards it.

A message reads like Kafka's JSON, one line a field, all versions at once:

    class HeartbeatRequest(MessageSpec, api=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
        group_id: str = field("0+")
        generation_id: Int32 = field("0+")
        member_id: str = field("0+")
        group_instance_id: str | None = field("3+", nullable="3+", default=None)

The facts come from the message definitions of Apache Kafka 3.9 and 4.x (`common/message/*.json`).

Kafka: MessageSpec, FieldSpec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414 - exported so
else:

    def mypyc_attr(**_marks: bool) -> Callable[[type], type]:
        """Return what does nothing: the compiler reads the marks of a class, plain Python passes them over."""
        return lambda marked: marked


class WireType(Enum):
    """The form of a value on the wire; for a fixed size the character(s) of a struct format and the number of bytes."""

    BOOL = ("bool", "?", 1)
    INT8 = ("int8", "b", 1)
    INT16 = ("int16", "h", 2)
    INT32 = ("int32", "i", 4)
    INT64 = ("int64", "q", 8)
    UINT16 = ("uint16", "H", 2)
    UINT32 = ("uint32", "I", 4)
    FLOAT64 = ("float64", "d", 8)
    UUID = ("uuid", "16s", 16)
    STRING = ("string", "", 0)
    BYTES = ("bytes", "", 0)
    RECORDS = ("records", "", 0)
    STRUCT = ("struct", "", 0)

    def __init__(self, kafka_name: str, format_characters: str, size: int) -> None:
        self.kafka_name = kafka_name
        self.format = format_characters
        self.size = size

    @property
    def is_fixed(self) -> bool:
        """Whether every value takes the same number of bytes."""
        return self.size > 0


Int8: TypeAlias = Annotated[int, WireType.INT8]
Int16: TypeAlias = Annotated[int, WireType.INT16]
Int32: TypeAlias = Annotated[int, WireType.INT32]
Int64: TypeAlias = Annotated[int, WireType.INT64]
UInt16: TypeAlias = Annotated[int, WireType.UINT16]
UInt32: TypeAlias = Annotated[int, WireType.UINT32]
Float64: TypeAlias = Annotated[float, WireType.FLOAT64]
Uuid: TypeAlias = Annotated[bytes, WireType.UUID]
# Decoded: a memoryview of the frame. To be encoded: any object with a length, put into the list of buffers as it is.
Records: TypeAlias = Annotated[Any, WireType.RECORDS]


class _Mark(Enum):
    """Values that stand for no value."""

    KAFKA_DEFAULT = "the default of the type"
    UNSET = "made for each message"


# None is a default that many fields have, so "not given" needs a value of its own.
KAFKA_DEFAULT: Final = _Mark.KAFKA_DEFAULT
"""`field` was given no default."""
UNSET: Final = _Mark.UNSET
"""The default of lists and structs."""
LAST_POSSIBLE_VERSION: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions `first` to `last`, both included; empty when first is above last."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read Kafka's notation: `3+`, `2-5`, `4` or `none`."""
        if text == "none":
            return cls(0, -1)
        # Without an end, as in Kafka's JSON: a new version of a message need not touch its old fields.
        if text.endswith("+"):
            return cls(int(text[:-1]), LAST_POSSIBLE_VERSION)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def covers(self, version: int) -> bool:
        """Return whether `version` lies in the range."""
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """The arguments of `field`; the type comes from the annotation beside it.

    repeated: the fields of the request that this field of the response repeats. error_value: its value in an answer
    that is an error. `error_answers` reads both.
    """

    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    tagged: VersionRange
    ignorable: bool
    default: Any
    repeated: tuple[str, ...] = ()
    error_value: Any = KAFKA_DEFAULT

    def repeats(self, *names: str) -> Any:
        """Declare that a response's field repeats the request's field of one of these names, whichever the version has.

        A list answers the request's list item for item. Where the request's items are plain strings or numbers, the
        first field of the response's items that repeats something takes the whole item.
        """
        return replace(self, repeated=names)

    def on_error(self, value: Any) -> Any:
        """Declare the value in an error answer, where it is not the default. None becomes "" before null is allowed."""
        return replace(self, error_value=value)


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field, with its type resolved. `struct` is the class of a STRUCT (or of an array's elements)."""

    name: str
    wire_type: WireType
    is_array: bool
    struct: type[Any] | None
    declaration: FieldDeclaration
    default: Any

    def is_present(self, version: int) -> bool:
        """Return whether the field is on the wire in this version, tagged or not."""
        return self.declaration.versions.covers(version)

    def is_nullable(self, version: int) -> bool:
        """Return whether null may be written in this version."""
        return self.declaration.nullable.covers(version)

    def is_tagged(self, version: int) -> bool:
        """Return whether the field is a tagged one in this version."""
        return self.declaration.tag is not None and self.declaration.tagged.covers(version)


def field(
    versions: str,
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str = "none",
    ignorable: bool = False,
    default: Any = KAFKA_DEFAULT,
) -> Any:
    """Declare a field of a message.

    `versions`: where it exists. `nullable`: where it may be None. `tag`, `tagged`: its number, and the versions in
    which it is a tagged field. `ignorable`: in versions without it any value is dropped silently; otherwise a value
    other than the default is refused. `default`: when it is not the default of the type (0, "", empty list, False;
    None for records).
    """
    return FieldDeclaration(
        VersionRange.parse(versions),
        VersionRange.parse(nullable),
        tag,
        VersionRange.parse(tagged),
        ignorable,
        default,
    )
