"""How long a controller's request takes while the data plane is busy: over the control plane, and without one.

    python -m benchmarks.control_plane                                   # the table; needs about five minutes
    python -m benchmarks.control_plane --output results/control_plane --picture docs/images/control-plane.svg

One sample is one UpdateMetadata (the live brokers, no partitions), sent when the answer to the one before is there.
The data plane is saturated by `--connections` clients with one DescribeLogDirs each in flight, whose handlers, eight
of them, block for 20 ms, or burn 20 ms of CPU time in Python (`benchmarks.adjusted_broker`): all handlers are busy,
and the other requests wait in the queue. Without a control plane the controller's request waits behind them.

Each line is a broker of its own; they are up one after another, because idle ones would hide nothing and busy ones
would disturb. "busy/s" is what the data plane got done meanwhile: what a switch interval costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from benchmarks.control_plane_picture import draw
from benchmarks.wire_requests import Connection

CONTROL, DATA = "CONTROLLER", "PLAINTEXT"
WITH_CONTROL_PLANE = (
    f"listeners={DATA}://127.0.0.1:0,{CONTROL}://127.0.0.1:0",
    f"listener.security.protocol.map={DATA}:PLAINTEXT,{CONTROL}:PLAINTEXT",
    f"inter.broker.listener.name={DATA}",
    f"control.plane.listener.name={CONTROL}",
)
VERSION = 8
CONTROLLER_EPOCH = 1_000_000
"""Far above that of the broker's own controller, whose orders are refused from the first of ours on."""
WARM_SAMPLES = 50
POLL_SECONDS = 0.02
TARGET_BLOCKED, TARGET_BURNING_MS, TARGET_GAIN = 5, 50, 10


class Scene(NamedTuple):
    """One line of the table."""

    name: str
    work: str
    control_plane: bool
    switch_interval_ms: float | None = None
    """None: as the broker sets it."""


SCENES = (
    Scene("idle", "none", control_plane=True),
    Scene("handlers block", "block", control_plane=True),
    Scene("handlers block, no control plane", "block", control_plane=False),
    Scene("handlers burn", "burn", control_plane=True),
    Scene("handlers burn, no control plane", "burn", control_plane=False),
    Scene("handlers burn, interval 5 ms", "burn", control_plane=True, switch_interval_ms=5),
)


class Seen(NamedTuple):
    """What came of a scene: milliseconds of each sample, and busy requests answered a second."""

    latencies_ms: list[float]
    busy_per_second: float

    def percentile(self, share: float) -> float:
        """The latency that `share` of the samples did not exceed."""
        ordered = sorted(self.latencies_ms)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def controller_frame(ports: dict[str, int]) -> bytes:
    """UpdateMetadata of the one live broker, size prefix included."""
    endpoints = [
        UpdateMetadataRequest.UpdateMetadataEndpoint(port, "127.0.0.1", name, 0) for name, port in ports.items()
    ]
    request = UpdateMetadataRequest(
        controller_id=0,
        controller_epoch=CONTROLLER_EPOCH,
        broker_epoch=-1,
        live_brokers=[UpdateMetadataRequest.UpdateMetadataBroker(id=0, endpoints=endpoints)],
    )
    out = bytearray(encode_request_header(int(UpdateMetadataRequest.api_key), VERSION, 1, "the benchmark"))
    request.encoders[VERSION](request, out)
    return len(out).to_bytes(4, "big") + bytes(out)


@contextmanager
def broker(scene: Scene) -> Iterator[dict[str, int]]:
    """A broker of that scene; its ports by listener name."""
    with tempfile.TemporaryDirectory() as data_dir:
        command = [sys.executable, "-m", "benchmarks.adjusted_broker", "--work", scene.work, "--data-dir", data_dir]
        if scene.control_plane:
            command += [word for setting in WITH_CONTROL_PLANE for word in ("--set", setting)]
        if scene.switch_interval_ms is not None:
            command += ["--switch-interval-ms", str(scene.switch_interval_ms)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
            process.communicate()


@contextmanager
def saturated(port: int, connections: int) -> Iterator[Path]:
    """Clients in a process of their own keep the data plane busy; the file holds how many answers they have had."""
    with tempfile.NamedTemporaryFile() as counter:
        command = [sys.executable, "-m", "benchmarks.control_plane_load", str(port), str(connections), counter.name]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            while _answers(Path(counter.name)) < 2 * connections:  # all of them are asking by now
                time.sleep(POLL_SECONDS)
            yield Path(counter.name)
            process.communicate()


def sample(port: int, frame: bytes, count: int, seconds: float) -> list[float]:
    """Milliseconds of `count` requests, one after another; fewer when the time is up."""
    connection = Connection("127.0.0.1", port)
    for _ in range(WARM_SAMPLES):
        check_answer(connection.call(frame))
    taken: list[float] = []
    end = time.monotonic() + seconds
    while len(taken) < count and time.monotonic() < end:
        started = time.perf_counter()
        answer = connection.call(frame)
        taken.append((time.perf_counter() - started) * 1e3)
        check_answer(answer)
    connection.close()
    return taken


def check_answer(answer: Sequence[int]) -> None:
    """Raise unless an UpdateMetadata v6+ answer (without its size prefix) has no error."""
    error = int.from_bytes(bytes(answer[5:7]), "big", signed=True)
    if error:
        raise RuntimeError(f"UpdateMetadata was refused with error {error}")


def run_scene(scene: Scene, options: argparse.Namespace) -> Seen:
    """Start the broker, saturate it, take the samples."""
    with broker(scene) as ports:
        port = ports[CONTROL] if scene.control_plane else ports[DATA]
        frame = controller_frame(ports)
        if scene.work == "none":
            return Seen(sample(port, frame, options.samples, options.seconds), 0)
        with saturated(ports[DATA], options.connections) as counter:
            before, started = _answers(counter), time.monotonic()
            taken = sample(port, frame, options.samples, options.seconds)
            rate = (_answers(counter) - before) / (time.monotonic() - started)
            return Seen(taken, rate)


def _answers(counter: Path) -> int:
    return int(counter.read_text() or "0")


def table(results: dict[str, Seen]) -> str:
    """Markdown, with the targets below."""
    idle = results["idle"].percentile(0.5)
    lines = [
        "| data plane | samples | p50 ms | p99 ms | max ms | p50 to idle | busy/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, seen in results.items():
        p50, p99, most = seen.percentile(0.5), seen.percentile(0.99), max(seen.latencies_ms)
        row = (name, len(seen.latencies_ms), f"{p50:.3g}", f"{p99:.3g}", f"{most:.3g}", f"{p50 / idle:.1f}")
        lines.append(f"| {' | '.join(map(str, row))} | {seen.busy_per_second:.3g} |")
    lines.append("")
    if "handlers block" in results:
        blocked = results["handlers block"]
        mean = statistics.fmean(blocked.latencies_ms) / statistics.fmean(results["idle"].latencies_ms)
        p50 = blocked.percentile(0.5) / idle
        lines.append(f"Blocked: {p50:.1f}x idle by median, {mean:.1f}x by mean; target at most {TARGET_BLOCKED}x.")
    if {"handlers burn", "handlers burn, no control plane"} <= results.keys():
        p99 = results["handlers burn"].percentile(0.99)
        gain = results["handlers burn, no control plane"].percentile(0.99) / p99
        lines.append(
            f"Burning: p99 {p99:.1f} ms, target at most {TARGET_BURNING_MS} ms; {gain:.0f}x better than without"
            f" the control plane, target at least {TARGET_GAIN}x."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table; write samples and picture where asked for."""
    names = [scene.name for scene in SCENES]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenes", nargs="+", default=names, choices=names, help="besides idle")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120, help="at most, of each scene: fewer samples then")
    parser.add_argument("--connections", type=int, default=32, help="clients that keep the handlers busy")
    parser.add_argument("--output", type=Path, help="path without suffix: .json and .md are written")
    parser.add_argument("--picture", type=Path, help="where to draw it (.svg or .png)")
    parser.add_argument("--drawn-from", type=Path, help="only draw, what an earlier --output .json holds")
    options = parser.parse_args()
    if options.drawn_from:
        earlier = json.loads(options.drawn_from.read_text())
        draw({name: seen["latencies_ms"] for name, seen in earlier.items()}, options.picture)
        return
    results = {scene.name: run_scene(scene, options) for scene in SCENES if scene.name in ("idle", *options.scenes)}
    report = table(results)
    print(report)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.with_suffix(".json").write_text(json.dumps({k: v._asdict() for k, v in results.items()}) + "\n")
        options.output.with_suffix(".md").write_text(report)
    if options.picture:
        draw({name: seen.latencies_ms for name, seen in results.items()}, options.picture)


if __name__ == "__main__":
    main()
