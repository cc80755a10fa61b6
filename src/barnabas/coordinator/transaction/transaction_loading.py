"""The loading of one partition of `__transaction_state`, in steps; transactions that were decided are completed.

Made by `broker.stages.transaction_coordinator_builder`, called by CoordinatorLoader on its thread; `drop` on any
thread. It owns no lock.

A record that cannot be read may hold the end of a transaction, which must not be decided otherwise: it ends the replay
with an error (decisions/0054). Keys of an unknown version are left out, as by Apache Kafka, which otherwise serves what
it has read up to the damage.
Kafka: TransactionStateManager (loadTransactionMetadata, loadTransactionsForTxnTopicPartition,
removeTransactionsForTxnTopicPartition).
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from barnabas.coordinator.runtime.coordinator_loader import LoadTimes, read_in_steps
from barnabas.coordinator.runtime.record import version_of
from barnabas.coordinator.transaction.marker_dispatch import EndedTransaction
from barnabas.coordinator.transaction.transaction_entry import TransactionEntry
from barnabas.coordinator.transaction.transaction_environment import TransactionEnvironment
from barnabas.coordinator.transaction.transaction_log import TransactionLogKey, decode_key, decode_value
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata
from barnabas.metadata.topic_name import TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import DecodeError
from barnabas.records.crc import crc32c
from barnabas.records.errors import CorruptRecord
from barnabas.records.memory_records import batch_at
from barnabas.records.record_batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL_MASK,
    is_whole_batch,
)
from barnabas.replica.partitions.partition import Partition
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND

if TYPE_CHECKING:
    from mypy_extensions import i64

logger: Final = logging.getLogger(__name__)

STEP_BATCHES: Final = 64
"""The usual batches of a step: some 100 microseconds."""
IDS_PER_STEP: Final = 20
"""The ids that are made of their records in one step."""
_SPECIAL: Final = CODEC_MASK | CONTROL_MASK | TRANSACTIONAL_MASK
_BRIEF: Final = struct.Struct(">qi4xbIh34xi")
"""Base offset, length, magic, checksum, attributes and count of a batch's header."""


class TransactionReplay:
    """The newest value of each key, of the batches that were taken in, in the order of the log. Pure.

    values: by key; decoded at the end, because a later record may replace them.
    """

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.record_count = 0

    def replay(self, buffer: bytes) -> Iterator[int]:
        """Take in the whole batches at the start of `buffer`, in steps; yield the offset behind those of each step.

        Raises CorruptRecord: a batch cannot be read, or claims no bytes.
        """
        position = 0
        while is_whole_batch(buffer, position):
            before = position
            position, next_offset = self._take_usual_batches(buffer, position)
            if position > before:
                yield next_offset
                continue
            batch = batch_at(buffer, position)
            if batch.end <= position:
                raise CorruptRecord(f"the batch at offset {batch.base_offset} claims no bytes")
            if not batch.is_control:
                try:
                    batch.check()
                    for record in batch.records():
                        self._take(record.key, record.value)
                except CorruptRecord as error:
                    raise CorruptRecord(f"the batch at offset {batch.base_offset}: {error}") from error
            position = batch.end
            yield batch.next_offset

    def _take_usual_batches(self, buffer: bytes, position: int) -> tuple[int, int]:
        """Take in a step's worth of batches as a coordinator writes them: of one record with a value, uncompressed.

        Stop before the first batch that is another, or damaged: the general way reads it, or says what is wrong. Return
        the position and the offset behind the batches; the same position when there was none.
        """
        next_offset = -1
        for _ in range(STEP_BATCHES):
            if len(buffer) - position < HEADER_SIZE:
                break
            header: tuple[int, int, int, int, int, int] = _BRIEF.unpack_from(buffer, position)
            base_offset, length, magic, crc, attributes, count = header
            end = position + LOG_OVERHEAD + length
            if magic != 2 or attributes & _SPECIAL or count != 1 or end > len(buffer):
                break
            covered = buffer[position + ATTRIBUTES_POSITION : end]
            record = _only_record(covered) if crc32c(covered) == crc else None
            if record is None:
                break
            self.values[record[0]] = record[1]
            self.record_count += 1
            position, next_offset = end, base_offset + 1
        return position, next_offset

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        self.record_count += 1
        if key is None:
            logger.warning("A record of the transaction log has no key: it is skipped")
        elif value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def metadata(self) -> Iterator[TransactionMetadata]:
        """Yield the metadata of each id. Raises CorruptRecord: a key or a value cannot be read."""
        for key, value in self.values.items():
            try:
                if version_of(key) > TransactionLogKey.max_version:
                    logger.warning("Unknown message key with version %d in the transaction log", version_of(key))
                    continue
                yield decode_value(decode_key(key), value)
            except (DecodeError, UnicodeDecodeError) as error:
                raise CorruptRecord(f"the record of the key {key!r}: {error}") from error


def _only_record(covered: bytes) -> tuple[bytes, bytes] | None:
    """Return key and value of the record that is alone in a batch, or None if it is not as a coordinator writes it.

    covered: what the batch's checksum covers. None: a tombstone, headers, numbers of more than two bytes, or not one
    record. In line, because a hundred thousand ids go through this function.
    """
    try:
        at: i64 = HEADER_SIZE - ATTRIBUTES_POSITION
        number: i64 = covered[at]
        at += 1
        if number > 0x7F:
            number = number & 0x7F | covered[at] << 7
            at += 1
        # Attributes and both deltas of an only record are 0: a byte each.
        if at + (number >> 1) != len(covered) or covered[at] or covered[at + 1] or covered[at + 2]:
            return None
        number = covered[at + 3]
        at += 4
        if number > 0x7F:
            number = number & 0x7F | covered[at] << 7
            at += 1
        key_end: i64 = at + (number >> 1)
        if number & 1:
            return None
        key = covered[at:key_end]
        number = covered[key_end]
        at = key_end + 1
        if number > 0x7F:
            number = number & 0x7F | covered[at] << 7
            at += 1
    except IndexError:
        return None
    # The record's length confirms the numbers: nothing is left of the record but a header count of 0.
    if number & 1 or at + (number >> 1) != len(covered) - 1 or covered[-1]:
        return None
    return key, covered[at:-1]


class TransactionLoading:
    """The loader of single partitions.

    partition_or_error: returns a hosted partition. send_markers: has the markers of an ended transaction written.
    """

    def __init__(
        self,
        environment: TransactionEnvironment,
        partition_or_error: Callable[[str, int], Partition],
        send_markers: Callable[[EndedTransaction], None],
    ) -> None:
        self._environment = environment
        self._partition_or_error = partition_or_error
        self._send_markers = send_markers
        self.load_times: deque[LoadTimes] = deque(maxlen=1024)
        """The newest last."""
        self.record_count = 0

    def load(self, partition: int, leader_epoch: int) -> Iterator[None]:
        """Load one partition, a step between two results.

        When the log cannot be read to its end the partition stays as it is, and its ids are answered
        COORDINATOR_LOAD_IN_PROGRESS: a transaction that was decided behind the damage must not be decided otherwise.
        """
        environment, partitions = self._environment, self._environment.partitions
        started_ns = environment.clock.nanoseconds()
        replay = TransactionReplay()
        entries: list[TransactionEntry] = []
        decided: list[TransactionEntry] = []
        try:
            log = self._partition_or_error(TRANSACTION_STATE_TOPIC, partition).log
            yield from read_in_steps(
                log,
                environment.config.load_buffer_bytes,
                lambda: partitions.is_loading_in(partition, leader_epoch),
                replay.replay,
            )
            for metadata in replay.metadata():
                entry = TransactionEntry(metadata, partition, leader_epoch)
                entries.append(entry)
                if metadata.is_decided:
                    decided.append(entry)
                if not len(entries) % IDS_PER_STEP:
                    yield
        except Exception:
            logger.exception(
                "Loading transactions from %s-%d failed: its transactional ids are not served. Restore the partition "
                "from another replica",
                TRANSACTION_STATE_TOPIC,
                partition,
            )
            return
        if not partitions.is_loading_in(partition, leader_epoch):
            return
        environment.table.add_loaded(entries)
        # The partition was given up meanwhile: `drop` may have missed these entries.
        if not partitions.end_loading(partition, leader_epoch):
            self._drop(entries)
            return
        self.record_count += replay.record_count
        self._note_time(partition, started_ns, replay.record_count, len(entries))
        self._resume(decided)

    def drop(self, partition: int) -> int:
        """Take the partition's ids out of the table; their markers are no longer sent."""
        return self._drop(self._environment.table.take_all(partition))

    def _drop(self, entries: list[TransactionEntry]) -> int:
        for entry in entries:
            with entry.lock:
                self._environment.table.remove(entry)
        return len(entries)

    def _resume(self, entries: list[TransactionEntry]) -> None:
        """Have the markers written of the transactions whose end was decided, unless that has changed meanwhile."""
        for entry in entries:
            with entry.lock:
                ended = EndedTransaction.of(entry) if entry.metadata.is_decided else None
            if ended is not None:
                self._send_markers(ended)

    def _note_time(self, partition: int, started_ns: int, record_count: int, id_count: int) -> None:
        ended_ns = self._environment.clock.nanoseconds()
        took_ms = (ended_ns - started_ns) // NANOSECONDS_PER_MILLISECOND
        self.load_times.append(LoadTimes(partition, took_ms, record_count, ended_ns))
        logger.info(
            "Loaded %d transactional ids from %s-%d in %d ms (%d records)",
            id_count,
            TRANSACTION_STATE_TOPIC,
            partition,
            took_ms,
            record_count,
        )
