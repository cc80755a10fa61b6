"""Schemas for the tests of Avro and Protobuf values: an order, and an older version of it."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

AVRO_ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": ["null", "string"], "default": None},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["BUY", "SELL"]}},
            {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
            {"name": "counts", "type": {"type": "map", "values": "int"}, "default": {}},
            {
                "name": "place",
                "type": ["null", {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}],
                "default": None,
            },
            {"name": "trace", "type": {"type": "string", "logicalType": "uuid"}, "default": ""},
        ],
    }
)
AVRO_SMALL = json.dumps({"type": "record", "name": "Small", "fields": [{"name": "id", "type": "long"}]})
AVRO_SMALL_OLD = json.dumps({"type": "record", "name": "Small", "fields": [{"name": "id", "type": "int"}]})

_PROTO = """
name: "shop.proto" package: "shop" syntax: "proto3" dependency: "google/protobuf/timestamp.proto"
message_type { name: "Other" }
message_type {
  name: "Order"
  nested_type { name: "Place" field { name: "x" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL } }
  nested_type {
    name: "CountsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
  }
  enum_type { name: "Kind" value { name: "BUY" number: 0 } value { name: "SELL" number: 1 } }
  field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "customer" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 proto3_optional: true }
  field {
    name: "at" number: 3 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL
  }
  field { name: "big" number: 4 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "kind" number: 5 type: TYPE_ENUM type_name: ".shop.Order.Kind" label: LABEL_OPTIONAL }
  field { name: "tags" number: 6 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "counts" number: 7 type: TYPE_MESSAGE type_name: ".shop.Order.CountsEntry" label: LABEL_REPEATED }
  field { name: "place" number: 8 type: TYPE_MESSAGE type_name: ".shop.Order.Place" label: LABEL_OPTIONAL }
  oneof_decl { name: "_customer" }
}
"""


def proto_file() -> FileDescriptorProto:
    return text_format.Parse(_PROTO, FileDescriptorProto())


def proto_text(file: FileDescriptorProto | None = None) -> str:
    """A file as registries have it."""
    return base64.b64encode((file or proto_file()).SerializeToString()).decode()


def proto_set() -> bytes:
    """What protoc writes."""
    written: bytes = FileDescriptorSet(file=[proto_file()]).SerializeToString()
    return written


AT = dt.datetime(2026, 1, 2, 3, 4, 5, 6_000, tzinfo=dt.UTC)


def order(**more: Any) -> dict[str, Any]:
    return {
        "id": 5, "customer": "ann", "at": AT, "price": Decimal("1.50"), "kind": "SELL", "tags": ["a", "b"],
        "counts": {"x": 1}, "place": {"x": 7}, "trace": "t", **more,
    }  # fmt: skip
