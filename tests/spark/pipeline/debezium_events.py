"""Events as Debezium writes them, in JSON and in Avro, for tests that read a table's changes."""

from __future__ import annotations

import json
from typing import Any

from barnabas_spark.pipeline.formats.avro import AvroEncoder
from barnabas_spark.pipeline.formats.schemas import SchemaText

SOURCE = {"version": "3.0.5.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1_700_000_000_000, "lsn": 5}


def event(op: Any, before: Any = None, after: Any = None, **more: Any) -> bytes:
    envelope = {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1_700_000_000_001}
    return json.dumps({**envelope, "transaction": None, **more}).encode()


def with_schema(value: bytes, *fields: dict[str, Any]) -> bytes:
    """An event as JsonConverter writes it with schemas.enable=true."""
    rows = [
        {"type": "struct", "optional": True, "name": "shop.Value", "field": field, "fields": list(fields)}
        for field in ("before", "after")
    ]
    schema = {"type": "struct", "optional": False, "name": "shop.Envelope", "fields": [*rows, {"field": "op"}]}
    return json.dumps({"schema": schema, "payload": json.loads(value)}).encode()


_VALUE = {
    "type": "record", "name": "Value", "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
ENVELOPE = json.dumps({
    "type": "record", "name": "Envelope", "namespace": "shop.public.customers", "fields": [
        {"name": "before", "type": ["null", _VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
})  # fmt: skip
AVRO_KEY = json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]})


def avro_event(op: str, before: Any = None, after: Any = None, schema_id: int | None = None) -> bytes:
    encoder = AvroEncoder(SchemaText(ENVELOPE, (), schema_id), is_framed=schema_id is not None)
    return encoder.encode({"before": before, "after": after, "source": {"lsn": 5}, "op": op})
