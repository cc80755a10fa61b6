"""Measures produce and fetch paths of our broker against Apache Kafka 3.9 started in the same run.

    python -m benchmarks.broker                                  # all cells, 5 rounds, into results/
    python -m benchmarks.broker --cells p-16k p-1m --rounds 3 --systems apache-kafka barnabas barnabas-header
    python -m benchmarks.broker --cells p-10c --systems apache-kafka barnabas barnabas-compiled   # make compiled first
    python -m benchmarks.broker --systems barnabas-before barnabas --before ../other-version/src  # what a change costs

All systems are up at once; each round goes round the systems, so that the machine's moods hit them alike. JVMs are
warmed first. No file is deleted between cells: fresh pages would then decide large writes (benchmarks/README.md).
The memory that holds nothing (MemFree) is noted with every run for the same reason; --fill-page-cache uses it up first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cells import CELL_NAMES, CELLS, COLD_START, Cell
from benchmarks.process_usage import cpu_seconds, free_mib, peak_resident_mib, reset_peak, resident_mib
from benchmarks.report import markdown_report
from benchmarks.systems import BEFORE, NAMES, PROTOTYPE, REFERENCE, default_systems, make_system
from benchmarks.wire_requests import batch_of_count
from tests.support.server_process import ServerProcess

MAX_BYTES_PER_RUN = 700_000_000
LOAD_SECONDS = 300
START_SECONDS = 60
IDLE_SECONDS = 3
JVM_WARM_SECONDS, WARM_SECONDS = 5, 1
Result = dict[str, Any]


class LoadFailed(Exception):
    """The load generator ended with an error."""


class Generator:
    """A process of the load generator. It connects when made, begins with `go` and ends with its time or its limit."""

    def __init__(self, server: ServerProcess, command: str, topic: str, seconds: float, *arguments: str) -> None:
        self._what = f"{server.name}: {command} {topic}"
        words = ["--port", str(server.port), "--topic", topic, "--seconds", str(seconds), "--wait", *arguments]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load_generator", command, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._output, self._input = self._process.stdout, self._process.stdin
        if self._output.readline() != "ready\n":
            raise LoadFailed(f"{self._what} did not start")

    def go(self) -> None:
        """Begin."""
        self._input.write("go\n")
        self._input.flush()

    def result(self) -> Result:
        """Wait for the end; what it saw."""
        line = self._output.readline()
        with self._process:
            if self._process.wait() != 0:
                raise LoadFailed(f"{self._what} failed")
        load: Result = json.loads(line)
        return load


def run_load(
    server: ServerProcess, command: str, topic: str, seconds: float, *arguments: str, beside: tuple[str, ...] = ()
) -> Result:
    """One run of the load generator against `server`, with what it cost the server.

    `beside`: arguments of a produce to another topic that runs meanwhile.
    """
    generator = Generator(server, command, topic, seconds, *arguments)
    other = Generator(server, "produce", f"beside-{topic}", seconds, *beside) if beside else None
    reset_peak(server.pid)
    before = cpu_seconds(server.pid)
    generator.go()
    if other is not None:
        other.go()
    load = generator.result()
    used = cpu_seconds(server.pid) - before
    if other is not None:
        produced = other.result()
        load["beside_mb_per_second"] = produced["bytes"] / produced["seconds"] / 1e6
    gigabytes = load["bytes"] / 1e9
    return load | {
        "requests_per_second": load["requests"] / load["seconds"],
        "mb_per_second": load["bytes"] / load["seconds"] / 1e6,
        "cpu_user": used.user,
        "cpu_kernel": used.kernel,
        "cpu_us_per_request": used.total / load["requests"] * 1e6,
        "cpu_s_per_gb": used.total / gigabytes,
        "peak_mib": peak_resident_mib(server.pid),
        "free_mib": free_mib(),
    }


def _system(name: str, directory: Path, options: argparse.Namespace, extra: Mapping[str, str]) -> ServerProcess:
    return make_system(name, directory, options.prototype, extra, options.before)


def measure_cold_start(name: str, directory: Path, options: argparse.Namespace) -> Result:
    """From nothing to the first Metadata answer that names a broker, ZooKeeper's start included; memory when idle."""
    server = _system(name, directory, options, {})
    started = time.perf_counter()
    server.start()
    try:
        server.wait_for_brokers(START_SECONDS)
        seconds = time.perf_counter() - started
        used = cpu_seconds(server.pid)
        time.sleep(IDLE_SECONDS)
        idle = resident_mib(server.pid)
    finally:
        server.stop()
    return {"start_ms": seconds * 1e3, "cpu_user": used.user, "cpu_kernel": used.kernel, "idle_mib": idle}


def _seconds_to_warm(name: str) -> int:
    return JVM_WARM_SECONDS if name == REFERENCE else WARM_SECONDS


def _warm(name: str, server: ServerProcess, cells: list[Cell]) -> None:
    """Let the JVM compile, fill the topics that fetches read, and read them once so that they are in the page cache."""
    for cell in cells:
        if cell.command == "produce":
            limit = ("--max-total-bytes", str(MAX_BYTES_PER_RUN))
            topic = f"warm-{cell.name}"
            if cell.partitions > 1:
                topic = cell.name
                _write_everywhere(server, cell)
            run_load(server, "produce", topic, _seconds_to_warm(name), *cell.arguments, *limit)
        else:
            load_topic(server, cell)
            run_load(server, "fetch", cell.name, _seconds_to_warm(name), *cell.arguments)


def load_topic(server: ServerProcess, cell: Cell) -> None:
    """Fill the topic that a fetch reads; nothing for a produce."""
    if cell.loaded_bytes:
        size = ("--batch-bytes", str(cell.loaded_batch_bytes), "--value-bytes", "1000", "--depth", "5")
        run_load(server, "produce", cell.name, LOAD_SECONDS, *size, "--max-total-bytes", str(cell.loaded_bytes))


def _write_everywhere(server: ServerProcess, cell: Cell) -> None:
    """One batch to every partition."""
    words = ("--partitions", str(cell.partitions), "--value-bytes", "1000")
    size = len(batch_of_count(1, 1000))
    run_load(server, "produce", cell.name, LOAD_SECONDS, *words, "--max-total-bytes", str(cell.partitions * size))


def drop_from_page_cache(files: Iterable[Path]) -> None:
    """Let the next read of these files come from the disk."""
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())  # only what is on disk can be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _run_cell(server: ServerProcess, cell: Cell, round_number: int, seconds: float) -> Result:
    if cell.from_disk:
        drop_from_page_cache((server.directory / "data" / f"{cell.name}-0").glob("*.log"))
    if cell.command == "fetch":
        return run_load(server, "fetch", cell.name, seconds, *cell.arguments, beside=cell.beside)
    limit = ("--max-total-bytes", str(MAX_BYTES_PER_RUN))
    topic = cell.name if cell.partitions > 1 else f"{cell.name}-{round_number}"
    return run_load(server, "produce", topic, seconds, *cell.arguments, *limit)


@contextmanager
def _working_directory(options: argparse.Namespace) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="barnabas-benchmark-", dir=options.directory))
    try:
        yield directory
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)


def _fill_page_cache(directory: Path, gigabytes: float) -> None:
    chunk = bytes(1 << 24)
    with (directory / "page-cache-filler").open("wb") as filler:
        for _ in range(int(gigabytes * 1e9 / len(chunk))):
            filler.write(chunk)


def run(options: argparse.Namespace) -> list[Result]:
    """All rounds; one result a (cell, system, round), printed as it comes."""
    results: list[Result] = []
    cells = [cell for cell in CELLS if cell.name in options.cells]

    def note(cell: str, system: str, round_number: int, result: Result) -> None:
        entry = {"cell": cell, "system": system, "round": round_number} | result
        results.append(entry)
        print(json.dumps(entry), flush=True)

    with _working_directory(options) as directory, ExitStack() as servers:
        if options.fill_page_cache:
            _fill_page_cache(directory, options.fill_page_cache)
        if COLD_START in options.cells:
            for round_number in range(options.rounds):
                for name in options.systems:
                    place = directory / f"cold-{round_number}"
                    note(COLD_START, name, round_number, measure_cold_start(name, place, options))
        if not cells:
            return results
        extra = dict(pair.split("=", 1) for pair in options.override)
        running = {name: _system(name, directory, options, extra) for name in options.systems}
        for name, server in running.items():
            servers.enter_context(server.running())
            server.wait_for_brokers(START_SECONDS)
            _warm(name, server, _cells_of(name, cells))
        for round_number in range(options.rounds):
            for cell in cells:
                for name, server in running.items():
                    if cell in _cells_of(name, cells):
                        note(cell.name, name, round_number, _run_cell(server, cell, round_number, options.seconds))
    return results


def _cells_of(name: str, cells: list[Cell]) -> list[Cell]:
    """A prototype serves no Fetch."""
    return [cell for cell in cells if name != PROTOTYPE or cell.command == "produce"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--systems", nargs="+", default=default_systems(), choices=(*NAMES, PROTOTYPE, BEFORE))
    parser.add_argument("--cells", nargs="+", default=list(CELL_NAMES), choices=CELL_NAMES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each produce or fetch run")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="for every broker")
    parser.add_argument("--prototype", type=Path, help="program of the system `prototype`: python PATH PORT")
    parser.add_argument("--before", type=Path, help="directory with the package of the system `barnabas-before`")
    parser.add_argument("--fill-page-cache", type=float, default=0, metavar="GB", help="write this much first")
    parser.add_argument("--directory", type=Path, help="where data dirs are made (default: the temporary directory)")
    parser.add_argument("--keep", action="store_true", help="leave the data dirs")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/broker"),
        help="path without suffix: .json and .md are written",
    )
    return parser.parse_args()


def main() -> None:
    """Measure, then write the results as JSON and as a markdown table of ratios."""
    options = _options()
    results = run(options)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    report = markdown_report(results)
    options.output.with_suffix(".md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
