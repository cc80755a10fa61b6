"""Batches of format v2 as an encoder leaves them, and the producer state and checksum that they are sent with.

The encoder of tables makes them. The idempotent producer writes its id and the sequence numbers into the header just
before it sends a batch, long after encoding it, and again when its own id changes. The checksum covers both: so the
checksum is computed then, once, over all bytes. Pure.

Kafka: MemoryRecordsBuilder.setProducerState.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from barnabas.records.compression import Buffer
from barnabas.records.crc import crc32c
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    PRODUCER_ID_POSITION,
    TRANSACTIONAL_MASK,
)

_PRODUCER_STATE = struct.Struct(">qhi")


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


def with_producer_state(
    batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool = False
) -> bytes:
    """Return a copy of the batch with this producer state and a new checksum; part of a transaction, or as it was."""
    # Producer id, epoch and base sequence lie side by side in the header, and the checksum covers all three.
    header = bytearray(batch[:HEADER_SIZE])
    _PRODUCER_STATE.pack_into(header, PRODUCER_ID_POSITION, producer_id, producer_epoch, base_sequence)
    if is_transactional:
        header[ATTRIBUTES_POSITION + 1] |= TRANSACTIONAL_MASK
    return sealed(header, memoryview(batch)[HEADER_SIZE:])
