"""The cleaner on a simulated disk, its work done in this process: for tests of what it keeps and how it survives."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.records.compression import Codec
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.runtime.files import Files
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner import LogCleaner
from barnabas.storage.cleaner.log_cleaner_manager import CleanerLogs
from barnabas.storage.cleaner.work import CleanerWork
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_append_info import AppendOrigin
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import NOW, Broker, log_config, read_all


class CleanedBroker(Broker):
    """A broker with a cleaner that has no threads: `clean` is one round of it."""

    def __init__(self, files: Files | None = None, *, cleaner: CleanerConfig | None = None, **settings: object) -> None:
        self.cleaner_config = cleaner or CleanerConfig(threads=0)
        self.pauses: list[float] = []
        defaults: dict[str, object] = {
            "cleanup_policy": "compact",
            "min_cleanable_dirty_ratio": "0.0",
            "segment_bytes": 1000,
            "index_interval_bytes": 0,
        }
        super().__init__(files, config=log_config(**(defaults | settings)), make_cleaner=self._make_cleaner)

    def start(self) -> None:
        if isinstance(self.files, SimulatedFiles):
            self.files.now_ms = self.clock.milliseconds
        super().start()

    def _make_cleaner(self, log_dirs: Sequence[str], logs: CleanerLogs) -> LogCleaner:
        return LogCleaner(
            self.cleaner_config,
            log_dirs,
            logs,
            self.files,
            self.clock,
            make_worker=lambda: CleanerWork(self.files, clock=self.clock, sleep=self.pauses.append),
        )

    @property
    def cleaner(self) -> LogCleaner:
        assert self.manager.cleaner is not None
        return self.manager.cleaner

    def clean(self) -> bool:
        return self.cleaner.clean_once()


def append(log: UnifiedLog, *records: tuple[bytes, bytes | None], codec: Codec = Codec.NONE, timestamp: int = 0) -> int:
    """Append one batch, let consumers see it; returns its base offset."""
    builder = RecordBatchBuilder(codec)
    for number, (key, value) in enumerate(records):
        builder.append(timestamp + number, key, value)
    return append_batch(log, builder)


def append_batch(log: UnifiedLog, builder: RecordBatchBuilder) -> int:
    info = log.append_as_leader(builder.build(), leader_epoch=0)
    log.raise_high_watermark_to_end()
    return info.first_offset


def stored(log: UnifiedLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record of users in the log."""
    found = []
    for data in read_all(log, max_bytes=1 << 20):
        batch = RecordBatch(data)
        batch.check()
        if not batch.is_control:
            found += [(record.offset, record.key, record.value) for record in batch.records()]
    return found


class Producer:
    """An idempotent producer of one log, with transactions if it is told so."""

    def __init__(self, log: UnifiedLog, producer_id: int, *, transactional: bool = True) -> None:
        self.log = log
        self.producer_id = producer_id
        self.transactional = transactional
        self.sequence = 0

    def send(self, *records: tuple[bytes, bytes | None]) -> int:
        builder = RecordBatchBuilder(
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self.sequence,
            is_transactional=self.transactional,
        )
        for key, value in records:
            builder.append(NOW, key, value)
        self.sequence += len(records)
        return append_batch(self.log, builder)

    def end(self, *, abort: bool = False) -> int:
        marker = EndTransactionMarker(abort, 0, NOW).batch(self.producer_id, 0)
        info = self.log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
        self.log.raise_high_watermark_to_end()
        return info.first_offset


def committed_offsets(log: UnifiedLog) -> list[int]:
    """What a consumer with isolation.level=read_committed takes."""
    found: list[int] = []
    offset, stable = log.log_start_offset, log.last_stable_offset
    while offset < stable:
        data = log.read(offset, 1 << 20, FetchIsolation.TXN_COMMITTED)
        raw = data.records if isinstance(data.records, bytes) else data.records.read()
        data.release()
        aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or [])
        active: set[int] = set()
        position = 0
        if not raw:
            break
        while position < len(raw):
            view = RecordBatch(raw, position)
            position = view.end
            offset = view.next_offset
            while aborted and aborted[0][0] <= view.last_offset:
                active.add(aborted.pop(0)[1])
            if view.is_control:
                marker = EndTransactionMarker.of(view)
                if marker is not None and marker.is_abort:
                    active.discard(view.producer_id)
            elif view.producer_id not in active:
                found += [record.offset for record in view.records()]
    return found
