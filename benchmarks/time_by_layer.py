"""Where a request's time goes: profiles the network thread of a broker in this process, summed by package.

    python -m benchmarks.time_by_layer                     # all produce cells, and fetches from the page cache
    python -m benchmarks.time_by_layer --cells p-100b p-16k --functions 20

The profiler's own cost falls on small functions, so shares say where to look, not what a change would win. System calls
include waiting for the GIL, and for the other core when the machine is busy. Requests run at once, on one thread.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Self

from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.network.processor import Processor
from benchmarks.cells import CELLS, Cell
from benchmarks.systems import SHARED

SYSTEM_CALLS = ("send", "sendmsg", "recv", "recv_into", "pwritev", "pread", "preadv", "sendfile", "poll", "epoll")
SECONDS = 3.0
LOADED_BYTES = 100_000_000
"""Of the topic that a fetch reads, round and round."""
SHARE_SHOWN = 0.01
WAITING = "waiting for readiness"


class ProfiledProcessors:
    """Puts a profiler around every Processor's loop, for as long as the block lasts."""

    def __init__(self) -> None:
        self.profiles: list[cProfile.Profile] = []
        self._run = Processor.run

    def __enter__(self) -> Self:
        original, profiles = self._run, self.profiles

        def run(processor: Processor) -> None:
            profile = cProfile.Profile()
            profiles.append(profile)
            profile.enable()
            try:
                original(processor)
            finally:
                profile.disable()

        Processor.run = run  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Processor.run = self._run  # type: ignore[method-assign]


def measure(cell: Cell) -> tuple[dict[str, Any], pstats.Stats]:
    """Run one cell against a broker in this process; what the generator saw, and the profile."""
    with tempfile.TemporaryDirectory() as data_dir, ProfiledProcessors() as profiled:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": data_dir, "num.network.threads": "1"}
        broker = BrokerServer(KafkaConfig.parse(SERVER_DEFAULTS | SHARED | settings, "the benchmark"))
        broker.startup()
        port = broker.bound_endpoints[0].port
        if cell.loaded_bytes:
            size = ["--batch-bytes", str(cell.loaded_batch_bytes), "--value-bytes", "1000", "--depth", "5"]
            _generate(port, cell.name, "produce", *size, "--max-total-bytes", str(LOADED_BYTES))
            for profile in profiled.profiles:
                profile.clear()
        load = _generate(port, cell.name, cell.command, *cell.arguments)
        broker.shutdown()
    return load, pstats.Stats(*profiled.profiles)


def _generate(port: int, topic: str, command: str, *arguments: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.load_generator", command, "--port", str(port), "--topic", topic]
    done = subprocess.run([*words, "--seconds", str(SECONDS), *arguments], capture_output=True, text=True, check=True)
    load: dict[str, Any] = json.loads(done.stdout)
    return load


def by_layer(stats: pstats.Stats) -> dict[str, float]:
    """Seconds by package of ours, by system call, and the rest (built-ins, standard library)."""
    layers: defaultdict[str, float] = defaultdict(float)
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats  # type: ignore[attr-defined]
    for (file, _, function), (_, _, own_seconds, _, _) in entries.items():
        layers[_layer_of(file, function)] += own_seconds
    return dict(sorted(layers.items(), key=lambda item: -item[1]))


def _layer_of(file: str, function: str) -> str:
    if "/barnabas/" in file:
        package = Path(file.split("/barnabas/")[1]).parts[0]
        # under the profiler the poll is called from here, and its wait counts as its own
        return WAITING if (package, function) == ("transport", "wait") else package
    if file.startswith("<") and file.endswith(("code>", "decode>")):
        return "protocol"
    for call in SYSTEM_CALLS:
        if f"'{call}'" in function or function.endswith(f".{call}>"):
            return f"{call}()"
    return "built-ins and standard library"


def main() -> None:
    """Print a table a cell."""
    names = [cell.name for cell in CELLS if not cell.from_disk]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", nargs="+", default=names, choices=names)
    parser.add_argument("--functions", type=int, default=0, help="also list this many functions")
    options = parser.parse_args()
    for cell in CELLS:
        if cell.name not in options.cells:
            continue
        with redirect_stdout(sys.stderr):
            load, stats = measure(cell)
        layers = by_layer(stats)
        layers.pop(WAITING, None)
        busy = sum(layers.values())
        print(f"\n**{cell.name}: {cell.what}**\n\n| where | us a request | share |\n|---|---|---|")
        for layer, seconds in layers.items():
            if seconds < busy * SHARE_SHOWN:
                break
            print(f"| {layer} | {seconds / load['requests'] * 1e6:.1f} | {seconds / busy:.0%} |")
        if options.functions:
            stats.sort_stats("tottime").print_stats(options.functions)


if __name__ == "__main__":
    main()
