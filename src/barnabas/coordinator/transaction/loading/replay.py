"""The newest record of each transactional id in one partition of `__transaction_state`.

Owned by TransactionLoading, which feeds a replay batch by batch in the order of the log. Values are decoded at the end,
because a later record may replace them.

A record that cannot be read may hold the end of a transaction, which must not be decided otherwise: it ends the replay
with an error (decisions/0054). Keys of an unknown version are left out, as by Apache Kafka, which otherwise serves what
it has read up to the damage. Pure. Kafka: TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from barnabas.coordinator.runtime.record import version_of
from barnabas.coordinator.transaction.log.schemas import TransactionLogKey, decode_key, decode_value
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.protocol.errors import DecodeError
from barnabas.records.errors import CorruptRecord
from barnabas.records.memory_records import batch_at
from barnabas.records.record_batch import is_whole_batch

logger = logging.getLogger(__name__)

STEP_RECORDS: Final = 64


class TransactionReplay:
    """The newest value of each key."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self.record_count = 0

    def replay(self, buffer: bytes) -> Iterator[int]:
        """Take in the whole batches at the start of `buffer`; yield the offset behind each.

        Raises CorruptRecord: a batch cannot be read, or claims no bytes.
        """
        position = 0
        while is_whole_batch(buffer, position):
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

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        self.record_count += 1
        if key is None:
            logger.warning("A record of the transaction log has no key: it is skipped")
        elif value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def metadata(self) -> Iterator[TransactionMetadata]:
        """Yield the metadata of each id. Raises CorruptRecord: a key or a value cannot be read."""
        for key, value in self._values.items():
            try:
                if version_of(key) > TransactionLogKey.max_version:
                    logger.warning("Unknown message key with version %d in the transaction log", version_of(key))
                    continue
                yield decode_value(decode_key(key), value)
            except (DecodeError, UnicodeDecodeError) as error:
                raise CorruptRecord(f"the record of the key {key!r}: {error}") from error
