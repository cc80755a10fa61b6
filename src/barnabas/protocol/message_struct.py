"""Structs: the groups of fields that messages consist of, whether declared in the notation or compiled.

`message_spec` makes their classes from the notation under `messages/`; in the compiled build some families are native
classes instead, written out from the same notation (decisions/0009-compiled-build.md). Everything that holds a message
names these bases. They have no state; every thread uses them. Kafka: Message.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar, Final

from barnabas.protocol.schema import mypyc_attr

if TYPE_CHECKING:
    from barnabas.protocol.schema import FieldSchema

_BYTES_SHOWN: Final = 32


@mypyc_attr(allow_interpreted_subclasses=True)
class Struct:  # noqa: PLW1641 - mutable
    """A group of fields: a message, or a part of one. Compares and prints by its fields; not hashable."""

    __slots__ = ()

    declarations: ClassVar[Collection[str]]
    """The names of its fields, in the order of its constructor."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).declarations)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_log_text(getattr(self, name))}" for name in type(self).declarations)
        return f"{type(self).__qualname__}({fields})"

    @classmethod
    def field_schemas(cls) -> tuple[FieldSchema, ...]:
        """Return each field in wire order, its type resolved. Raises TypeError for a type that is not the wire's."""
        raise TypeError(f"{cls.__qualname__} is a base of structs, and has no fields")


@mypyc_attr(allow_interpreted_subclasses=True)
class VersionedStruct(Struct):
    """Fields that differ by version, all versions in one class."""

    __slots__ = ()

    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_from: ClassVar[int | None]
    """First flexible version, or None."""

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Return whether this version has compact lengths and tagged fields."""
        return cls.flexible_from is not None and version >= cls.flexible_from


def _log_text(value: Any) -> str:
    """Return a value for a log line: long bytes and records only by their size."""
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > _BYTES_SHOWN:
        return f"<{len(value)} bytes>"
    return repr(value)
