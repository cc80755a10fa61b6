"""What a fetch session saves: the same partitions fetched in a session and outside, here and in Apache Kafka.

    python -m benchmarks.fetch_sessions [--systems apache-kafka barnabas] [--partitions 1 10 100] [--rounds 3]

One client, one fetch at a time, nothing to wait for. `idle`: no partition has anything new. `busy`: one partition at a
time has a record that the client did not have. Outside of a session a fetch names all partitions and is answered for
all; within one, it names what moved and is answered what is new. All systems are up at once and each round goes round
them. Figures are medians over the rounds: the broker's CPU time and the round trip of a fetch.
"""

from __future__ import annotations

import argparse
import itertools
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.process_usage import cpu_seconds
from benchmarks.systems import NAMES, REFERENCE, make_system
from benchmarks.wire_requests import (
    EPOCH_AT,
    Buffer,
    Connection,
    FetchPlace,
    batch_of_count,
    check_produce_answer,
    produce_frame,
    session_fetch_frame,
    session_of_fetch_answer,
)
from tests.support.server_process import ServerProcess

NO_SESSION = (0, -1)
NEW_SESSION = (0, 0)
IDLE, BUSY = "idle", "busy"
FULL, INCREMENTAL = "full", "in a session"


class Figures(NamedTuple):
    """Of one run."""

    cpu_us: float
    p50_us: float


def topic_of(partitions: int) -> str:
    """A topic for each number of partitions."""
    return f"fetched-{partitions}"


def prepare(server: ServerProcess, partitions: int) -> None:
    """A topic with one record in each partition."""
    connection = Connection(server.host, server.port)
    connection.create_topic(topic_of(partitions), partitions)
    for partition in range(partitions):
        check_produce_answer(connection.call(produce_frame(topic_of(partitions), partition, batch_of_count(1, 100), 1)))
    connection.close()


def places(partitions: int, turn: int, load: str) -> list[FetchPlace]:
    """All at their ends, but for one that is at its start when the load is busy."""
    behind = turn % partitions if load == BUSY else -1
    return [FetchPlace(each, 0 if each == behind else 1) for each in range(partitions)]


def full_frames(partitions: int, load: str) -> Iterator[Buffer]:
    """Fetches outside of sessions, encoded before."""
    turns = partitions if load == BUSY else 1
    frames = [
        session_fetch_frame(topic_of(partitions), places(partitions, turn, load), *NO_SESSION) for turn in range(turns)
    ]
    while True:
        yield from frames


def session_frames(partitions: int, load: str, session_id: int) -> Iterator[Buffer]:
    """Fetches of a session, encoded before but for their epoch; one names the partition that is behind and the one that
    no longer is. What an iteration gives is valid until the next one."""
    frames = []
    for turn in range(partitions if load == BUSY else 1):
        moved = []
        if load == BUSY:
            moved = [FetchPlace(turn % partitions, 1), FetchPlace((turn + 1) % partitions, 0)]
        frame = session_fetch_frame(topic_of(partitions), moved if partitions > 1 else moved[1:], session_id, 0)
        frames.append(bytearray(frame))
    for epoch, frame_of_turn in enumerate(itertools.cycle(frames), start=1):
        struct.pack_into(">i", frame_of_turn, EPOCH_AT, epoch)
        yield frame_of_turn


def run(server: ServerProcess, partitions: int, load: str, kind: str, seconds: float) -> Figures:
    """Fetch for some seconds."""
    connection = Connection(server.host, server.port)
    frames: Iterator[Buffer]
    if kind == FULL:
        frames = full_frames(partitions, load)
    else:
        answer = connection.call(session_fetch_frame(topic_of(partitions), places(partitions, 0, load), *NEW_SESSION))
        frames = session_frames(partitions, load, session_of_fetch_answer(answer))
    times = []
    clock = time.perf_counter
    before, end = cpu_seconds(server.pid), clock() + seconds
    while (sent := clock()) < end:
        request: Buffer = next(frames)
        session_of_fetch_answer(connection.call(request))
        times.append(clock() - sent)
    used = cpu_seconds(server.pid) - before
    connection.close()
    return Figures(used.total / len(times) * 1e6, median(times) * 1e6)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=[REFERENCE, "barnabas"], choices=NAMES)
    parser.add_argument("--partitions", nargs="+", type=int, default=[1, 10, 100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    seen: dict[tuple[int, str, str, str], list[Figures]] = {}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {name: make_system(name, place, None, {}) for name in options.systems}
        for server in servers.values():
            stack.callback(server.close)
            server.start()
            for partitions in options.partitions:
                prepare(server, partitions)
                run(server, partitions, IDLE, FULL, 1)  # warm
        for _ in range(options.rounds):
            for partitions in options.partitions:
                for load in (IDLE, BUSY):
                    for name, server in servers.items():
                        for kind in (FULL, INCREMENTAL):
                            figures = run(server, partitions, load, kind, options.seconds)
                            seen.setdefault((partitions, load, name, kind), []).append(figures)
    print("| partitions | load | system | full: CPU us | in a session | ratio | full: p50 us | in a session | ratio |")
    print("|" + "---|" * 9)
    for partitions, load, name, kind in seen:
        if kind == INCREMENTAL:
            continue
        full, session = (
            [median(column) for column in zip(*seen[partitions, load, name, each], strict=True)]
            for each in (FULL, INCREMENTAL)
        )
        cells = [f"{full[n]:,.0f} | {session[n]:,.0f} | {session[n] / full[n]:.2f}" for n in range(2)]
        print(f"| {partitions} | {load} | {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
