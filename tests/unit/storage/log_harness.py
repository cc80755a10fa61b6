"""Logs on a simulated disk with a clock that stands still: what the storage and simulation tests share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import LogConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.file_records import FileRecords
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.runtime.files import Files
from barnabas.storage.cleaner.log_cleaner import LogCleaner
from barnabas.storage.cleaner.log_cleaner_manager import CleanerLogs
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.log_manager import LogManager
from barnabas.storage.segment.batch_scan import find_batch, scan_batches
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.time_index import TimestampOffset
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.simulated_files import SimulatedFiles

MakeCleaner = Callable[[Sequence[str], CleanerLogs], LogCleaner]

LOG_DIR = "/data"
PARTITION = TopicPartition("topic", 0)
NOW = 1_700_000_000_000
BROKER = KafkaConfig.parse({}, "defaults")


class NoLock:
    """A simulated disk has no locks."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def release(self) -> None:
        pass


def log_config(**overrides: object) -> LogConfig:
    """Topic settings, with underscores for dots."""
    return LogConfig.of(BROKER, {name.replace("_", "."): str(value) for name, value in overrides.items()})


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    size: int = 20,
    codec: Codec = Codec.NONE,
    key: bytes | None = b"key",
    chance: random.Random | None = None,
) -> bytes:
    """A produced batch, its values random if there is chance."""
    builder = RecordBatchBuilder(codec)
    for number in range(count):
        value = chance.randbytes(size) if chance else bytes([number % 256]) * size
        builder.append(timestamp + number, key, value)
    return builder.build()


class Broker:
    """A log manager that can crash and start again. Topic settings are `config`.

    Unless `manager_config` says so, transactions begin without a verification: there is no coordinator to ask.
    """

    def __init__(
        self,
        files: Files | None = None,
        *,
        config: LogConfig | None = None,
        log_dirs: tuple[str, ...] = (LOG_DIR,),
        manager_config: LogManagerConfig | None = None,
        seed: int = 0,
        make_cleaner: MakeCleaner | None = None,
    ) -> None:
        self.files = files if files is not None else SimulatedFiles()
        self.config = config or log_config()
        self.log_dirs = log_dirs
        self.manager_config = manager_config or LogManagerConfig(verifies_transactions=False)
        self.clock = MockClock()
        if isinstance(self.files, SimulatedFiles):
            self.files.now_ms = self.clock.milliseconds
        self.random = random.Random(seed)
        self.failed_dirs: list[str] = []
        self.make_cleaner = make_cleaner
        self.start()

    def start(self) -> None:
        self.scheduler = MockScheduler(self.clock)
        self.manager = self.new_manager()
        self.manager.startup(make_cleaner=self.make_cleaner)

    def new_manager(self) -> LogManager:
        """Over directories that have been opened; without logs until its `startup`."""
        self.directories = LogDirectories(self.log_dirs, self.files, self.failed_dirs.append, NoLock)
        self.directories.open()
        return LogManager(
            self.directories,
            self.files,
            self.scheduler,
            self.clock,
            self.manager_config,
            self.config_of,
            self.random,
        )

    def config_of(self, topic: str) -> LogConfig:
        """The settings of a topic."""
        return self.config

    def log(self, topic_partition: TopicPartition = PARTITION) -> UnifiedLog:
        return self.manager.get_or_create_log(topic_partition)

    def restart(self) -> UnifiedLog:
        """Stop in order and start."""
        self.manager.shutdown()
        self.start()
        return self.log()

    def kill(self) -> UnifiedLog:
        """kill -9 and start: the page cache survives."""
        assert isinstance(self.files, SimulatedFiles)
        self.files.kill()
        self.start()
        return self.log()

    def crash(self) -> UnifiedLog:
        """Power off and start."""
        assert isinstance(self.files, SimulatedFiles)
        self.files.crash(self.random)
        self.start()
        return self.log()


def read_all(log: UnifiedLog, isolation: FetchIsolation = FetchIsolation.LOG_END, max_bytes: int = 1000) -> list[bytes]:
    """Every batch of the log as stored, read as a consumer would: in pieces, going on behind the last whole batch."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while True:
        data = log.read(offset, max_bytes, isolation, min_one_message=True)
        records = data.records.read() if isinstance(data.records, FileRecords) else data.records
        data.release()
        batches = list(any_batches(records))
        if not batches:
            assert not records
            return found
        found += [bytes(one.buffer[one.position : one.end]) for one in batches if one.last_offset >= offset]
        offset = batches[-1].next_offset


def offsets(batches: list[bytes]) -> list[tuple[int, int]]:
    """First and last offsets of stored batches."""
    views = [RecordBatch(one) for one in batches]
    return [(view.base_offset, view.last_offset) for view in views]


def without_place(stored: bytes) -> bytes:
    """A batch without what the broker sets: base offset, length and leader epoch."""
    return stored[16:]


def check_indexes(log: UnifiedLog) -> int:
    """Assert that every index entry says the truth about the log; returns the number of entries."""
    return sum(check_segment_indexes(segment) for segment in log.local.segments)


def check_segment_indexes(segment: LogSegment) -> int:
    batches = list(scan_batches(segment.file, 0, segment.size))
    index, times = segment.indexes.offsets, segment.indexes.times
    entries = [index.entry(number) for number in range(index.entries)]
    for entry in entries:
        place = find_batch(segment.file, segment.base_offset, entry.position, segment.size)
        assert place is not None
        assert (place.position, place.last_offset) == (entry.position, entry.offset)
        assert index.lookup(entry.offset) == entry
    assert entries == sorted(entries)
    time_entries = [_pair(times.entry(number)) for number in range(times.entries)]
    for timestamp, offset in time_entries:
        upto = [one for one in batches if one.last_offset <= offset]
        assert upto[-1].last_offset == offset
        assert upto[-1].max_timestamp == timestamp == max(one.max_timestamp for one in upto)
    assert time_entries == sorted(time_entries)
    largest = max(((one.max_timestamp, -one.last_offset) for one in batches), default=None)
    if largest is not None and largest[0] >= 0:
        assert _pair(segment.max_timestamp_and_offset()) == (largest[0], -largest[1])
    return len(entries) + len(time_entries)


def _pair(entry: TimestampOffset) -> tuple[int, int]:
    return entry.timestamp, entry.offset


def fault_once(call: str, error: OSError, path_ends: str = "") -> Callable[[str, str], OSError | None]:
    """A fault for `SimulatedFiles`: the next such call on such a path fails."""
    pending = [error]

    def fault(made: str, path: str) -> OSError | None:
        return pending.pop() if pending and made == call and path.endswith(path_ends) else None

    return fault


def produced(
    producer_id: int,
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    transactional: bool = False,
    timestamp: int = NOW,
) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=transactional
    )
    for number in range(count):
        builder.append(timestamp, b"key", b"%d" % (sequence + number))
    return builder.build()
