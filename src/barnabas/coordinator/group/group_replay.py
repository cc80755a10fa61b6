"""What the records of one partition of `__consumer_offsets` add up to.

Fed by `GroupLoader`, batch by batch in the order of the log, in small steps; owned by it. Of every committed offset the
newest value is kept as it lies in the log, of every other key the newest record: nothing is decoded that a later record
may replace. Offsets of open transactions wait for their marker. Pure.

Kafka: GroupMetadataManager.doLoadGroupsAndOffsets.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.coordinator.group.group_offsets import TransactionalOffsets
from barnabas.coordinator.group.group_records import (
    OFFSET_KINDS,
    OffsetCommitValue,
    is_readable_offset,
    version_of,
)
from barnabas.protocol.errors import DecodeError
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.memory_records import batch_at
from barnabas.records.record_batch import (
    CODEC_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    TRANSACTIONAL_MASK,
    RecordBatch,
    is_whole_batch,
)
from barnabas.records.varint import decode_zigzag

logger = logging.getLogger(__name__)

STEP_RECORDS: Final = 64
"""So many records a step: some 80 microseconds."""
_SPECIAL: Final = CODEC_MASK | CONTROL_MASK | TRANSACTIONAL_MASK
_BRIEF: Final = struct.Struct(">qi4xb4xhi30xi")
"""Base offset, length, magic, attributes, last offset delta and count of a batch's header."""
_LAST_OFFSET_KIND: Final = OFFSET_KINDS[-1]
_LAST_VALUE_VERSION: Final = OffsetCommitValue.max_version

OffsetsByTopic = dict[str, dict[int, bytes]]


class _OpenCommit(NamedTuple):
    """An offset committed inside a transaction."""

    position: int
    value: bytes


class PartitionReplay:
    """groups: committed offsets by group id (encoded), topic and partition. others: all other records, by key."""

    def __init__(self) -> None:
        self.groups: dict[bytes, OffsetsByTopic] = {}
        self.others: dict[bytes, bytes] = {}
        self.record_count = 0
        self._topics: dict[bytes, str] = {}
        self._open: dict[int, dict[bytes, dict[tuple[str, int], _OpenCommit | None]]] = {}
        """By producer id and group; None once a plain commit came later."""

    def transactional(self) -> dict[bytes, dict[int, TransactionalOffsets]]:
        """What is committed inside transactions that are still open, by group and producer id."""
        found: dict[bytes, dict[int, TransactionalOffsets]] = {}
        for producer_id, by_group in self._open.items():
            for group, commits in by_group.items():
                found.setdefault(group, {})[producer_id] = {
                    key: (-1, None) if commit is None else (commit.position, commit.value)
                    for key, commit in commits.items()
                }
        return found

    def replay(self, buffer: bytes) -> Iterator[int]:
        """Take in the whole batches at the start of `buffer`, a step between two results.

        Yields the offset behind the last batch that was taken in, -1 before there is one. A batch that cannot be read
        is logged and left out: it was checked when it was written, and the others are no worse for it.
        """
        position, end, next_offset, since_step = 0, 0, -1, 0
        while is_whole_batch(buffer, position):
            try:
                if buffer[position + MAGIC_POSITION] == 2:
                    base_offset, length, _, attributes, last_delta, count = _BRIEF.unpack_from(buffer, position)
                    end = position + LOG_OVERHEAD + length
                    next_offset = base_offset + last_delta + 1
                    body, start, producer_id = buffer, position + HEADER_SIZE, NO_PRODUCER_ID
                    if attributes & _SPECIAL:
                        batch = RecordBatch(buffer, position)
                        if batch.is_control:
                            self._end_transaction(batch)
                            count = 0
                        else:
                            body, start = batch.decompressed_records(), 0
                            producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
                    while count > 0:
                        some = min(count, STEP_RECORDS)
                        start = self._take(body, start, some, base_offset, producer_id)
                        count -= some
                        since_step += some
                        if since_step >= STEP_RECORDS:
                            since_step = 0
                            yield -1
                else:
                    legacy = batch_at(buffer, position)
                    end, next_offset = legacy.end, legacy.next_offset
                    for record in legacy.records():
                        self._take_record(record.key or b"", record.value, record.offset, NO_PRODUCER_ID)
                    yield -1
            except (CorruptRecord, DecodeError, IndexError, UnicodeDecodeError):
                logger.exception("A batch of committed offsets at byte %d of what was read cannot be read", position)
            if end <= position:
                raise CorruptRecord("a batch without a size")
            position = end
        yield next_offset

    def _take(self, body: bytes, position: int, count: int, base_offset: int, producer_id: int) -> int:  # noqa: PLR0912
        """Take in `count` records that begin at `position`; returns where the next one begins.

        One function, because a million records go through it; numbers of one byte are read in line.
        """
        plain = producer_id == NO_PRODUCER_ID and not self._open
        groups, topics = self.groups, self._topics
        self.record_count += count
        for _ in range(count):
            size = body[position]
            if size < 0x80:
                position += 1
                size >>= 1
            else:
                size, position = decode_zigzag(body, position)
            end = position + size
            position += 1
            while body[position] >= 0x80:  # time stamp
                position += 1
            offset_delta = body[position + 1]
            if offset_delta < 0x80:
                position += 2
                offset_delta >>= 1
            else:
                offset_delta, position = decode_zigzag(body, position + 1)
            size = body[position]
            if size < 0x80:
                position += 1
                size >>= 1
            else:
                size, position = decode_zigzag(body, position)
            key = body[position : position + size]
            position += size
            size = body[position]
            if size < 0x80:
                position += 1
                size = -1 if size & 1 else size >> 1
            else:
                size, position = decode_zigzag(body, position)
            value = None if size < 0 else body[position : position + size]
            position = end
            if plain and value is not None and not key[0] and key[1] <= _LAST_OFFSET_KIND:
                group_end = 4 + (key[2] << 8 | key[3])
                group = key[4:group_end]
                name = key[group_end + 2 : -4]
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = name.decode()
                if value[0] or value[1] > _LAST_VALUE_VERSION:
                    raise DecodeError(f"the value of a committed offset has version {value[0] << 8 | value[1]}")
                by_topic = groups.get(group)
                if by_topic is None:
                    by_topic = groups[group] = {}
                by_partition = by_topic.get(topic)
                if by_partition is None:
                    by_topic[topic] = {int.from_bytes(key[-4:], "big"): value}
                else:
                    by_partition[int.from_bytes(key[-4:], "big")] = value
            else:
                self._take_record(key, value, base_offset + offset_delta, producer_id)
        return position

    def _take_record(self, key: bytes, value: bytes | None, position: int, producer_id: int) -> None:
        """Take in one record of any kind."""
        kind = version_of(key)
        if kind not in OFFSET_KINDS:
            if value is None:
                self.others.pop(key, None)
            else:
                self.others[key] = value
            return
        group_end = 4 + int.from_bytes(key[2:4], "big")
        group, name = key[4:group_end], key[group_end + 2 : -4]
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = name.decode()
        partition = int.from_bytes(key[-4:], "big")
        if value is not None and not is_readable_offset(value):
            raise DecodeError(f"the value of a committed offset has version {version_of(value)}")
        if producer_id != NO_PRODUCER_ID and value is not None:
            commits = self._open.setdefault(producer_id, {}).setdefault(group, {})
            commits[topic, partition] = _OpenCommit(position, value)
            return
        for by_group in self._open.values():
            open_commits = by_group.get(group)
            if open_commits is not None and (topic, partition) in open_commits:
                if value is None:
                    del open_commits[topic, partition]
                else:
                    open_commits[topic, partition] = None
        if value is not None:
            self.groups.setdefault(group, {}).setdefault(topic, {})[partition] = value
            return
        by_topic = self.groups.get(group, {})
        by_partition = by_topic.get(topic, {})
        if by_partition.pop(partition, None) is not None and not by_partition:
            del by_topic[topic]
            if not by_topic:
                del self.groups[group]

    def _end_transaction(self, batch: RecordBatch) -> None:
        """A transaction has ended: what it committed counts, unless a plain commit came later."""
        marker = EndTransactionMarker.of(batch)
        by_group = self._open.pop(batch.producer_id, {})
        if marker is None or marker.is_abort:
            return
        for group, commits in by_group.items():
            for (topic, partition), commit in commits.items():
                if commit is not None:
                    self._take_record(_key_of(group, topic, partition), commit.value, commit.position, NO_PRODUCER_ID)


def _key_of(group: bytes, topic: str, partition: int) -> bytes:
    name = topic.encode()
    return b"".join(
        (
            b"\x00\x01",
            len(group).to_bytes(2, "big"),
            group,
            len(name).to_bytes(2, "big"),
            name,
            partition.to_bytes(4, "big"),
        )
    )
