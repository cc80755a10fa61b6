"""Random messages of any class and version, and the list of all of them.

Used by the differential and fuzz tests of this directory. Values stay within what the oracles can represent: known
error codes, times that fit their date types.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.message_index import MESSAGES, request_class, response_class
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message
from barnabas.protocol.schema import FieldSchema, WireType

_RANGES = {
    WireType.INT8: (-(2**7), 2**7 - 1),
    WireType.INT16: (-(2**15), 2**15 - 1),
    WireType.INT32: (-(2**31), 2**31 - 1),
    WireType.INT64: (-(2**63), 2**63 - 1),
    WireType.UINT16: (0, 2**16 - 1),
    WireType.UINT32: (0, 2**32 - 1),
}
_STRINGS = ("", "x", "topic-\N{LATIN SMALL LETTER E WITH ACUTE}", "y" * 126, "z" * 127, "w" * 300)
_TIME_WORDS = ("time", "_ms", "period")
_ERROR_CODES = [int(code) for code in ErrorCode if code <= ErrorCode.VOTER_NOT_FOUND]  # the last of 3.9


def all_versions(*, requests_only: bool = False) -> Iterator[tuple[type[Message], int]]:
    """Every message class with every version of it."""
    for api_key in MESSAGES:
        for message in (
            (request_class(api_key),) if requests_only else (request_class(api_key), response_class(api_key))
        ):
            for version in range(message.min_version, message.max_version + 1):
                yield message, version


class RandomMessages:
    """Makes messages from a seeded source."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def make(self, struct: type[Struct], version: int) -> Any:
        """A message, or struct of one, in which every field that the version lacks has its default."""
        values = {}
        for field in struct.field_schemas():
            if not field.is_present(version):
                continue
            if field.is_tagged(version) and self._random.random() < 0.4:
                continue
            values[field.name] = self._value(field, version)
        return struct(**values)

    def _value(self, field: FieldSchema, version: int) -> Any:
        if field.is_nullable(version) and self._random.random() < 0.3:
            return None
        if not field.is_array:
            return self._single(field, version)
        longest = 130 if field.wire_type is not WireType.STRUCT and self._random.random() < 0.05 else 3
        return [self._single(field, version) for _ in range(self._random.choice((0, 1, 2, longest)))]

    def _single(self, field: FieldSchema, version: int) -> Any:
        chance = self._random
        wire_type = field.wire_type
        if field.struct is not None:
            return self.make(field.struct, version)
        if wire_type in _RANGES:
            return self._integer(field)
        if wire_type is WireType.BOOL:
            return chance.random() < 0.5
        if wire_type is WireType.FLOAT64:
            return chance.random() * 1e9
        if wire_type is WireType.STRING:
            return chance.choice(_STRINGS)
        if wire_type is WireType.UUID:
            return chance.randbytes(16)
        return chance.randbytes(chance.choice((0, 5, 127, 300)))

    def _integer(self, field: FieldSchema) -> int:
        chance = self._random
        if field.wire_type is WireType.INT16 and "error" in field.name:
            return chance.choice(_ERROR_CODES)
        if any(word in field.name for word in _TIME_WORDS):
            if field.wire_type is WireType.INT64 and "period" not in field.name:
                return chance.randrange(4 * 10**12)
            if field.wire_type in {WireType.INT32, WireType.INT64}:
                return chance.randrange(2**31)
        lowest, highest = _RANGES[field.wire_type]
        return chance.choice((0, 1, chance.randint(lowest, highest)))


def encoded(message: Message, version: int) -> bytes:
    """The message's body as one bytes object."""
    return b"".join(bytes(piece) for piece in message.encode(version))
