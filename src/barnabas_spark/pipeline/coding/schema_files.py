"""Schemas from files: Avro's JSON, JSON schemas, and what protoc writes with --descriptor_set_out.

Called by `coded_columns` on the driver; no state, no lock.
"""

from __future__ import annotations

import base64

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from barnabas_spark.pipeline.coding.coding_errors import FormatError
from barnabas_spark.pipeline.coding.schema_text import NamedText, SchemaText


def avro_file(path: str) -> SchemaText:
    """Return the schema of an .avsc file. Raises FormatError."""
    return json_file(path)


def json_file(path: str) -> SchemaText:
    """Return the schema of a file in JSON. Raises FormatError."""
    try:
        return SchemaText(_read(path).decode())
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8: {error}") from error


def protobuf_file(path: str, message: str | None) -> SchemaText:
    """Return the file of a descriptor set that has a message; without a message the last one. Raises FormatError."""
    told = f"{path} is no descriptor set: make it with protoc --include_imports --descriptor_set_out={path}"
    try:
        files = list(FileDescriptorSet.FromString(_read(path)).file)
    except DecodeError as error:
        raise FormatError(told) from error
    if not files:
        raise FormatError(told)
    # protoc writes a file after those that it imports.
    main = next((file for file in files if message is not None and _has(file, message)), files[-1])
    others = tuple(NamedText(file.name, _text(file)) for file in files if file is not main)
    return SchemaText(_text(main), others)


def _has(file: FileDescriptorProto, message: str) -> bool:
    prefix = f"{file.package}." if file.package else ""
    return any(
        message == f"{prefix}{each.name}" or message.startswith(f"{prefix}{each.name}.") for each in file.message_type
    )


def _text(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def _read(path: str) -> bytes:
    """Return a file's bytes. Raises FormatError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror or error}") from error
