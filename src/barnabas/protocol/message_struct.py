"""Structs: slots classes made from annotations, the groups of fields that messages consist of.

The modules under `messages/` declare them, the source generators read their fields when a codec is compiled. Classes
are immutable once made, except that the first construction writes the constructor; every thread reads them without a
lock.

Kafka: MessageDataGenerator.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform, get_args, get_origin

from barnabas.protocol.schema import KAFKA_DEFAULT, UNSET, FieldDeclaration, FieldSchema, VersionRange, WireType
from barnabas.protocol.uuid import ZERO_UUID

_PLAIN_TYPES = {str: WireType.STRING, bytes: WireType.BYTES, bool: WireType.BOOL}
_DEFAULT_BY_ANNOTATION = {
    "str": "",
    "bytes": b"",
    "bool": False,
    "Records": None,
    "Uuid": ZERO_UUID,
    "Float64": 0.0,
    **dict.fromkeys(("Int8", "Int16", "Int32", "Int64", "UInt16", "UInt32"), 0),
}
_BYTES_SHOWN = 32


def _default_of(annotation: str, declaration: FieldDeclaration) -> Any:
    """Return the default, from the annotation's text: the class that it names may not exist yet."""
    if declaration.default is not KAFKA_DEFAULT:
        return declaration.default
    return _DEFAULT_BY_ANNOTATION.get(annotation.removesuffix(" | None"), UNSET)


def _constructor(struct: StructMeta) -> Callable[..., None]:
    """Write `__init__` out, as dataclasses do: a loop would cost a microsecond per message."""
    annotations: dict[str, str] = struct.__annotations__
    parameters, body = ["self"], []
    for name, default in struct.defaults.items():
        if default is not UNSET:
            parameters.append(f"{name}={default!r}")
            body.append(f"    self.{name} = {name}")
            continue
        made = "[]" if annotations[name].startswith("list[") else f"self.make_default({name!r})"
        parameters.append(f"{name}=UNSET")
        body.append(f"    self.{name} = {made} if {name} is UNSET else {name}")
    source = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(body) or "    pass")
    namespace: dict[str, Any] = {"UNSET": UNSET}
    exec(source, namespace)  # noqa: S102  the text is made of our own declarations
    constructor: Callable[..., None] = namespace["__init__"]
    return constructor


def _construct_first(self: Struct, *arguments: Any, **named: Any) -> None:
    """Write the constructor of a class when it is first called, and call it.

    Decoding calls no constructor, and most structs of a broker are only decoded or never used. Written at once,
    constructors would be most of the time that importing a family takes.
    """
    struct = type(self)
    constructor = _constructor(struct)
    struct.__init__ = constructor  # type: ignore[method-assign]
    constructor(self, *arguments, **named)


@dataclass_transform()
class StructMeta(type):
    """Turns annotated `field(...)` lines into slots and a constructor; every parameter has a default."""

    declarations: dict[str, FieldDeclaration]
    defaults: dict[str, Any]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        """Make the class. `options` (api, versions, flexible) go to `Message.__init_subclass__`."""
        declarations = {key: value for key, value in namespace.items() if isinstance(value, FieldDeclaration)}
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        defaults = {key: _default_of(annotations[key], value) for key, value in declarations.items()}
        # A class attribute and a slot of the same name exclude each other.
        for key in declarations:
            del namespace[key]
        # Slots: a response of 10,000 partitions is 10,000 structs, each without a dictionary.
        namespace["__slots__"] = tuple(declarations)
        namespace["declarations"] = declarations
        namespace["defaults"] = defaults
        namespace["__init__"] = _construct_first
        return super().__new__(mcs, name, bases, namespace, **options)


class Struct(metaclass=StructMeta):
    """A group of fields: a message, or a part of one. Compares and prints by its fields; not hashable."""

    declarations: ClassVar[dict[str, FieldDeclaration]]
    defaults: ClassVar[dict[str, Any]]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.declarations)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_log_text(getattr(self, name))}" for name in self.declarations)
        return f"{type(self).__qualname__}({fields})"

    @classmethod
    def field_schemas(cls) -> tuple[FieldSchema, ...]:
        """Return each field in wire order, its type resolved. Raises TypeError for a type that is not the wire's."""
        return _fields_of(cls)

    @classmethod
    def make_default(cls, name: str) -> Any:
        """Make the default value of a field that holds a struct. Raises TypeError for any other field."""
        for field_schema in _fields_of(cls):
            if field_schema.name == name and field_schema.struct is not None:
                return field_schema.struct()
        raise TypeError(f"{cls.__qualname__}.{name} holds no struct, so it has no default to make")


class VersionedStruct(Struct):
    """Fields that differ by version, all versions in one class."""

    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_from: ClassVar[int | None]
    """First flexible version, or None."""

    @classmethod
    def _declare(cls, versions: str, flexible: str) -> None:
        """Note the versions (`0-4`), and which of them are flexible (`4+`, `none`)."""
        version_range, flexible_range = VersionRange.parse(versions), VersionRange.parse(flexible)
        cls.min_version, cls.max_version = version_range.first, version_range.last
        cls.flexible_from = flexible_range.first if flexible_range.last >= 0 else None

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Return whether this version has compact lengths and tagged fields."""
        return cls.flexible_from is not None and version >= cls.flexible_from


@functools.cache
def _fields_of(struct: type[Struct]) -> tuple[FieldSchema, ...]:
    """Resolve the annotations, once a class: its module is complete by now, so forward names are known."""
    module = vars(sys.modules[struct.__module__])
    # `typing.get_type_hints` would also look at the base classes, and drop the marks of `Annotated`.
    hints = inspect.get_annotations(struct, globals=module, locals={}, eval_str=True)
    return tuple(
        FieldSchema(name, *_resolve(hints[name]), declaration, struct.defaults[name])
        for name, declaration in struct.declarations.items()
    )


def _resolve(hint: Any) -> tuple[WireType, bool, type | None]:
    """Return the type of a resolved annotation, whether it is an array, and its struct. Raises TypeError for any
    other type."""
    alternatives = [part for part in get_args(hint) if part is not type(None)]
    if type(None) in get_args(hint) and len(alternatives) == 1:
        hint = alternatives[0]
    if get_origin(hint) is list:
        wire_type, _, struct = _resolve(get_args(hint)[0])
        return wire_type, True, struct
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, WireType):
            return mark, False, None
    if hint in _PLAIN_TYPES:
        return _PLAIN_TYPES[hint], False, None
    if isinstance(hint, StructMeta):
        return WireType.STRUCT, False, hint
    raise TypeError(f"{hint!r} is not a type of the wire protocol")


def _log_text(value: Any) -> str:
    """Return a value for a log line: long bytes and records only by their size."""
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > _BYTES_SHOWN:
        return f"<{len(value)} bytes>"
    return repr(value)
