"""Kafka's UUIDs: 16 raw bytes in memory and on the wire, base64url without padding in text.

Pure functions. Kafka: org.apache.kafka.common.Uuid. Callers who need repeatable ids pass their own Random.
"""

from __future__ import annotations

import base64
import binascii
import random
from typing import Final

ZERO_UUID: Final = bytes(16)
# Kafka keeps 0 and 1 for itself (ONE_UUID was the id of the metadata topic).
_RESERVED: Final = frozenset({ZERO_UUID, bytes(15) + b"\x01"})
_system_random = random.SystemRandom()


def random_uuid(source: random.Random = _system_random) -> bytes:
    """Make a random (version 4) UUID: 16 bytes, never a reserved one, whose text never begins with a dash.

    Kafka refuses the dash so that ids can be given on a command line.
    """
    while True:
        raw = bytearray(source.randbytes(16))
        # Version 4 and variant 1 of RFC 4122, as java.util.UUID.randomUUID sets them.
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        made = bytes(raw)
        if made not in _RESERVED and not uuid_to_string(made).startswith("-"):
            return made


def uuid_to_string(uuid: bytes) -> str:
    """Write 16 bytes as Kafka does: 22 characters of base64url."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def random_java_uuid() -> str:
    """Return a random UUID as java.util.UUID writes it, in hex digits: Kafka's ids of classic members end with one."""
    digits = random_uuid().hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def uuid_from_string(text: str) -> bytes:
    """Read what `uuid_to_string` wrote. Raises ValueError when it isn't the text of 16 bytes."""
    # 16 bytes are 22 characters, or 24 with padding. Kafka checks the length before it decodes.
    if len(text) > 24:
        raise ValueError(f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID")
    try:
        raw = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"Input string `{text}` is not a base64 UUID") from error
    if len(raw) != 16:
        raise ValueError(
            f"Input string `{text}` decoded as {len(raw)} bytes, which is not equal to the expected 16 bytes"
        )
    return raw
