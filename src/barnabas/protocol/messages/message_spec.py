"""The notation's classes: slots classes made from annotations.

The modules under `messages/` declare them, the source generators read their fields when a codec is compiled. Classes
are immutable once made, except that the first construction writes the constructor; every thread reads them without a
lock.

In the compiled build a family of native classes has its notation beside it, as source that nobody imports:
`native_fields` reads it when the fields of a native class are asked for.

Kafka: StructSpec, MessageDataGenerator.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, dataclass_transform, get_args, get_origin

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import DecoderTable, EncoderTable
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message, Versioned
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


def _construct_first(self: StructSpec, *arguments: Any, **named: Any) -> None:
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


class StructSpec(Struct, metaclass=StructMeta):
    """A struct of the notation."""

    declarations: ClassVar[dict[str, FieldDeclaration]]
    defaults: ClassVar[dict[str, Any]]

    @classmethod
    def field_schemas(cls) -> tuple[FieldSchema, ...]:
        """Return each field in wire order, its type resolved. Raises TypeError for a type that is not the wire's."""
        return _declared_fields(cls)

    @classmethod
    def make_default(cls, name: str) -> Any:
        """Make the default value of a field that holds a struct. Raises TypeError for any other field."""
        for field_schema in cls.field_schemas():
            if field_schema.name == name and field_schema.struct is not None:
                return field_schema.struct()
        raise TypeError(f"{cls.__qualname__}.{name} holds no struct, so it has no default to make")


class VersionedSpec(Versioned, StructSpec):
    """A versioned struct of the notation."""

    @classmethod
    def _declare(cls, versions: str, flexible: str) -> None:
        """Note the versions (`0-4`), and which of them are flexible (`4+`, `none`); make the tables of codecs."""
        version_range, flexible_range = VersionRange.parse(versions), VersionRange.parse(flexible)
        cls.min_version, cls.max_version = version_range.first, version_range.last
        cls.flexible_from = flexible_range.first if flexible_range.last >= 0 else None
        # They fill when a version is first used.
        cls.decoders, cls.encoders = DecoderTable(cls), EncoderTable(cls)


class MessageSpec(Message, VersionedSpec):
    """A request or response of one API, in the notation."""

    def __init_subclass__(cls, *, api: ApiKey, versions: str, flexible: str = "none") -> None:
        """Declare a message: its API, its versions (`0-4`), and which of them are flexible (`4+`, `none`)."""
        cls.api_key = api
        cls._declare(versions, flexible)


class CoordinatorMessage(VersionedSpec):
    """A key or a value of a log that belongs to a coordinator (Kafka: coordinator-key, coordinator-value)."""

    def __init_subclass__(cls, *, versions: str, flexible: str = "none") -> None:
        """Declare a key or a value: its versions (`0-4`), and which of them are flexible (`4+`, `none`)."""
        cls._declare(versions, flexible)


@functools.cache
def _declared_fields(struct: type[StructSpec]) -> tuple[FieldSchema, ...]:
    """Resolve the annotations: the module is complete by now, so forward names are known."""
    module = vars(sys.modules[struct.__module__])
    # `typing.get_type_hints` would also look at the base classes, and drop the marks of `Annotated`.
    hints = inspect.get_annotations(struct, globals=module, locals={}, eval_str=True)
    return tuple(
        FieldSchema(name, *_resolve(hints[name]), declaration, struct.defaults[name])
        for name, declaration in struct.declarations.items()
    )


@functools.cache
def native_fields(struct: type[Struct]) -> tuple[FieldSchema, ...]:
    """Return the fields of a native class: those of the notation that it was written from, with native structs."""
    native = vars(sys.modules[struct.__module__])
    declared = _notation_of(struct.__module__)[struct.__name__]
    return tuple(
        field if field.struct is None else replace(field, struct=native[field.struct.__name__])
        for field in declared.field_schemas()
    )


@functools.cache
def _notation_of(family: str) -> dict[str, type[Struct]]:
    """Execute the source beside a family of native classes; return its structs by name, the nested ones among them."""
    name = f"{family} (notation)"
    path = Path(str(sys.modules[family].__file__)).parent / f"{family.rpartition('.')[2]}.py"
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(path.read_bytes(), path, "exec"), vars(module))  # noqa: S102 - a source of this package
    return structs_of(module)


def structs_of(family: types.ModuleType) -> dict[str, type[Struct]]:
    """Return the structs that a family declares, by their own names: messages, and after each the structs in it."""
    found: dict[str, type[Struct]] = {}
    for message in vars(family).values():
        if isinstance(message, type) and issubclass(message, StructSpec) and message.__module__ == family.__name__:
            found[message.__name__] = message
            found.update(
                (name, nested)
                for name, nested in vars(message).items()
                if isinstance(nested, type) and issubclass(nested, StructSpec)
            )
    return found


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
