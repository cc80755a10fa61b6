"""A broker starts with 1,000,000 committed offsets to load: how long that takes and who suffers, beside Apache Kafka.

    python -m benchmarks.group_loading [--systems apache-kafka barnabas] [--groups 20000] [--rounds 3]

Each system gets the offsets once: 20,000 groups of no members commit 50 partitions each. Then, one system after the
other, it is stopped and started again, twice a round: beside a client that produces records of 100 B, one in flight,
and alone. One thread produces and, every 50 ms (alone: twice a second), asks for an offset of one group of each
partition of `__consumer_offsets`, one after the other, until one of them is not loaded yet; it ends when all are.

Printed: until the broker answered, from there until all is loaded, how many look-ups were answered
COORDINATOR_LOAD_IN_PROGRESS, p50, p99 and the longest of the produces meanwhile and in as long a time afterwards, and
the share of a core that loading took: in Apache Kafka its thread's, here that of all threads but those that are busy
afterwards. Medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from benchmarks.group_members import NOT_YET, await_coordinator, call, decoded, frame
from benchmarks.process_usage import TICKS_PER_SECOND, cpu_seconds, resident_mib
from benchmarks.systems import BEFORE, NAMES, REFERENCE, make_system
from benchmarks.wire_requests import BadAnswer, Connection, batch_of_count, check_produce_answer, produce_frame
from tests.support.server_process import ServerProcess

TOPIC, BUSY = "committed-often", "busy"
PARTITIONS = 50
"""Committed by each group, in one request."""
OFFSETS_PARTITIONS = 50
SETTINGS = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}
COMMIT, FETCH = 8, 5
"""Versions."""
PIPELINED = 20
PROBE_SECONDS, PROBE_ALONE_SECONDS = 0.05, 0.5
LOADING_THREADS = ("group-metadata-", "group-coordinat", "transaction-log")
"""As the kernel knows them in Apache Kafka 3.9 and 4."""
IDLE_SHARE = 0.02
"""Of a core; who uses less afterwards is no thread that serves clients."""
GIVE_UP_SECONDS = 300
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def group_id(number: int) -> str:
    """Of one group."""
    return f"group-{number:06}"


def offsets_partition(group: str) -> int:
    """Where the group's offsets are: Java's hash of its name."""
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % OFFSETS_PARTITIONS


def commit_offsets(server: ServerProcess, groups: int) -> None:
    """Have every group commit."""
    connection = Connection(server.host, server.port)
    connection.create_topic(TOPIC, PARTITIONS)
    connection.create_topic(BUSY)
    await_coordinator(connection, group_id(0))
    for partition in range(OFFSETS_PARTITIONS):  # a coordinator begins partition by partition
        group = next(name for name in map(group_id, range(groups)) if offsets_partition(name) == partition)
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while _error_of_commit(call(connection, _commit(group), COMMIT)) in NOT_YET:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no coordinator of {group}")
            time.sleep(PROBE_SECONDS)
    for first in range(0, groups, PIPELINED):
        bodies = [_commit(group_id(number)) for number in range(first, min(first + PIPELINED, groups))]
        connection.socket.sendall(b"".join(frame(body, COMMIT) for body in bodies))
        for body in bodies:
            error = _error_of_commit(decoded(connection.read_answer(), body, COMMIT))
            if error:
                raise RuntimeError(f"commit of {body.group_id}: error {error}")
    connection.close()


def _commit(group: str) -> OffsetCommitRequest:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC)
    topic.partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1_000_000 + partition, committed_metadata=""
        )
        for partition in range(PARTITIONS)
    ]
    return OffsetCommitRequest(group_id=group, topics=[topic])


def _error_of_commit(answer: object) -> int:
    assert isinstance(answer, OffsetCommitResponse)
    errors = {partition.error_code for topic in answer.topics for partition in topic.partitions}
    return max(errors)


class Probes(Protocol):
    """Asks whether everything is loaded. refused: the answers COORDINATOR_LOAD_IN_PROGRESS."""

    refused: int

    def ask(self) -> bool:
        """Return whether everything is loaded."""

    def close(self) -> None:
        """Close the connection."""


class GroupProbes:
    """Asks for one group of each partition that has not been seen loaded."""

    def __init__(self, server: ServerProcess, groups: int) -> None:
        self._connection = Connection(server.host, server.port)
        self._left = {offsets_partition(name): name for name in map(group_id, range(groups))}
        self.refused = 0

    def ask(self) -> bool:
        """Ask for one after the other, until one is not loaded; whether all are."""
        for partition, group in list(self._left.items()):
            topic = OffsetFetchRequest.OffsetFetchRequestTopic(TOPIC, [PARTITIONS - 1])
            answer = call(self._connection, OffsetFetchRequest(group_id=group, topics=[topic]), FETCH)
            assert isinstance(answer, OffsetFetchResponse)
            if answer.error_code in NOT_YET:
                self.refused += answer.error_code == LOADING
                return False
            offset = answer.topics[0].partitions[0].committed_offset
            if answer.error_code or offset != 1_000_000 + PARTITIONS - 1:
                raise RuntimeError(f"{group}: error {answer.error_code}, offset {offset}")
            del self._left[partition]
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Loading(NamedTuple):
    """One start. Times in milliseconds; shares of a core."""

    start_ms: float
    load_ms: float
    refused: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    p99_after_ms: float
    loader_share: float
    process_share: float
    resident_mib: float


def load(
    server: ServerProcess, make_probes: Callable[[ServerProcess], Probes], *, beside: bool, least_seconds: float
) -> Loading:
    """Start it and watch."""
    began = time.perf_counter()
    server.start()
    probes, producer = make_probes(server), Connection(server.host, server.port)
    request = produce_frame(BUSY, 0, batch_of_count(1, 100), 1)
    if beside:
        _await_leader(producer, request)
    ready = time.perf_counter()
    threads, process = _cpu_by_thread(server.pid), cpu_seconds(server.pid)
    times = _produce_until_loaded(producer, request, probes, beside=beside)
    loaded = time.perf_counter()
    elapsed = loaded - ready
    during, used = _cpu_by_thread(server.pid), (cpu_seconds(server.pid) - process).total
    after = min(max(elapsed, least_seconds), 10 * least_seconds)
    times_after = _produce_for(producer, request, after) if beside else [0.0]
    later = _cpu_by_thread(server.pid)
    named = {thread for thread in during if thread[1].startswith(LOADING_THREADS)}
    spent = {thread: during[thread] - threads.get(thread, 0) for thread in during}
    serving = {thread for thread in during if later.get(thread, 0) - during[thread] >= IDLE_SHARE * after}
    loading = sum(spent[thread] for thread in named) if named else used - sum(spent[thread] for thread in serving)
    probes.close()
    producer.close()
    ordered = sorted(times or [0.0])
    return Loading(
        (ready - began) * 1e3,
        elapsed * 1e3,
        probes.refused,
        _percentile_ms(ordered, 0.5),
        _percentile_ms(ordered, 0.99),
        ordered[-1] * 1e3,
        _percentile_ms(sorted(times_after), 0.99),
        loading / elapsed,
        used / elapsed,
        resident_mib(server.pid),
    )


def _await_leader(producer: Connection, request: bytes) -> None:
    """A broker may answer before it knows its partitions again."""
    give_up = time.monotonic() + GIVE_UP_SECONDS
    while True:
        answer = producer.call(request)
        try:
            check_produce_answer(answer)
        except BadAnswer:
            if time.monotonic() > give_up:
                raise
        else:
            return


def _produce_until_loaded(producer: Connection, request: bytes, probes: Probes, *, beside: bool) -> list[float]:
    times: list[float] = []
    clock = time.perf_counter
    give_up = clock() + GIVE_UP_SECONDS
    probe_at = clock()
    while clock() < give_up:
        now = clock()
        if now >= probe_at:
            if probes.ask():
                return times
            probe_at = clock() + (PROBE_SECONDS if beside else PROBE_ALONE_SECONDS)
        elif not beside:
            time.sleep(probe_at - now)
        else:
            producer.call(request)
            times.append(clock() - now)
    raise TimeoutError("the groups were not loaded in time")


def _produce_for(producer: Connection, request: bytes, seconds: float) -> list[float]:
    times = []
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        producer.call(request)
        times.append(time.perf_counter() - now)
    return times


def _cpu_by_thread(pid: int) -> dict[tuple[str, str], float]:
    """Thread id and name -> CPU seconds."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{thread}/stat") as stat:
            name, _, rest = stat.read().partition("(")[2].rpartition(")")
            fields = rest.split()
            found[thread, name] = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return found


def _percentile_ms(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e3


COLUMNS = (
    "start, ms",
    "loading, ms",
    "refused",
    "p50 ms",
    "p99 ms",
    "longest",
    "p99 afterwards",
    "loader's share",
    "process's share",
    "resident MiB",
)


def main() -> None:
    """Print a table."""
    given = Load(
        name="groups",
        default_count=20_000,
        settings=SETTINGS,
        write=commit_offsets,
        probes=GroupProbes,
    )
    options, seen = measure(__doc__, given)
    print(f"\n{options.count * PARTITIONS:,} offsets of {options.count:,} groups, {options.rounds} rounds\n")
    print_loadings(seen)


class Load(NamedTuple):
    """What each system is given to load. write: makes so many of it; probes: ask whether it is all there again."""

    name: str
    default_count: int
    settings: Mapping[str, str]
    write: Callable[[ServerProcess, int], None]
    probes: Callable[[ServerProcess, int], Probes]


class Measured(NamedTuple):
    """The options of a run, and the starts by the way of loading and the system."""

    options: argparse.Namespace
    starts: Mapping[tuple[str, str], Sequence[Loading]]


def measure(description: str | None, given: Load) -> Measured:
    """Take the options of the command line; have each system write once, and start it again and again."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=[REFERENCE, "barnabas"], choices=[*NAMES, BEFORE])
    parser.add_argument("--before", type=Path, help=f"directory with the package of the system {BEFORE}")
    parser.add_argument(f"--{given.name}", dest="count", type=int, default=given.default_count)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least-seconds", type=float, default=2, help="to go on producing afterwards")
    options = parser.parse_args()
    seen: dict[tuple[str, str], list[Loading]] = {}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {name: make_system(name, place, None, given.settings, options.before) for name in options.systems}
        for server in servers.values():
            stack.callback(server.close)
            server.start()
            given.write(server, options.count)
            server.stop()
        for _ in range(options.rounds):
            for how in ("beside a producer", "alone"):
                for name, server in servers.items():
                    found = load(
                        server,
                        lambda started: given.probes(started, options.count),
                        beside=how != "alone",
                        least_seconds=options.least_seconds,
                    )
                    seen.setdefault((how, name), []).append(found)
                    server.stop()
    return Measured(options, seen)


def print_loadings(seen: Mapping[tuple[str, str], Sequence[Loading]]) -> None:
    """Print a table of the medians. seen: by the way of loading, and the system."""
    print(f"| | system | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 2)}")
    for (how, name), starts in seen.items():
        figures = [median(column) for column in zip(*starts, strict=True)]
        cells = [f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}" for figure in figures]
        print(f"| {how} | {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
