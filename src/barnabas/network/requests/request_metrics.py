"""The times, sizes and errors of requests by API, counted when a request's answer has left.

The Processor of a request calls `record`, and alone adds to the tables of its id; so `record` takes no lock and makes
no object. Every request pays for it (benchmarks/metrics_cost.py; docs/metrics.md). `_lock` guards the set of tables,
and what `tick` and `samples` remember between calls; these two run on the scheduler's thread and on the threads that
publish.

A request's stages lie between its time stamps, in nanoseconds (docs/kafka-facts.md, request stages). A produce with
acks=all that a handler thread ran:

    received_ns             0.0 ms
    dequeued_ns             0.3 ms    RequestQueueTime   0.3    a handler thread was free
    local_complete_ns       0.5 ms    LocalTime          0.2    the handler appended, and the produce began to wait
    response_complete_ns    4.5 ms    RemoteTime         4.0    the followers had it: the answer was handed over
    response_dequeued_ns    4.6 ms    ResponseQueueTime  0.1    its Processor took the answer
    sent_ns                 4.8 ms    ResponseSendTime   0.2    the last byte left
                                      TotalTime          4.8    all of it; ThrottleTime comes afterwards

A fetch counts as Fetch, and as FetchConsumer or FetchFollower. Kafka: RequestMetrics, whose times are rounded to
milliseconds. ResponseBytes and barnabas.network:type=RequestPath are Barnabas's own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.api.request import ConnectionContext, Handler, Request, RequestNotes
from barnabas.api.request_log import RequestLog
from barnabas.metrics.histogram import DURATION_SHIFT, HIGHEST, INDEX, INDEXED, bucket_of
from barnabas.metrics.metrics_registry import Sample
from barnabas.network.requests.error_counts import error_counter_of
from barnabas.network.requests.request_samples import (
    CONSUMER_FETCH,
    FOLLOWER_FETCH,
    DeprecatedKey,
    RequestSamples,
    RequestTable,
    TableKey,
    Tables,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kafka_releases import FIRST_CURRENT_VERSION
from barnabas.runtime.compiler_marks import mypyc_attr
from barnabas.runtime.locks import Lock
from barnabas.runtime.machine_numbers import Indexes, indexes_of, listed

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)

MOST_KEYS: Final = 128
"""More than the largest API key."""
_UNSIGNED: Final = 0xFFFF
"""Makes a version below zero one above all others."""
_BUCKETS: Final[Indexes] = indexes_of(INDEX)
INDEXED_NS: Final = INDEXED << DURATION_SHIFT
MOST_DEPRECATED_CLIENTS: Final = 1000
"""The limit for metrics of deprecated requests, because clients choose the software names in them."""


class ProcessorCounts(NamedTuple):
    """The requests that a Processor's connections have sent, and the answers they were given."""

    requests: int
    answers: int
    largest_answer_bytes: float
    """At most 1/16 above the largest answer's size."""


def request_name(api_key: ApiKey) -> str:
    """Return Kafka's name of an API, such as `OffsetForLeaderEpoch`."""
    return "".join(word.capitalize() for word in api_key.name.split("_"))


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestMetrics:
    """A metric family. `record` is for the network layer; `tick` and `samples` for the registry."""

    def __init__(self, log: RequestLog | None = None) -> None:
        """log: the request log, which writes the requests that it noted when they came."""
        self._log = RequestLog() if log is None else log
        # A row of MOST_KEYS for each Processor, by API key.
        self._tables: list[RequestTable | None] = []
        self._lock = Lock()
        self._retired: dict[TableKey, RequestTable] = {}
        self._deprecated: dict[DeprecatedKey, int] = {}
        self._samples = RequestSamples()

    # -- a Processor's thread

    def record(self, request: Request[Any]) -> None:
        """Count a request that has ended, with its answer sent or dropped."""
        place: i64 = request.processor_id * MOST_KEYS + request.handler.key
        try:
            known = self._tables[place]
        except IndexError:
            known = None
        table = known if known is not None else self._new_table(request, place)
        if table.follower is not None:
            body = request.body
            state = body.replica_state  # from v15 on (KIP-903), instead of `replica_id`
            if body.replica_id >= 0 or (state is not None and state.replica_id >= 0):
                table = table.follower
        version = request.api_version & _UNSIGNED
        if version > table.last_version:
            # ApiVersions in a version above the highest here is answered with UNSUPPORTED_VERSION (KIP-511), so it is
            # counted, as an unknown version.
            version = table.last_version + 1
        table.versions[version] += 1
        if request.notes is not None:
            _record_notes(table, request.notes)
            self._log.completed(request)
        if version < table.first_current_version:
            self._count_deprecated(table, request, version)
        elif request.successes:
            table.successes += request.successes
        elif request.response is not None:
            count_errors = table.error_counters[version]
            if count_errors is None:
                count_errors = table.error_counters[version] = error_counter_of(request, request.response)
            count_errors(request.response, table.errors)
        received_ns = request.received_ns
        local_ns = request.local_complete_ns
        completed_ns = request.response_complete_ns
        sent_ns = request.sent_ns
        request_size = request.request_size
        response_size = request.response_size
        # Most requests pass no queue, neither before they run nor before they are answered; some of them wait in
        # between, for replicas or for records. No stage is longer than the whole: if _BUCKETS has that, it has all.
        if (
            received_ns == request.dequeued_ns <= local_ns <= completed_ns == request.response_dequeued_ns
            and (request_size | response_size) < INDEXED
            and sent_ns - received_ns < INDEXED_NS
            and not request.throttle_time_ms
        ):
            table.request_bytes[_BUCKETS[request_size]] += 1
            table.response_bytes[_BUCKETS[response_size]] += 1
            table.local[_BUCKETS[(local_ns - received_ns) >> DURATION_SHIFT]] += 1
            if completed_ns > local_ns:
                table.remote[_BUCKETS[(completed_ns - local_ns) >> DURATION_SHIFT]] += 1
            table.response_send[_BUCKETS[(sent_ns - completed_ns) >> DURATION_SHIFT]] += 1
            table.total[_BUCKETS[(sent_ns - received_ns) >> DURATION_SHIFT]] += 1
        else:
            record_stages(table, request)

    def _new_table(self, request: Request[Any], place: int) -> RequestTable:
        handler, context = request.handler, request.connection
        with self._lock:
            tables = self._tables
            if place >= len(tables):
                # A new list: another Processor may be reading this one.
                rows = request.processor_id + 1 - len(tables) // MOST_KEYS
                nothing: list[RequestTable | None] = [None] * (rows * MOST_KEYS)
                tables = self._tables = tables + nothing
            table = tables[place] = _table_of(handler, context)
            if handler.api_key is ApiKey.FETCH:
                table.follower = _table_of(handler, context)
            return table

    def _count_deprecated(self, table: RequestTable, request: Request[Any], version: int) -> None:
        """Count the errors of an answer in a deprecated version, and the request by its client's software."""
        answer = request.response
        if answer is not None:
            error_counter_of(request, answer)(answer, table.errors)
        context = request.connection
        key = (
            request_name(request.handler.api_key),
            version,
            context.client_software_name,
            context.client_software_version,
        )
        with self._lock:
            if key in self._deprecated or len(self._deprecated) < MOST_DEPRECATED_CLIENTS:
                self._deprecated[key] = self._deprecated.get(key, 0) + 1

    # -- the threads that publish

    def samples(self) -> Iterable[Sample]:
        """Return the metrics of all APIs that were requested since the start."""
        with self._lock:
            return self._samples.samples(self._by_key(), self._deprecated)

    def tick(self, elapsed_seconds: float) -> None:
        """Bring rates and the weights of percentiles up to date."""
        with self._lock:
            self._samples.tick(self._by_key(), self._deprecated, elapsed_seconds)

    def counts_of(self, processor_id: int) -> ProcessorCounts:
        """Return the requests and answers of one Processor's connections since its start."""
        with self._lock:
            tables = [table for _, table in _keyed(self._tables_of(processor_id))]
        requests = sum(table.requests for table in tables)
        sizes = [listed(table.response_bytes) for table in tables]
        # A request with acks=0 has no answer, and counts as one of no bytes.
        silent = sum(counts[0] for counts in sizes)
        buckets = [bucket for counts in sizes for bucket, count in enumerate(counts) if count]
        return ProcessorCounts(requests, max(requests - silent, 0), float(HIGHEST[max(buckets, default=0)]))

    def retire_all_but(self, processor_ids: Collection[int]) -> None:
        """Merge the counts of Processors that have ended into one table an API: the number of tables stays bounded."""
        with self._lock:
            for processor_id in set(range(len(self._tables) // MOST_KEYS)) - set(processor_ids):
                for key, table in _keyed(self._tables_of(processor_id)):
                    if key in self._retired:
                        self._retired[key].add(table)
                    else:
                        self._retired[key] = table
                first = processor_id * MOST_KEYS
                self._tables[first : first + MOST_KEYS] = [None] * MOST_KEYS

    def _tables_of(self, processor_id: int) -> Sequence[RequestTable | None]:
        return self._tables[processor_id * MOST_KEYS : (processor_id + 1) * MOST_KEYS]

    def _by_key(self) -> Tables:
        tables: Tables = {key: [table] for key, table in self._retired.items()}
        for key, table in _keyed(self._tables):
            tables.setdefault(key, []).append(table)
        return tables


def _table_of(handler: Handler, context: ConnectionContext) -> RequestTable:
    first_current = FIRST_CURRENT_VERSION.get(handler.api_key, 0)
    return RequestTable(handler.max_version, first_current, context.plane, context.listener_name)


def _keyed(tables: Sequence[RequestTable | None]) -> Iterable[tuple[TableKey, RequestTable]]:
    """Yield what each table counts. tables: of whole Processors."""
    for place, table in enumerate(tables):
        if table is None:
            continue
        name = request_name(ApiKey(place % MOST_KEYS))
        if table.follower is None:
            yield TableKey(name, name, table.plane, table.listener), table
        else:
            yield TableKey(name, CONSUMER_FETCH, table.plane, table.listener), table
            yield TableKey(name, FOLLOWER_FETCH, table.plane, table.listener), table.follower


def _record_notes(table: RequestTable, notes: RequestNotes) -> None:
    for code, count in (notes.errors or {}).items():
        table.errors[code] += count
    if notes.conversions_ns:
        table.conversions[_duration(notes.conversions_ns)] += 1
        table.temporary_memory[bucket_of(notes.temporary_memory_bytes)] += 1


def record_stages(table: RequestTable, request: Request[Any]) -> None:
    """Count each stage of a request. A missing stamp (the connection was closed first) makes its stages zero."""
    table.request_bytes[bucket_of(request.request_size)] += 1
    table.response_bytes[bucket_of(request.response_size)] += 1
    received_ns = request.received_ns
    dequeued_ns = request.dequeued_ns or received_ns
    completed_ns = request.response_complete_ns or request.sent_ns
    local_ns = request.local_complete_ns or completed_ns
    taken_ns = request.response_dequeued_ns or completed_ns
    if dequeued_ns != received_ns:
        table.queued += 1
        table.request_queue[_duration(dequeued_ns - received_ns)] += 1
    table.local[_duration(local_ns - dequeued_ns)] += 1
    if completed_ns > local_ns:
        table.remote[_duration(completed_ns - local_ns)] += 1
    if request.throttle_time_ms:
        table.throttle[_duration(request.throttle_time_ms * 1_000_000)] += 1
    if taken_ns > completed_ns:
        table.response_queue[_duration(taken_ns - completed_ns)] += 1
    table.response_send[_duration(request.sent_ns - taken_ns)] += 1
    table.total[_duration(request.sent_ns - received_ns)] += 1


def _duration(nanoseconds: int) -> int:
    return bucket_of(nanoseconds >> DURATION_SHIFT)
