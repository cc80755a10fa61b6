"""The records of a commit of offsets, encoded before the group's lock is taken: that is most of a commit's work. Pure.

Used by the services of plain and of transactional commits, on the thread of the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.coordinator.group.committed_offsets import NewOffset
from barnabas.coordinator.group.log.schemas import (
    LAST_TIMESTAMP,
    LONGEST_STRING,
    NO_TIMESTAMP,
    offset_key,
    offset_key_prefix,
    offset_value,
)
from barnabas.coordinator.group.offsets.terms import CommitTerms, OffsetToCommit
from barnabas.coordinator.runtime.record import KeyAndValue
from barnabas.protocol.errors import ErrorCode


class EncodedCommit(NamedTuple):
    """The offsets of a commit, and their records. too_large: the positions in the request of those left out."""

    new: list[NewOffset]
    records: list[KeyAndValue]
    too_large: list[int]

    def errors(self, error: ErrorCode) -> list[ErrorCode]:
        """Return the error of each offset of the request, if `error` is that of the append."""
        errors = [error] * len(self.new)
        # Positions ascend, so each insertion finds the ones before it in place.
        for position in self.too_large:
            errors.insert(position, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        return errors


def encode_commit(
    terms: CommitTerms, offsets: Sequence[OffsetToCommit], now_ms: int, max_metadata_size: int
) -> EncodedCommit:
    """Encode the offsets whose metadata is not too large. now_ms: the time of the commit."""
    prefix = offset_key_prefix(terms.group_id)
    # -1 alone is the broker's setting: with another negative number an offset has expired already, as in Kafka.
    expires_ms = NO_TIMESTAMP if terms.retention_ms == -1 else min(now_ms + terms.retention_ms, LAST_TIMESTAMP)
    new: list[NewOffset] = []
    records: list[KeyAndValue] = []
    too_large: list[int] = []
    for topic, partition, offset, leader_epoch, metadata, timestamp_ms in offsets:
        if metadata and _is_too_large(metadata, max_metadata_size):
            too_large.append(len(new) + len(too_large))
            continue
        committed_ms = now_ms if timestamp_ms == NO_TIMESTAMP else timestamp_ms
        value = offset_value(offset, leader_epoch, metadata, committed_ms, expires_ms)
        new.append(NewOffset(topic, partition, value))
        records.append((offset_key(prefix, topic.encode(), partition), value))
    return EncodedCommit(new, records, too_large)


def _is_too_large(metadata: str, limit: int) -> bool:
    """Return whether the text exceeds the limit (UTF-16 units, as in Kafka) or the 32767 bytes of a string."""
    size = len(metadata)
    if size > limit or size > LONGEST_STRING:
        return True
    if metadata.isascii():
        return False
    return len(metadata.encode("utf-16-le")) // 2 > limit or len(metadata.encode()) > LONGEST_STRING
