"""The life of one broker on one disk, beside a model of every batch ever appended."""

from __future__ import annotations

import collections
import random
from itertools import pairwise

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.record_batch import RecordBatch
from barnabas.storage.log.unified_log import UnifiedLog
from tests.support.simulated_files import SimulatedFiles
from tests.unit.storage.log_harness import Broker, batch, check_indexes, log_config, read_all

STEPS = 120
CONFIG = {"segment_bytes": 1500, "index_interval_bytes": 200, "segment_index_bytes": 120, "file_delete_delay_ms": 100}


class History:
    """One broker's life on one disk."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = SimulatedFiles()
        flush_messages = self.chance.choice((1, 7, 10_000))
        self.broker = Broker(self.files, config=log_config(**CONFIG, flush_messages=flush_messages), seed=seed)
        self.log = self.broker.log()
        self.model: list[bytes] = []
        self.epoch = 0
        self.durable = 0
        self.start = 0
        self.done: collections.Counter[str] = collections.Counter()

    def run(self) -> None:
        steps = (
            (self.append, 12),
            (self.flush, 2),
            (self.roll, 1),
            (self.background, 3),
            (self.checkpoint, 1),
            (self.truncate, 0.4),
            (self.delete_records, 0.6),
            (self.fill_disk, 0.5),
            (self.new_leader, 0.7),
            (self.stop, 0.4),
            (self.kill, 0.7),
            (self.crash, 1.2),
        )
        kinds, weights = zip(*steps, strict=True)
        for _ in range(STEPS):
            step = self.chance.choices(kinds, weights)[0]
            self.done[step.__name__] += 1
            step()
            self.durable = max(self.durable, self.log.local.recovery_point)
        self.crash()

    def append(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            produced = batch(self.chance.randint(1, 5), size=self.chance.randint(1, 120), chance=self.chance)
            self.append_one(produced)
        self.log.maybe_increment_high_watermark(self.log.local.end)

    def append_one(self, produced: bytes) -> None:
        info = self.log.append_as_leader(produced, self.epoch)
        assert info.first_offset == (RecordBatch(self.model[-1]).next_offset if self.model else self.start)
        stored = bytearray(produced)
        stored[:8] = int(info.first_offset).to_bytes(8, "big")
        stored[12:16] = self.epoch.to_bytes(4, "big")
        self.model.append(bytes(stored))

    def flush(self) -> None:
        self.log.flush()
        assert self.log.local.recovery_point == self.log.log_end_offset

    def roll(self) -> None:
        if self.log.local.segments.active.size:
            self.log.roll()

    def background(self) -> None:
        self.broker.scheduler.tick(self.chance.choice((0, 50, 200)))

    def checkpoint(self) -> None:
        self.broker.manager.checkpoints.write_recovery_points()
        self.broker.manager.checkpoints.write_log_start_offsets()

    def truncate(self) -> None:
        target = self.chance.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.log.truncate_to(target)
        self.model = [one for one in self.model if RecordBatch(one).last_offset < target]
        self.durable = min(self.durable, self.log.log_end_offset)
        self.start = self.log.log_start_offset  # lower than before, if it lay within the batch that was cut off
        self.epoch += 1

    def delete_records(self) -> None:
        offset = self.chance.randint(self.log.log_start_offset, self.log.high_watermark)
        self.log.maybe_increment_log_start_offset(offset, "client delete records request")
        self.log.delete_old_segments()
        self.start = self.log.log_start_offset

    def fill_disk(self) -> None:
        self.files.capacity_bytes = self.files.used_bytes + self.chance.randint(0, 900)
        refused = False
        for _ in range(8):
            before = self.log.log_end_offset
            try:
                self.append_one(batch(2, size=150))
            except ApiError as error:
                if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                # A full disk refuses the append, or the flush behind it: then the batch is there, not acknowledged.
                if self.log.log_end_offset > before:
                    self.model.append(read_all(self.log)[-1])
                refused = True
        self.done["refused"] += refused
        self.files.capacity_bytes = None
        assert self.broker.failed_dirs == []

    def new_leader(self) -> None:
        self.epoch += self.chance.randint(1, 3)
        self.log.assign_epoch(self.epoch, self.log.log_end_offset)

    def stop(self) -> None:
        before = read_all(self.log)
        self.started(self.broker.restart())
        assert read_all(self.log) == before

    def kill(self) -> None:
        before = read_all(self.log)
        self.started(self.broker.kill())
        after = read_all(self.log)
        assert after[len(after) - len(before) :] == before
        assert self.log.log_end_offset == (RecordBatch(self.model[-1]).next_offset if self.model else self.start)

    def crash(self) -> None:
        self.started(self.broker.crash())

    def started(self, log: UnifiedLog) -> None:
        """Check the log that a start found, and go on with it."""
        self.log = log
        found = read_all(log)
        known = {RecordBatch(one).base_offset: one for one in self.model}
        if found:
            # Retention may be undone by a crash: what it deleted can be there again.
            known_found = [one for one in found if RecordBatch(one).base_offset in known]
            assert known_found == [known[RecordBatch(one).base_offset] for one in known_found]
            for earlier, later in pairwise(found):
                assert RecordBatch(later).base_offset == RecordBatch(earlier).next_offset
        assert all(RecordBatch(one).is_valid_crc() for one in found)
        assert log.log_end_offset >= self.durable
        assert log.log_start_offset <= max(self.start, log.log_end_offset)
        check_indexes(log)
        self.check_epochs(log, found)
        self.model = [one for one in self.model if RecordBatch(one).next_offset <= log.log_end_offset] if found else []
        self.start = log.log_start_offset
        self.durable = min(self.durable, log.log_end_offset)
        log.update_high_watermark(log.log_end_offset)

    @staticmethod
    def check_epochs(log: UnifiedLog, found: list[bytes]) -> None:
        """Every batch is of the epoch that the cache has for its offset."""
        for stored in found:
            view = RecordBatch(stored)
            offset = max(view.base_offset, log.log_start_offset)
            assert log.leader_epochs.epoch_for_offset(offset) == view.partition_leader_epoch
