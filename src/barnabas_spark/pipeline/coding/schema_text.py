"""A schema as text, with the texts that it refers to: what goes from the driver to the executors.

Made by `schema_registry` and `schema_files`, read by the codecs; immutable, no lock.
"""

from __future__ import annotations

from typing import NamedTuple


class NamedText(NamedTuple):
    """A schema that others refer to: by an import's path in Protobuf, by a type's name in Avro."""

    name: str
    text: str


class SchemaText(NamedTuple):
    """A schema. Avro: JSON. Protobuf: a serialized FileDescriptorProto in base64, as registries give and take it."""

    text: str
    references: tuple[NamedText, ...] = ()
    """What the schema refers to, each after what it refers to itself."""
    schema_id: int | None = None
    """The id in the registry, if it is known."""
