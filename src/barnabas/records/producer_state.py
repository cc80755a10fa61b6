"""Stamps producer id, epoch and sequence on an encoded v2 batch. Pure.

The idempotent producer calls it when it sends a batch, long after encoding it, and again when its own id changes.
Kafka: MemoryRecordsBuilder.setProducerState.
"""

from __future__ import annotations

import struct

from barnabas.records.batch_header import ATTRIBUTES_POSITION, HEADER_SIZE, PRODUCER_ID_POSITION, TRANSACTIONAL_MASK
from barnabas.records.encoded_batch import sealed

_STATE = struct.Struct(">qhi")


def with_producer_state(
    batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool = False
) -> bytes:
    """Return a copy of the batch with this producer state and a new checksum; part of a transaction, or as it was."""
    # Producer id, epoch and base sequence lie side by side in the header, and the checksum covers all three.
    header = bytearray(batch[:HEADER_SIZE])
    _STATE.pack_into(header, PRODUCER_ID_POSITION, producer_id, producer_epoch, base_sequence)
    if is_transactional:
        header[ATTRIBUTES_POSITION + 1] |= TRANSACTIONAL_MASK
    return sealed(header, memoryview(batch)[HEADER_SIZE:])
