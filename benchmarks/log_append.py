"""What one append costs: our log at each `record.validation`, beside the bare append of the prototype, in one run.

usage: python benchmarks/log_append.py [--directory DIR] [--seconds 1.0]
Prints CPU microseconds per append (median and best of interleaved rounds), with the share of the write alone. The
prototype checks header, CRC and record lengths, writes and counts, with no errors, epochs, rolls or watermarks.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial

from crc32c import crc32c

from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import LogConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.runtime.scheduler import ThreadScheduler
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.log_manager import LogManager

CASES = ((1, 100), (150, 100), (95, 1024), (1000, 1024))
"""Records in a batch, bytes in a record."""
BATCH = struct.Struct(">qiibIhiqqqhii")
PREFIX = struct.Struct(">qii")


class PrototypeLog:
    """The append of the prototype that showed what Python can do."""

    def __init__(self, path: str, *, framing: bool) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
        self.framing = framing
        self.leo = self.position = self.since_index = 0
        self.max_timestamp = -1
        self.index: list[tuple[int, int]] = []
        self.lock = threading.Lock()

    def _walk(self, view: memoryview, position: int, end: int, count: int) -> None:
        found = 0
        while position < end:
            byte = view[position]
            position += 1
            value = byte & 127
            shift = 7
            while byte > 127:
                byte = view[position]
                position += 1
                value |= (byte & 127) << shift
                shift += 7
            position += (value >> 1) ^ -(value & 1)
            found += 1
        if position != end or found != count:
            raise ValueError("record count")

    def append(self, view: memoryview) -> int:
        """Check, write and count one batch; returns its offset."""
        _, length, _, magic, crc, attributes, delta, _, max_timestamp, _, _, _, count = BATCH.unpack_from(view, 0)
        end = 12 + length
        if magic != 2 or length < 49 or end > len(view) or count != delta + 1 or count < 1 or attributes & 0x20:
            raise ValueError("batch header")
        if crc32c(view[21:end]) != crc:
            raise ValueError("crc")
        if self.framing and not attributes & 7:
            self._walk(view, 61, end, count)
        with self.lock:
            base = self.leo
            written = os.pwritev(self.fd, [PREFIX.pack(base, length, 0), view[16:end]], self.position)
            if written != end:
                raise OSError("short write")
            self.max_timestamp = max(self.max_timestamp, max_timestamp)
            if self.since_index > 4096:
                self.index.append((base, self.position))
                self.since_index = 0
            self.since_index += end
            self.position += end
            self.leo = base + delta + 1
        return base


def make_batch(records: int, size: int) -> bytes:
    """Build a batch of equal records."""
    builder = RecordBatchBuilder()
    now = time.time_ns() // 1_000_000
    for _ in range(records):
        builder.append(now, None, b"x" * size)
    return builder.build()


def make_log(manager: LogManager, broker: KafkaConfig, name: str, validation: str) -> UnifiedLog:
    """Make a log with a level of validation."""
    config = LogConfig.of(broker, {"record.validation": validation, "max.message.bytes": "10000000"})
    return manager.get_or_create_log(TopicPartition(name, 0), log_config=config)


def measure(append: Callable[[memoryview], object], view: memoryview, seconds: float) -> float:
    """CPU microseconds of this thread per call: what else the machine does counts little."""
    calls = 0
    begin = time.thread_time()
    while True:
        for _ in range(20):
            append(view)
        calls += 20
        took = time.thread_time() - begin
        if took >= seconds:
            return took / calls * 1e6


def measure_case(
    manager: LogManager, broker: KafkaConfig, directory: str, case: tuple[int, int], seconds: float
) -> None:
    """Measure all kinds of append with one shape of batch, in turns, and print a table."""
    records, size = case
    view = memoryview(make_batch(records, size))
    appends: dict[str, Callable[[memoryview], object]] = {}
    fd = os.open(os.path.join(directory, f"raw-{records}-{size}"), os.O_CREAT | os.O_RDWR)
    position = 0

    def write_only(data: memoryview) -> None:
        nonlocal position
        position += os.pwritev(fd, [data[:16], data[16:]], position)

    appends["pwritev alone"] = write_only
    for framing in (False, True):
        name = "prototype " + ("framing" if framing else "header")
        appends[name] = PrototypeLog(os.path.join(directory, f"{name}-{records}-{size}"), framing=framing).append
    for validation in ("header", "framing", "full"):
        log = make_log(manager, broker, f"{validation}-{records}-{size}", validation)
        appends["log " + validation] = partial(log.append_as_leader, leader_epoch=0)
    rounds: dict[str, list[float]] = {name: [] for name in appends}
    for _ in range(5):
        for name, append in appends.items():
            rounds[name].append(measure(append, view, seconds / 5))
    print(f"\n{records} x {size} B ({len(view)} bytes): CPU us per append, median (best); ratio to the prototype")
    for name, figures in rounds.items():
        reference = rounds["prototype header" if name.endswith("header") else "prototype framing"]
        ratio = statistics.median(figures) / statistics.median(reference)
        print(f"  {name:20} {statistics.median(figures):9.2f} ({min(figures):9.2f})  {ratio:5.2f}")


def measure_reads(manager: LogManager, broker: KafkaConfig, seconds: float) -> None:
    """Print what reads cost at different places of a log."""
    log = make_log(manager, broker, "reads", "framing")
    view = memoryview(make_batch(1, 100))
    for _ in range(20_000):
        log.append_as_leader(view, 0)
    log.maybe_increment_high_watermark(log.local.end)
    end = log.log_end_offset
    for name, start in (("at the end", end), ("newest batch", end - 1), ("in memory index", end - 500), ("old", 500)):

        def read(_: memoryview, start: int = start) -> None:
            log.read(start, 1 << 20, FetchIsolation.HIGH_WATERMARK).release()

        print(f"  read {name:16} {measure(read, view, seconds):9.2f} us")


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", default=None, help="where the logs go; on the disk to be measured")
    parser.add_argument("--seconds", type=float, default=1.0, help="per figure")
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(dir=arguments.directory)
    broker = KafkaConfig.parse({}, "defaults")
    clock = SystemClock()
    scheduler = ThreadScheduler(1, clock)
    scheduler.start()
    config = LogConfig.of(broker)
    files = OperatingSystemFiles()
    directories = LogDirectories([directory], files, lambda _log_dir: None)
    directories.open()
    manager = LogManager(directories, files, scheduler, clock, LogManagerConfig(), lambda _topic: config)
    manager.startup()
    try:
        for case in CASES:
            measure_case(manager, broker, directory, case, arguments.seconds)
        print()
        measure_reads(manager, broker, arguments.seconds / 2)
    finally:
        manager.shutdown()
        directories.release()
        scheduler.shutdown()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
