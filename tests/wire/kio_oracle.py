"""Decodes and encodes again with the package kio: what its codec makes of our bytes.

Imported by the differential test (kio 0.6.5), and run as a program under an environment with kio 0.6.2, the last
release that knows the ZooKeeper-mode inter-broker APIs; so it imports nothing but kio.
Each line of input is `api_key version request|response hex`; each line of output is hex, or `unknown`, or
`error <text>`.
"""

from __future__ import annotations

import functools
import io
import sys
from typing import Any

from kio.index import load_entity_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType


@functools.cache
def _codec(api_key: int, version: int, kind: str) -> tuple[Any, Any] | None:
    name = api_key_map.get(api_key)
    if name is None or version not in schema_name_map[name]:
        return None
    schema = load_entity_schema(name, version, EntityType.request if kind == "request" else EntityType.response)
    return entity_reader(schema), entity_writer(schema)


def encode_again(api_key: int, version: int, kind: str, body: bytes) -> bytes | None:
    """What kio writes after reading `body`; None when it doesn't know this version."""
    codec = _codec(api_key, version, kind)
    if codec is None:
        return None
    read, write = codec
    entity, size = read(body, 0)
    if size != len(body):
        raise ValueError(f"kio read {size} of {len(body)} bytes")
    out = io.BytesIO()
    write(out, entity)
    return out.getvalue()


def main() -> None:
    """Answer line by line until the input ends."""
    for line in sys.stdin:
        api_key, version, kind, body = line.rstrip("\n").split(" ")
        try:
            again = encode_again(int(api_key), int(version), kind, bytes.fromhex(body))
        except Exception as error:  # noqa: BLE001  whatever kio raises is the answer
            answer = "error " + repr(error).replace("\n", " ")
        else:
            answer = "unknown" if again is None else again.hex()
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
