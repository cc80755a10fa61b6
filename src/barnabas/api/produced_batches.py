"""The demands of each version of Produce on the bytes it carries, checked before a log looks at them. Pure.

Called by the Produce handler for each partition, on the network thread or a handler's. From v3 on a partition's bytes
are exactly one whole batch of magic 2; what lies in the batch is for the log's validation.
Kafka: ProduceRequest.validateRecords, ByteBufferLogInputStream.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import LOG_OVERHEAD, MAGIC_POSITION, TRANSACTIONAL_MASK, BatchHeader

SMALLEST_BATCH: Final = 14
"""The smallest length that a batch of any format may claim."""
FIRST_VERSION_OF_BATCHES: Final = 3
FIRST_VERSION_OF_ZSTD: Final = 7


def refused_batch(
    version: int, records: Any, header: BatchHeader | None, transactional_id: str | None = None
) -> ApiError | None:
    """Return why the records of a partition are refused, or None when they may go to the log.

    header: that of `records`, None when they do not begin with one of magic 2. Raises ApiError:
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transactional batch in a request without a transactional id.
    """
    if (
        header is not None
        and header.length == len(records)
        and version >= FIRST_VERSION_OF_ZSTD
        and not header.attributes & TRANSACTIONAL_MASK
    ):
        return None
    # Message sets of old formats are several messages, and are converted by the log's validation.
    if version < FIRST_VERSION_OF_BATCHES:
        return None if records is not None else ApiError(ErrorCode.CORRUPT_MESSAGE, "the request holds no records")
    try:
        if records is None or _whole_batch_size(records) is None:
            return _no_batch(version)
        # What remains is a message of magic 0 or 1, which versions from v3 on must not carry.
        if header is None:
            return _only(version, "record batches with magic version 2")
        if header.is_transactional and transactional_id is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if version < FIRST_VERSION_OF_ZSTD and header.codec_id == Codec.ZSTD:
            text = f"Produce requests with version {version} are not allowed to use ZStandard compression"
            return ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
        if _whole_batch_size(records[header.length :]) is not None:
            return _only(version, "exactly one record batch per partition")
    except CorruptRecord as error:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, str(error))
    return None


def _whole_batch_size(records: Any) -> int | None:
    """Return the size of the batch at the start, or None when the batch is not all there.

    Raises CorruptRecord when the bytes begin no batch of any format.
    """
    available = len(records)
    if available < LOG_OVERHEAD:
        return None
    length = int.from_bytes(records[8:LOG_OVERHEAD], "big", signed=True)
    if length < SMALLEST_BATCH:
        raise CorruptRecord(f"Record size {length} is less than the minimum record overhead ({SMALLEST_BATCH})")
    if available <= MAGIC_POSITION:
        return None
    # Only formats 0 to 2 exist. Kafka reads the byte as a signed one.
    magic = records[MAGIC_POSITION]
    if magic > 2:
        raise CorruptRecord(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
    return length + LOG_OVERHEAD if length <= available - LOG_OVERHEAD else None


def _no_batch(version: int) -> ApiError:
    text = f"Produce requests with version {version} must have at least one record batch per partition"
    return ApiError(ErrorCode.INVALID_RECORD, text)


def _only(version: int, what: str) -> ApiError:
    text = f"Produce requests with version {version} are only allowed to contain {what}"
    return ApiError(ErrorCode.INVALID_RECORD, text)
