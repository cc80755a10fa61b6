"""How long a test waits for a broker: from Popen to the first CreateTopics and Produce (acks=all) answered.

    python -m benchmarks.cold_start [--runs 10] [--directory DIR]

Uses the test kit, so this is what `with broker() as b` costs; fsync is real where DIR is on a real disk. Prints a line
per run and the medians; the target is 0.5 s.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from barnabas.testing.broker_process import BrokerProcess
from benchmarks.wire_requests import (
    Connection,
    batch_of_size,
    check_create_topics_answer,
    check_produce_answer,
    create_topics_frame,
    produce_frame,
)

TARGET_SECONDS = 0.5
TOPIC = "first"


class ColdStart(NamedTuple):
    """Seconds since Popen."""

    ready: float
    created: float
    produced: float
    stopped: float
    """How long the stop took, from SIGTERM to the end of the process."""


def measure(directory: Path) -> ColdStart:
    """One start in an empty data directory."""
    batch, _ = batch_of_size(1000, 100)
    process = BrokerProcess(str(directory / "data"))
    began = time.perf_counter()
    process.start()
    ready = time.perf_counter() - began
    try:
        connection = Connection(process.host, process.port)
        check_create_topics_answer(connection.call(create_topics_frame(TOPIC)))
        created = time.perf_counter() - began
        check_produce_answer(connection.call(produce_frame(TOPIC, 0, batch, -1)))
        produced = time.perf_counter() - began
        connection.close()
        stopping = time.perf_counter()
        process.close()
        return ColdStart(ready, created, produced, time.perf_counter() - stopping)
    finally:
        process.kill()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--directory", help="where data directories are made; the system's temporary directory if unset"
    )
    arguments = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores; milliseconds since Popen")
    print(f"{'run':>4} {'ready':>7} {'created':>8} {'produced':>9} {'stop':>6}")
    results = []
    for run in range(arguments.runs):
        with tempfile.TemporaryDirectory(prefix="cold-start-", dir=arguments.directory) as directory:
            result = measure(Path(directory))
        results.append(result)
        print(_row(str(run + 1), result))
    medians = ColdStart(*(median(column) for column in zip(*results, strict=True)))
    print(_row("med", medians))
    verdict = "within" if medians.produced <= TARGET_SECONDS else "over"
    print(f"first Produce answered after {medians.produced:.3f} s: {verdict} the target of {TARGET_SECONDS} s")


def _row(name: str, result: ColdStart) -> str:
    ready, created, produced, stopped = (seconds * 1000 for seconds in result)
    return f"{name:>4} {ready:7.0f} {created:8.0f} {produced:9.0f} {stopped:6.0f}"


if __name__ == "__main__":
    main()
