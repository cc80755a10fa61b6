"""What the records package raises on bytes it cannot accept. Used by everything that reads batches; no state."""

from __future__ import annotations


class CorruptRecord(Exception):
    """The bytes are no valid batch: short, lying about a length or a count, wrong checksum, undecodable codec.

    It is the only exception that reading arbitrary bytes raises (Kafka: CorruptRecordException, error code 2).
    """


class UnsupportedCodec(Exception):
    """The target format cannot carry this codec: zstd in a message set (Kafka: UnsupportedCompressionTypeException)."""


class InvalidMessageSet(CorruptRecord):
    """A message set of magic 0 or 1 that can be read, and breaks a rule (Kafka: InvalidRecordException, code 87)."""


class DecompressedTooLarge(CorruptRecord):
    """The data decompresses to more than the caller allows."""
