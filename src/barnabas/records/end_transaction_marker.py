"""The control record that ends a producer's transaction in a partition, with an abort or a commit. Pure.

Partition leaders write it for the transaction coordinator; the log and consumers read it. The key is two 16-bit
numbers, version and type (0 abort, 1 commit); the value is a 16-bit version and the 32-bit coordinator epoch. Later
versions may append fields to both, so a reader takes longer ones.
Kafka: EndTransactionMarker, ControlRecordType.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import ControlRecord, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder

ABORT = 0
COMMIT = 1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class EndTransactionMarker(NamedTuple):
    """The end of a transaction. timestamp: the record's, in milliseconds; coordinator_epoch fences old coordinators."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int

    @classmethod
    def of(cls, batch: RecordBatch) -> EndTransactionMarker | None:
        """Return the marker in a control batch, or None when the cleaner has emptied the batch.

        Raises CorruptRecord when the batch holds another record than such a marker.
        """
        # A control batch holds one record: brokers write it alone, since it ends the transaction of one producer.
        record = next(batch.records(), None)
        if record is None:
            return None
        kind = ControlRecord.parse(record.key)
        if kind.version < 0 or kind.type not in (ABORT, COMMIT):
            raise CorruptRecord(f"Invalid control record type for end transaction marker: {kind}")
        if record.value is None or len(record.value) < _VALUE.size:
            raise CorruptRecord(
                f"Invalid value size found for end transaction marker. Must have at least {_VALUE.size} bytes, but"
                f" found only {len(record.value or b'')}"
            )
        version, coordinator_epoch = _VALUE.unpack_from(record.value)
        if version < 0:
            raise CorruptRecord(f"Invalid version found for end transaction marker: {version}")
        return cls(kind.type == ABORT, coordinator_epoch, record.timestamp)

    def batch(self, producer_id: int, producer_epoch: int) -> bytes:
        """Return the control batch that ends the transaction of this producer."""
        builder = RecordBatchBuilder(
            producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
        )
        key = _KEY.pack(0, ABORT if self.is_abort else COMMIT)
        builder.append(self.timestamp, key, _VALUE.pack(0, self.coordinator_epoch))
        return builder.build()
