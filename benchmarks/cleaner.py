"""How fast the log cleaner is, ours against Apache Kafka 3.9's on the same input.

    python -m benchmarks.cleaner [--megabytes 500] [--keys 100000] [--rounds 5] [--systems apache-kafka barnabas]

A round writes the same keyed records to a new topic of every system, in segments of 64 MB, then sets
`cleanup.policy=compact` and waits until `cleaner-offset-checkpoint` covers all closed segments. MB/s is the bytes of
those segments by the time from the setting on; it has up to 0.1 s of waiting in it, the cleaner's pause between looks.
CPU seconds and peak memory are those of the broker and its child processes. The JVM is warmed by a first round that
does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import crc32c

from benchmarks.process_usage import TreeUsage
from benchmarks.systems import NAMES, REFERENCE, make_system
from benchmarks.wire_requests import (
    Connection,
    check_produce_answer,
    check_set_topic_setting_answer,
    produce_frame,
    set_topic_setting_frame,
    varint,
)
from tests.support.server_process import ServerProcess

MB = 1_000_000
SEGMENT_BYTES = 64 * MB
RECORDS_PER_BATCH = 100
VALUE_BYTES = 1000
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.cleaner.enable": "true", "log.cleaner.threads": "1"}
TOPIC_SETTINGS = {
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
}
CLEAN_SECONDS = 600
SAMPLE_SECONDS = 0.02


class Cleaning(NamedTuple):
    """What one cleaning cost: seconds, bytes before and after, CPU seconds, peak memory of all processes."""

    seconds: float
    before_bytes: int
    after_bytes: int
    cpu_seconds: float
    peak_mib: float


def keyed_batches(total_bytes: int, keys: int, seed: int) -> Iterator[bytes]:
    """Batches of records with keys drawn at random from so many: the same for every system."""
    chance = random.Random(seed)
    noise = chance.randbytes(VALUE_BYTES * 2)
    written = 0
    now_ms = int(time.time() * 1000)
    while written < total_bytes:
        records = bytearray()
        for index in range(RECORDS_PER_BATCH):
            key = b"key-%012d" % chance.randrange(keys)
            start = chance.randrange(VALUE_BYTES)
            value = noise[start : start + VALUE_BYTES]
            body = b"\0\0" + varint(index) + varint(len(key)) + key + varint(VALUE_BYTES) + value + b"\0"
            records += varint(len(body)) + body
        last = RECORDS_PER_BATCH - 1
        after_crc = struct.pack(">hiqqqhii", 0, last, now_ms, now_ms, -1, -1, -1, RECORDS_PER_BATCH) + records
        after_length = struct.pack(">ibI", 0, 2, crc32c.crc32c(after_crc)) + after_crc
        batch = struct.pack(">qi", 0, len(after_length)) + after_length
        written += len(batch)
        yield batch


def clean_once(server: ServerProcess, topic: str, total_bytes: int, keys: int) -> Cleaning:
    """Write a topic, let it be cleaned, wait for that."""
    connection = Connection(server.host, server.port)
    connection.create_topic(topic, 1, TOPIC_SETTINGS)
    for batch in keyed_batches(total_bytes, keys, seed=1):
        check_produce_answer(connection.call(produce_frame(topic, 0, batch, 1)))
    data_dir = server.directory / "data"
    closed = sorted((data_dir / f"{topic}-0").glob("*.log"))
    active = closed.pop()
    before_bytes = sum(path.stat().st_size for path in closed)
    usage = TreeUsage(server.pid)
    began = time.perf_counter()
    check_set_topic_setting_answer(connection.call(set_topic_setting_frame(topic, "cleanup.policy", "compact")))
    while cleaned_up_to(data_dir, topic) < int(active.stem):
        usage.sample()
        if time.perf_counter() - began > CLEAN_SECONDS:
            raise TimeoutError(f"{server.name} has not cleaned {topic} within {CLEAN_SECONDS} s")
        time.sleep(SAMPLE_SECONDS)
    seconds = time.perf_counter() - began
    usage.sample()
    left = [path for path in (data_dir / f"{topic}-0").glob("*.log") if path.name < active.name]
    connection.close()
    after_bytes = sum(path.stat().st_size for path in left)
    return Cleaning(seconds, before_bytes, after_bytes, usage.cpu_seconds, usage.peak_mib)


def cleaned_up_to(data_dir: Path, topic: str) -> int:
    """The first offset of partition 0 that the cleaner's checkpoint says is dirty; 0 when it says nothing."""
    try:
        lines = (data_dir / "cleaner-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(words[2]) for words in map(str.split, lines) if words[:2] == [topic, "0"]), 0)


def report(found: dict[str, list[Cleaning]]) -> str:
    """A table of medians, with ratios of the speeds and the lowest and highest of a single round."""
    lines = ["| system | MB/s | s | MB before | MB after | CPU s/GB | peak MiB | ratio | ratios by round |"]
    lines.append("|" + "---|" * 9)
    reference = [each.before_bytes / each.seconds for each in found.get(REFERENCE, [])]
    for name, cleanings in found.items():
        speeds = [each.before_bytes / each.seconds for each in cleanings]
        ratio = spread = "-"
        if reference:
            ratios = [ours / theirs for ours, theirs in zip(speeds, reference, strict=True)]
            ratio = f"{median(speeds) / median(reference):.2f}"
            spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        figures = (
            f"{median(speeds) / MB:.1f}",
            f"{median(each.seconds for each in cleanings):.2f}",
            f"{cleanings[0].before_bytes / MB:.0f}",
            f"{cleanings[0].after_bytes / MB:.0f}",
            f"{median(each.cpu_seconds / each.before_bytes * 1e9 for each in cleanings):.2f}",
            f"{median(each.peak_mib for each in cleanings):,.0f}",
        )
        lines.append(f"| {name} | {' | '.join(figures)} | {ratio} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=500, help="written to the topic in each round")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--systems", nargs="+", choices=NAMES, default=[REFERENCE, "barnabas"])
    parser.add_argument("--directory", help="where data directories are made; the system's temporary one if unset")
    options = parser.parse_args()
    found: dict[str, list[Cleaning]] = {name: [] for name in options.systems}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        servers = {name: make_system(name, place, None, SETTINGS) for name in options.systems}
        for server in servers.values():
            stack.callback(server.close)
            server.start()
        for round_number in range(options.rounds + 1):
            for name, server in servers.items():
                topic = f"cleaned-{round_number}"
                cleaning = clean_once(server, topic, options.megabytes * MB, options.keys)
                print(json.dumps({"system": name, "round": round_number, **cleaning._asdict()}), flush=True)
                if round_number:
                    found[name].append(cleaning)
    print(f"\n{options.megabytes} MB, {options.keys} keys, {options.rounds} rounds, {os.cpu_count()} cores, medians\n")
    print(report(found))


if __name__ == "__main__":
    main()
