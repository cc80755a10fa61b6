"""Stamps producer id, epoch and sequence on an encoded v2 batch. Pure.

The idempotent producer calls it when it sends a batch, long after encoding it, and again when its own id changes.
Kafka: MemoryRecordsBuilder.setProducerState.
"""

from __future__ import annotations

import struct

from barnabas.records.crc import crc32c
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    PRODUCER_ID_POSITION,
    TRANSACTIONAL_MASK,
)

_STATE = struct.Struct(">qhi")


def with_producer_state(
    batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool = False
) -> bytes:
    """Return a copy of the batch with this producer state and a new checksum; part of a transaction, or as it was."""
    # Producer id, epoch and base sequence lie side by side in the header, and the checksum covers all three.
    changed = bytearray(batch)
    _STATE.pack_into(changed, PRODUCER_ID_POSITION, producer_id, producer_epoch, base_sequence)
    if is_transactional:
        changed[ATTRIBUTES_POSITION + 1] |= TRANSACTIONAL_MASK
    with memoryview(changed) as view, view[ATTRIBUTES_POSITION:] as covered:
        crc = crc32c(covered)
    changed[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return bytes(changed)
