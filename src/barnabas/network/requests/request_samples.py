"""The metrics of requests by Kafka's names, computed from the tables that Processors fill.

A Processor fills its tables (by `request_metrics`, on its thread) in plain lists without a lock, so a read may be a
moment late. RequestMetrics calls the rest under its lock, on the thread that ticks or publishes; each metric is
remembered as it was at the last tick. Kafka: RequestMetrics (its metric names).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.metrics.histogram import BUCKETS, DURATION_UNIT_MS, RecentWeights, distribution
from barnabas.metrics.meter import Meter
from barnabas.metrics.metrics_registry import MBeanName, Sample
from barnabas.network.requests.error_counts import ErrorCounter, new_error_counts
from barnabas.protocol.errors import ErrorCode
from barnabas.runtime.machine_numbers import Counts, counts_of, listed

if TYPE_CHECKING:
    from mypy_extensions import i64

NO_COUNTS: Final = [0] * BUCKETS
BUCKET_LISTS: Final = (
    "request_queue",
    "local",
    "remote",
    "throttle",
    "response_queue",
    "response_send",
    "total",
    "request_bytes",
    "response_bytes",
    "conversions",
    "temporary_memory",
)


class RequestTable:
    """The counters of one API since the start: the lists hold bucket counts (`metrics.histogram`).

    A stage that most requests do not have is counted only for the requests that have it; the samples add the zeros.
    """

    __slots__ = (
        "conversions",
        "error_counters",
        "errors",
        "first_current_version",
        "follower",
        "last_version",
        "listener",
        "local",
        "plane",
        "queued",
        "remote",
        "request_bytes",
        "request_queue",
        "response_bytes",
        "response_queue",
        "response_send",
        "successes",
        "temporary_memory",
        "throttle",
        "total",
        "versions",
    )

    def __init__(self, last_version: int, first_current_version: int, plane: str, listener: str) -> None:
        """last_version: the first is 0; those below `first_current_version` are deprecated."""
        self.last_version: i64 = last_version
        self.versions: Counts = counts_of([0] * (last_version + 2))
        """Requests by version; the last item is for unknown versions."""
        self.error_counters: list[ErrorCounter | None] = [None] * (last_version + 2)
        self.errors = new_error_counts()
        self.successes: i64 = 0
        """The errors NONE of answers that said nothing else, beside those in `errors`."""
        self.first_current_version: i64 = first_current_version
        self.plane = plane
        self.listener = listener
        self.queued: i64 = 0
        """Requests that went through the request queue; the others ran at once."""
        self.request_queue: Counts = counts_of(NO_COUNTS)
        self.local: Counts = counts_of(NO_COUNTS)
        self.remote: Counts = counts_of(NO_COUNTS)
        self.throttle: Counts = counts_of(NO_COUNTS)
        self.response_queue: Counts = counts_of(NO_COUNTS)
        self.response_send: Counts = counts_of(NO_COUNTS)
        self.total: Counts = counts_of(NO_COUNTS)
        self.request_bytes: Counts = counts_of(NO_COUNTS)
        self.response_bytes: Counts = counts_of(NO_COUNTS)
        self.conversions: Counts = counts_of(NO_COUNTS)
        self.temporary_memory: Counts = counts_of(NO_COUNTS)
        self.follower: RequestTable | None = None
        """For Fetch, the table of followers' requests; this table then holds the consumers' requests."""

    def add(self, other: RequestTable) -> None:
        """Add the counts of another table of the same API. The Processors of both tables have ended."""
        self.queued += other.queued
        self.successes += other.successes
        self.errors = list(map(add, self.errors, other.errors))
        for name in ("versions", *BUCKET_LISTS):
            setattr(self, name, counts_of(map(add, getattr(self, name), getattr(other, name))))

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(listed(self.versions))


GROUP: Final = "kafka.network"
KIND: Final = "RequestMetrics"
OUR_GROUP: Final = "barnabas.network"
PATH_KIND: Final = "RequestPath"
CONSUMER_FETCH: Final = "FetchConsumer"
FOLLOWER_FETCH: Final = "FetchFollower"
REQUESTS: Final = "RequestsPerSec"
ERRORS: Final = "ErrorsPerSec"
DEPRECATED: Final = "DeprecatedRequestsPerSec"
UNKNOWN_VERSION: Final = "unknown"
BYTES: Final = 1.0


class Stage(NamedTuple):
    """One histogram of an API: its name, its description, the attribute of a RequestTable that holds it, its unit."""

    name: str
    description: str
    buckets: str
    unit: float = DURATION_UNIT_MS
    is_sparse: bool = False
    """Whether the table counts only non-zero times; the requests that are not counted are zeros."""


STAGES: Final = (
    Stage(
        "RequestQueueTimeMs",
        "Until a request handler took the request; 0 where it was run at once",
        "request_queue",
        is_sparse=True,
    ),
    Stage("LocalTimeMs", "While the request was handled", "local"),
    Stage("RemoteTimeMs", "Until others let it complete: replicas, or records to fetch", "remote", is_sparse=True),
    Stage("ThrottleTimeMs", "How long quotas held its client up", "throttle", is_sparse=True),
    Stage("ResponseQueueTimeMs", "Until the network thread took the answer", "response_queue", is_sparse=True),
    Stage("ResponseSendTimeMs", "Until the answer's last byte had left", "response_send"),
    Stage("TotalTimeMs", "From the request's last byte to the answer's", "total"),
    Stage("RequestBytes", "Size of the request", "request_bytes", BYTES),
    Stage("ResponseBytes", "Size of the answer (ours)", "response_bytes", BYTES),
)
CONVERSION_STAGES: Final = (
    Stage(
        "MessageConversionsTimeMs", "Converting records between formats of different age", "conversions", is_sparse=True
    ),
    Stage("TemporaryMemoryBytes", "Memory that took, beyond the request", "temporary_memory", BYTES, is_sparse=True),
)
COUNTERS: Final = {
    (KIND, REQUESTS): "Requests by API and version",
    (KIND, ERRORS): "Errors in answers, NONE among them; a request may have several",
    (KIND, DEPRECATED): "Requests of a version that Kafka 4 no longer takes, by client software",
    (PATH_KIND, REQUESTS): "Requests by the way they took: a queue, or at once on the network thread",
}
"""Kind and name of a counter -> its description."""
CONVERTING: Final = ("Fetch", "Produce")
"""The APIs that convert records. As in Kafka, FetchConsumer and FetchFollower have no such histograms."""


class TableKey(NamedTuple):
    """The requests that a table counts. `part` is the API itself, or FetchConsumer, FetchFollower."""

    api: str
    part: str
    plane: str
    listener: str


Tables = dict[TableKey, list[RequestTable]]
DeprecatedKey = tuple[str, int, str, str]
"""API, version, the client software's name and version."""


class RequestSamples:
    """The computation of samples from tables, with the state of the last tick."""

    def __init__(self) -> None:
        self._weights: dict[MBeanName, RecentWeights] = {}
        self._meters: dict[MBeanName, Meter] = {}

    def tick(self, tables: Tables, deprecated: Mapping[DeprecatedKey, int], elapsed_seconds: float) -> None:
        """Add the counts since the last tick to rates and weights."""
        for name, counts, _ in _histograms(tables):
            self._weights.setdefault(name, RecentWeights()).tick(counts, elapsed_seconds)
        for name, count in _counters(tables, deprecated):
            meter = self._meters.setdefault(name, Meter())
            meter.count = count
            meter.tick(elapsed_seconds)

    def samples(self, tables: Tables, deprecated: Mapping[DeprecatedKey, int]) -> list[Sample]:
        """Return the current value of every metric."""
        samples = []
        unknown = RecentWeights()
        for name, counts, stage in _histograms(tables):
            weights = self._weights.get(name, unknown).now(counts)
            spread = distribution(counts, weights, stage.unit)
            samples.append(Sample(name, spread.count, stage.description, distribution=spread))
        nothing = Meter()
        for name, count in _counters(tables, deprecated):
            rates = self._meters.get(name, nothing).rates
            samples.append(Sample(name, count, COUNTERS[name.type, name.name], rates))
        return samples


def _by_name(tables: Tables) -> dict[str, list[RequestTable]]:
    """Return the tables of each `request` tag."""
    by_name: dict[str, list[RequestTable]] = {}
    for key, several in tables.items():
        by_name.setdefault(key.api, []).extend(several)
        if key.part != key.api:
            by_name.setdefault(key.part, []).extend(several)
    return by_name


def _histograms(tables: Tables) -> Iterator[tuple[MBeanName, list[int], Stage]]:
    """Yield name, bucket counts and stage of every histogram."""
    for request, several in _by_name(tables).items():
        requests = sum(table.requests for table in several)
        if not requests:
            continue
        tags = (("request", request),)
        for stage in (*STAGES, *CONVERSION_STAGES) if request in CONVERTING else STAGES:
            counts = _sum([listed(getattr(table, stage.buckets)) for table in several])
            # Bucket 0 is for zero. The tables are read while they are filled, so the difference may be below zero.
            if stage.is_sparse:
                counts[0] += max(requests - sum(counts), 0)
            yield MBeanName(GROUP, KIND, stage.name, tags), counts, stage


def _counters(tables: Tables, deprecated: Mapping[DeprecatedKey, int]) -> Iterator[tuple[MBeanName, int]]:
    """Yield name and count of every counter."""
    for request, several in _by_name(tables).items():
        versions = _sum([listed(table.versions) for table in several])
        for version, count in enumerate(versions):
            if count:
                text = UNKNOWN_VERSION if version == len(versions) - 1 else str(version)
                yield MBeanName(GROUP, KIND, REQUESTS, (("request", request), ("version", text))), count
        if request in (CONSUMER_FETCH, FOLLOWER_FETCH):
            continue
        errors = _sum([table.errors for table in several])
        errors[0] += sum(table.successes for table in several)
        for code in range(-1, len(errors) - 1):
            if errors[code]:
                error = (("request", request), ("error", _error_name(code)))
                yield MBeanName(GROUP, KIND, ERRORS, error), errors[code]
    for (request, old_version, software, software_version), count in deprecated.items():
        client = (("clientSoftwareName", software), ("clientSoftwareVersion", software_version))
        tags = (("request", request), ("version", str(old_version)), *client)
        yield MBeanName(GROUP, KIND, DEPRECATED, tags), count
    yield from _paths(tables)


def _paths(tables: Tables) -> Iterator[tuple[MBeanName, int]]:
    """Yield the numbers of requests that went through a plane's queue, and that ran at once on the network thread."""
    paths: dict[MBeanName, int] = {}
    for key, several in tables.items():
        queued = sum(table.queued for table in several)
        inline = max(sum(table.requests for table in several) - queued, 0)
        for path, count in (("queue", queued), ("inline", inline)):
            if count:
                name = _path_name(key, path)
                paths[name] = paths.get(name, 0) + count
    yield from paths.items()


def _path_name(key: TableKey, path: str) -> MBeanName:
    tags = (("request", key.api), ("listener", key.listener), ("plane", key.plane), ("path", path))
    return MBeanName(OUR_GROUP, PATH_KIND, REQUESTS, tags)


def _sum(lists: Sequence[Sequence[int]]) -> list[int]:
    total = list(lists[0])
    for other in lists[1:]:
        total = list(map(add, total, other))
    return total


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
