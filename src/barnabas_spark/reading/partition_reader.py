"""Reads a range of offsets of one partition: fetches, decodes, yields Arrow batches.

Called by both readers in the executors' Python workers, on the task's thread; the fetcher is the worker's own. No lock.

While one fetch is decoded, the next one is in flight.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from barnabas.clients.arrow import FetchedBatches, Wanted, record_batch_of
from barnabas.clients.calls.raw_fetcher import FetchedRecords, RawFetcher
from barnabas.clients.errors import ClientTimeout
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.columns import HEADERS
from barnabas_spark.options.source_options import SourceOptions, report_data_loss
from barnabas_spark.reading.client_cache import connections
from barnabas_spark.reading.offset_ranges import OffsetRange

logger = logging.getLogger(__name__)


class ReadFailed(Exception):
    """The broker rejects a fetch. The message has topic, partition and offset."""


class ReadTimeout(ReadFailed):
    """The broker has announced records, but does not send them, or is gone."""


def read_ranges(
    ranges: Sequence[OffsetRange], options: SourceOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of each range, one range after the other. Raises what `read_range` raises."""
    for each in ranges:
        yield from read_range(each, options, columns)


def read_range(each: OffsetRange, options: SourceOptions, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the records of the range, in order, as Arrow batches of `columns`.

    Raises DataLoss if a part of the range is gone and `failOnDataLoss` is on, CorruptRecord, ReadFailed.
    """
    fetcher = connections.fetcher(options)
    wanted = Wanted("key" in columns, "value" in columns, HEADERS in columns and options.include_headers is not False)
    offset = each.start
    progress_at = time.monotonic()
    while offset < each.end:
        fetched = _fetch(fetcher, each, offset, options)
        if fetched is None:
            offset = _after_data_loss(each, offset, options)
            continue
        batches = FetchedBatches(fetched.records, fetched.aborted)
        following = batches.next_offset
        if following is None:
            _check_progress(each, offset, fetched, progress_at, options)
            fetched.release()
            continue
        progress_at = time.monotonic()
        # Sent before this answer is decoded, so that the next one travels meanwhile.
        if following < each.end:
            fetcher.send_ahead(
                each.topic,
                each.partition,
                following,
                max_bytes=options.fetch.max_bytes,
                max_wait_ms=options.fetch.max_wait_ms,
            )
        for records in batches.decode(
            start_offset=offset, end_offset=each.end, wanted=wanted, verify_crc=options.fetch.check_crcs
        ):
            if len(records.offsets):
                yield record_batch_of(records, each.topic, each.partition, columns)
        # `batches` refers to the fetched buffer, which `release` gives back for the next fetch.
        del batches
        fetched.release()
        offset = following


def _fetch(fetcher: RawFetcher, each: OffsetRange, offset: int, options: SourceOptions) -> FetchedRecords | None:
    """Return the broker's records from `offset` on, or None if that offset is out of range. Raises ReadFailed."""
    try:
        return fetcher.fetch(
            each.topic, each.partition, offset, max_bytes=options.fetch.max_bytes, max_wait_ms=options.fetch.max_wait_ms
        )
    except ApiError as error:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        raise ReadFailed(f"{_place(each, offset)} cannot be read: {error}") from error
    except ClientTimeout as error:
        raise ReadTimeout(
            f"{_place(each, offset)} was not read within {options.connection.api_timeout_ms} ms (option"
            f" 'kafka.default.api.timeout.ms'): {error}"
        ) from error


def _place(each: OffsetRange, offset: int) -> str:
    return f"partition {each.partition} of topic {each.topic!r}, from offset {offset} to {each.end},"


def _after_data_loss(each: OffsetRange, offset: int, options: SourceOptions) -> int:
    """Return the offset at which to go on after `offset` was out of range: the end if all of the range is gone.

    Raises DataLoss.
    """
    partition = TopicPartition(each.topic, each.partition)
    broker = connections.offsets(options)
    earliest, latest = broker.earliest([partition])[partition], broker.latest([partition])[partition]
    report_data_loss(
        options, f"{partition}: offset {offset} of {each.start} to {each.end} is out of range, {earliest} to {latest}"
    )
    return earliest if offset < earliest < each.end else each.end


def _check_progress(
    each: OffsetRange, offset: int, fetched: FetchedRecords, progress_at: float, options: SourceOptions
) -> None:
    """Check an empty answer, which is normal for a moment after a change of leader. Raises ReadTimeout later."""
    waited_seconds = time.monotonic() - progress_at
    end = fetched.last_stable_offset if options.connection.reads_committed else fetched.high_watermark
    if waited_seconds * 1000 > options.fetch.poll_timeout_ms:
        raise ReadTimeout(
            f"no records of {each.topic}-{each.partition} from offset {offset} on within {waited_seconds:.0f} s"
            f" (option 'kafkaConsumer.pollTimeoutMs'); the range ends at {each.end}, the broker's log at"
            f" {end}"
        )
