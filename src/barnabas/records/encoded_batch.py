"""Batches of format v2 as an encoder leaves them for the producer: without a producer id and without a checksum.

The encoder of tables makes them. The idempotent producer writes its id and the sequence numbers into the header just
before it sends a batch, and the checksum covers both: so the checksum is computed then, once, over all bytes. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.records.batch_header import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_SIZE
from barnabas.records.compression import Buffer
from barnabas.records.crc import crc32c


class EncodedBatch(NamedTuple):
    """One batch with offsets from 0 and no producer id. `unsealed`: its bytes, with 0 for the checksum."""

    unsealed: bytes
    record_count: int

    @property
    def size(self) -> int:
        """The batch's bytes."""
        return len(self.unsealed)

    @property
    def data(self) -> bytes:
        """A copy with the checksum: a batch that any broker takes."""
        return with_checksum(self.unsealed)


def with_checksum(batch: bytes) -> bytes:
    """Return a copy of the batch with the checksum of its bytes."""
    return sealed(bytearray(batch[:HEADER_SIZE]), memoryview(batch)[HEADER_SIZE:])


def sealed(header: bytearray, records: Buffer) -> bytes:
    """Return the batch of this header and these records. Writes the checksum into the header."""
    # The checksum goes on from the header to the records: they are copied once, by the join.
    crc = crc32c(records, crc32c(header[ATTRIBUTES_POSITION:]))
    header[CRC_POSITION:ATTRIBUTES_POSITION] = crc.to_bytes(4, "big")
    return b"".join((header, records))
