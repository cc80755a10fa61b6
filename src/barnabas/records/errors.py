"""The errors of bytes that are no records. Raised by this package, caught wherever batches are read; no state."""

from __future__ import annotations


class CorruptRecord(Exception):
    """The bytes are no valid batch: cut off, with a wrong length, count or checksum, or not to be decompressed.

    Reading arbitrary bytes raises no other exception (Kafka: CorruptRecordException, error code 2).
    """


class UnsupportedCodec(Exception):
    """The target format cannot carry this codec: zstd in a message set (Kafka: UnsupportedCompressionTypeException)."""


class InvalidMessageSet(CorruptRecord):
    """A message set of magic 0 or 1 that can be read and breaks a rule (Kafka: InvalidRecordException, code 87)."""


class DecompressedTooLarge(CorruptRecord):
    """The data decompresses to more than the caller allows."""


class TooManyPieces(CorruptRecord):
    """The data have more compressed members or blocks than the caller allows."""
