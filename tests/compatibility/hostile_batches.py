"""Makes batches that no client should send, from a seed: good ones with one or two faults, and some without.

Used by the campaign that sends them to Apache Kafka and to ours (`test_same_verdicts`). A batch is modelled field by
field, so that every field of the header, of each record and of the compressed stream can lie while all others are true.
Every case has a producer id of its own, if any: the verdict on one batch never depends on another.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from barnabas.records.compression import Codec, compress
from barnabas.records.v2.layout import encode_zigzag
from barnabas.records.xxhash32 import compress_lz4_magic_0

NOW = 1_700_000_000_000
ODD_INTS = (-(2**31), -2, -1, 0, 1, 5, 1000, 2**31 - 1)
ODD_LONGS = (-(2**63), -2, -1, 0, 1, NOW + 10**9, 2**63 - 1)
ODD_SHORTS = (-(2**15), -2, -1, 0, 1, 2**15 - 1)
OWN_PRODUCER, LAST_PRODUCER = 0, 2**63 - 1
"""As lies, these become ids that no other case has, near the ends of what is possible."""
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_FIELDS = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)


class HostileBatch(NamedTuple):
    """One case. faults: what is wrong with it; version: of Produce."""

    number: int
    faults: tuple[str, ...]
    codec: Codec
    version: int
    data: bytes


class RecordModel:
    """A record whose every number can lie: `lies` replaces what would be true."""

    def __init__(self, timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None) -> None:
        self.timestamp_delta = timestamp_delta
        self.offset_delta = offset_delta
        self.key = key
        self.value = value
        self.headers: list[tuple[bytes, bytes | None]] = []
        self.lies: dict[str, int] = {}
        self.tail = b""

    def encode(self) -> bytes:
        """The bytes of the record, its length first."""
        lies = self.lies
        pieces = [
            bytes([lies.get("attributes", 0) & 0xFF]),
            encode_zigzag(lies.get("timestamp_delta", self.timestamp_delta)),
            encode_zigzag(lies.get("offset_delta", self.offset_delta)),
            _field(self.key, lies.get("key_length")),
            _field(self.value, lies.get("value_length")),
            encode_zigzag(lies.get("header_count", len(self.headers))),
        ]
        for name, value in self.headers:
            pieces += (_field(name, lies.get("header_name_length")), _field(value, lies.get("header_value_length")))
        body = b"".join(pieces) + self.tail
        return encode_zigzag(lies.get("length", len(body))) + body


def _field(content: bytes | None, length: int | None) -> bytes:
    true = -1 if content is None else len(content)
    return encode_zigzag(true if length is None else length) + (content or b"")


RECORD_LIES = {
    "length": ODD_INTS,
    "attributes": (1, 0x80, 0xFF),
    "timestamp_delta": ODD_LONGS,
    "offset_delta": (*ODD_INTS, 2),
    "key_length": ODD_INTS,
    "value_length": ODD_INTS,
    "header_count": ODD_INTS,
    "header_name_length": ODD_INTS,
    "header_value_length": ODD_INTS,
}
HEADER_LIES = {
    "base_offset": ODD_LONGS,
    "length": ODD_INTS,
    "leader_epoch": ODD_INTS,
    "magic": (-1, 0, 1, 3, 127),
    "attributes": (0x08, 0x10, 0x20, 0x28, 0x40, 0x80, 0x100, 0x7F00, 0x05, 0x06, 0x07, -1),
    "last_offset_delta": ODD_INTS,
    "base_timestamp": ODD_LONGS,
    "max_timestamp": (*ODD_LONGS, NOW - 10**9),
    "producer_id": (-(2**63), -2, -1, OWN_PRODUCER, LAST_PRODUCER),
    "producer_epoch": ODD_SHORTS,
    "base_sequence": ODD_INTS,
    "count": ODD_INTS,
}
STREAM_FAULTS = ("flipped byte", "cut", "bytes behind", "noise", "second stream", "plain", "other codec")


def _packed(codec: Codec, body: bytes) -> bytes:
    """Compress as when the verdicts were recorded: LZ4's default level has another frame since, with other bytes."""
    return compress(codec, body, level=1 if codec is Codec.LZ4 else None)


class HostileBatches:
    """Makes cases from a seed, always the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def take(self, count: int) -> Iterator[HostileBatch]:
        """Make `count` cases: one in eight of an old format, one in twelve without a fault."""
        for number in range(count):
            if self._random.random() < 0.125:
                yield self._message_set(number)
            else:
                yield self._batch(number)

    # -- magic 2

    def _batch(self, number: int) -> HostileBatch:
        chance = self._random
        codec = chance.choice(tuple(Codec))
        header: dict[str, int] = {}
        records = self._records()
        faults: list[str] = []
        stream_fault = None
        for _ in range(chance.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2))):
            kind = chance.choice(("header", "header", "record", "record", "count", "offsets", "stream", "bytes"))
            if kind == "header":
                name = chance.choice(tuple(HEADER_LIES))
                header[name] = chance.choice(HEADER_LIES[name])
                faults.append(f"header {name} {header[name]}")
            elif kind == "record":
                name = chance.choice(tuple(RECORD_LIES))
                index = chance.randrange(len(records))
                records[index].lies[name] = chance.choice(RECORD_LIES[name])
                faults.append(f"record {name} {records[index].lies[name]}")
            elif kind == "count":
                header["count"] = max(1, len(records) + chance.choice((-1, 1, 2)))
                header["last_offset_delta"] = header["count"] - 1
                faults.append("count and offsets that agree, but not with the records")
            elif kind == "offsets":
                for record, delta in zip(records, chance.choice(((0, 5, 2), (0, 0, 0), (3, 4, 5))), strict=False):
                    record.lies["offset_delta"] = delta
                faults.append("offset deltas that do not count from 0")
            elif kind == "stream" and codec:
                stream_fault = chance.choice(STREAM_FAULTS)
                faults.append(f"stream: {stream_fault}")
            else:
                record = chance.choice(records)
                record.tail = chance.randbytes(chance.randint(1, 4))
                faults.append("bytes behind a record's fields")
        body = b"".join(record.encode() for record in records)
        if chance.random() < 0.05:
            body += chance.randbytes(chance.randint(1, 8))
            faults.append("bytes behind the records")
        packed = _packed(codec, body) if stream_fault is None else self._spoiled(codec, body, stream_fault)
        return self._sealed(number, codec, records, header, packed, faults)

    def _records(self) -> list[RecordModel]:
        chance = self._random
        late = 0
        records = []
        for index in range(chance.choice((1, 1, 2, 3, 3, 5, 70))):
            late += chance.choice((0, 0, 1, 100, 20_000))
            key = chance.choice((None, b"", b"key", chance.randbytes(chance.choice((70, 300)))))
            value = chance.choice((None, b"", b"value", chance.randbytes(chance.choice((64, 200, 9000)))))
            record = RecordModel(late, index, key, value)
            for _ in range(chance.choice((0, 0, 0, 1, 2))):
                record.headers.append((chance.choice((b"", b"name")), chance.choice((None, b"", b"text"))))
            records.append(record)
        return records

    def _spoiled(self, codec: Codec, body: bytes, fault: str) -> bytes:
        chance = self._random
        packed = bytearray(_packed(codec, body))
        match fault:
            case "flipped byte":
                packed[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
            case "cut":
                del packed[chance.randrange(len(packed)) :]
            case "bytes behind":
                packed += chance.choice((chance.randbytes(chance.randint(1, 12)), bytes(chance.randint(1, 12))))
            case "noise":
                packed[:] = chance.randbytes(chance.randint(0, 100))
            case "second stream":
                packed += _packed(codec, chance.choice((b"", body, b"x")))
            case "plain":
                packed[:] = body
            case _:
                packed[:] = _packed(chance.choice(tuple(Codec)[1:]), body)
        return bytes(packed)

    def _sealed(
        self,
        number: int,
        codec: Codec,
        records: list[RecordModel],
        header: dict[str, int],
        packed: bytes,
        faults: list[str],
    ) -> HostileBatch:
        """Put the header before the records, with the checksum that belongs to both unless that is the fault."""
        chance = self._random
        has_producer = chance.random() < 0.2 or "producer_epoch" in header or "base_sequence" in header
        true = {
            "base_offset": 0,
            "length": HEADER.size - 12 + len(packed),
            "leader_epoch": -1,
            "magic": 2,
            "crc": 0,
            "attributes": int(codec),
            "last_offset_delta": len(records) - 1,
            "base_timestamp": NOW,
            "max_timestamp": NOW + records[-1].timestamp_delta,
            "producer_id": 1_000_000 + number if has_producer else -1,
            "producer_epoch": 0 if has_producer else -1,
            "base_sequence": 0 if has_producer else -1,
            "count": len(records),
        }
        if 0 <= header.get("attributes", -1) <= 0x100 and not header["attributes"] & 7:
            header["attributes"] |= codec
        if header.get("producer_id") in (OWN_PRODUCER, LAST_PRODUCER):
            header["producer_id"] = abs(header["producer_id"] - number)
        fields = true | header
        data = bytearray(HEADER.pack(*(fields[name] for name in HEADER_FIELDS)) + packed)
        if chance.random() < 0.04:
            data[chance.randrange(21, len(data))] ^= 1 << chance.randrange(8)
            faults.append("flipped bit under the checksum")
        data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
        if chance.random() < 0.02:
            data[17 + chance.randrange(4)] ^= 1
            faults.append("wrong checksum")
        tail = chance.random()
        if tail < 0.02:
            data += chance.randbytes(chance.randint(1, 30))
            faults.append("bytes behind the batch")
        elif tail < 0.03:
            data += bytes(data)
            faults.append("two batches")
        elif tail < 0.05:
            del data[chance.randrange(len(data)) :]
            faults.append("cut off")
        version = chance.choice((3, 6, 7, 8, 9, 11))
        return HostileBatch(number, tuple(faults), codec, version, bytes(data))

    # -- magic 0 and 1

    def _message_set(self, number: int) -> HostileBatch:
        chance = self._random
        magic = chance.randrange(2)
        codec = chance.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
        faults: list[str] = [f"magic {magic}"]
        count = chance.choice((1, 2, 3))
        lying = chance.randrange(count) if chance.random() < 0.6 else -1
        messages = []
        for index in range(count):
            lies = self._message_lies(faults) if index == lying else {}
            messages.append(_message(magic, lies, offset=index, key=chance.choice((None, b"key")), value=b"value"))
        body = b"".join(messages)
        if chance.random() < 0.1:
            body = body[: chance.randrange(len(body))] if chance.random() < 0.5 else body + chance.randbytes(20)
            faults.append("message set cut, or bytes behind it")
        if codec:
            outer = self._message_lies(faults) if chance.random() < 0.4 else {}
            packed = compress_lz4_magic_0(body) if (codec, magic) == (Codec.LZ4, 0) else _packed(codec, body)
            if chance.random() < 0.1:
                packed = self._spoiled(codec, body, fault := chance.choice(STREAM_FAULTS))
                faults.append(f"stream: {fault}")
            body = _message(magic, {"attributes": int(codec)} | outer, offset=count - 1, key=None, value=packed)
            if chance.random() < 0.05:
                body += body
                faults.append("two compressed messages")
        return HostileBatch(
            number, tuple(faults), codec, chance.randrange(2, 4) if magic else chance.randrange(3), body
        )

    def _message_lies(self, faults: list[str]) -> dict[str, int]:
        chance = self._random
        table = {
            "offset": ODD_LONGS,
            "size": (-1, 0, 13, 14, 21, 2**31 - 1),
            "crc": (0,),
            "magic": (-1, 0, 1, 2, 3),
            "attributes": (1, 2, 3, 4, 7, 8, 9, 0x80),
            "timestamp": ODD_LONGS,
            "key_length": ODD_INTS,
            "value_length": ODD_INTS,
        }
        name = chance.choice(tuple(table))
        value = chance.choice(table[name])
        faults.append(f"message {name} {value}")
        return {name: value}


def _message(magic: int, lies: dict[str, int], *, offset: int, key: bytes | None, value: bytes | None) -> bytes:
    """One message with the lies in it, and the checksum that belongs to them unless that is the lie."""
    body = struct.pack(">bB", lies.get("magic", magic), lies.get("attributes", 0))
    if magic:
        body += struct.pack(">q", lies.get("timestamp", NOW + offset))
    for name, content in (("key_length", key), ("value_length", value)):
        true = -1 if content is None else len(content)
        body += struct.pack(">i", lies.get(name, true)) + (content or b"")
    crc = lies.get("crc", zlib.crc32(body))
    return struct.pack(">qiI", lies.get("offset", offset), lies.get("size", len(body) + 4), crc) + body
