"""The text of records of `__transaction_state`, in the words of Kafka's DumpLogSegments.

Called by `barnabas log dump --transaction-log-decoder` through the dump of a file. Pure.
Kafka: TransactionLog.formatRecordKeyAndValue.
"""

from __future__ import annotations

from barnabas.coordinator.runtime.record import version_of
from barnabas.coordinator.transaction.log.schemas import TransactionLogKey, decode_key, decode_value
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.protocol.errors import DecodeError
from barnabas.storage.dump.record_text import RecordText


def transaction_record_text(key: bytes | None, value: bytes | None) -> RecordText:
    """Return the text of a record. Raises DecodeError, UnicodeDecodeError when it is malformed."""
    if key is None:
        raise DecodeError("a record of the transaction log needs a key")
    version = version_of(key)
    if not TransactionLogKey.min_version <= version <= TransactionLogKey.max_version:
        return RecordText(f"unknown::version={version}", None)
    transactional_id = decode_key(key)
    payload = "<DELETE>" if value is None else _metadata_text(decode_value(transactional_id, value))
    return RecordText(f"transaction_metadata::transactionalId={transactional_id}", payload)


def _metadata_text(metadata: TransactionMetadata) -> str:
    return (
        f"producerId:{metadata.producer_id},producerEpoch:{metadata.producer_epoch},state={metadata.state.shown_name},"
        f"partitions=[{','.join(map(str, sorted(metadata.partitions)))}],"
        f"txnLastUpdateTimestamp={metadata.updated_ms},txnTimeoutMs={metadata.timeout_ms}"
    )
