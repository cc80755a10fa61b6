"""Schemas as texts, with the texts that they refer to, from files or a registry, and what can be wrong with them.

Made on the driver, here by `coded_columns` or by `schema_registry`, and sent to the executors, where the codecs read
them. The errors are raised by the modules of this package and by `value_formats`, in both places. Immutable; no lock.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError


class FormatError(Exception):
    """A schema, or rows, that the format cannot have. The message says why."""


class BadValue(Exception):
    """A record's value that cannot be decoded. The message says why, and becomes the error of a dead letter."""


class RegistryFailed(Exception):
    """A schema registry that did not answer, or rejected a request. The message has the URL."""


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


def avro_file(path: str) -> SchemaText:
    """Return the schema of an .avsc file, Avro's JSON. Raises FormatError."""
    return json_file(path)


def json_file(path: str) -> SchemaText:
    """Return the schema of a file in JSON. Raises FormatError."""
    try:
        return SchemaText(_read_file(path).decode())
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8: {error}") from error


def protobuf_file(path: str, message: str | None) -> SchemaText:
    """Return the file of a descriptor set that has a message; without a message the last one. Raises FormatError.

    A descriptor set is what protoc writes with --descriptor_set_out.
    """
    told = f"{path} is no descriptor set: make it with protoc --include_imports --descriptor_set_out={path}"
    try:
        files = list(FileDescriptorSet.FromString(_read_file(path)).file)
    except DecodeError as error:
        raise FormatError(told) from error
    if not files:
        raise FormatError(told)
    # protoc writes a file after those that it imports.
    main = next((file for file in files if message is not None and _has_message(file, message)), files[-1])
    others = tuple(NamedText(file.name, _base64_text(file)) for file in files if file is not main)
    return SchemaText(_base64_text(main), others)


def _has_message(file: FileDescriptorProto, message: str) -> bool:
    prefix = f"{file.package}." if file.package else ""
    return any(
        message == f"{prefix}{each.name}" or message.startswith(f"{prefix}{each.name}.") for each in file.message_type
    )


def _base64_text(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def _read_file(path: str) -> bytes:
    """Return a file's bytes. Raises FormatError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror or error}") from error
