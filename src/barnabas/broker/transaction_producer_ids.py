"""The producer ids of a stopped Kafka's transactional producers, read from its transaction log.

Used by `broker.log_adoption`: an id that a transactional producer will use again must not be given to another producer,
even when it has written nothing for so long that no partition remembers it. Stateless, so no lock. Kafka:
TransactionLogValue.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from barnabas.records.errors import CorruptRecord
from barnabas.runtime.files import Files
from barnabas.storage.directories.survey import NO_PRODUCER_ID, FoundPartition, batches_from

_VERSION_AND_PRODUCER_ID = struct.Struct(">hq")
"""The first fields of a value, in every version."""


def highest_transaction_producer_id(partitions: Iterable[FoundPartition], files: Files) -> int:
    """Return the highest producer id in the partitions of `__transaction_state`, -1 for none. Raises OSError."""
    highest = NO_PRODUCER_ID
    for found in partitions:
        for batch in batches_from(0, found.directory, files):
            if getattr(batch, "is_control", False):
                continue
            try:
                values = [record.value for record in batch.records()]
            except CorruptRecord:
                continue
            for value in values:
                if value is not None and len(value) >= _VERSION_AND_PRODUCER_ID.size:
                    highest = max(highest, _VERSION_AND_PRODUCER_ID.unpack_from(value)[1])
    return highest
