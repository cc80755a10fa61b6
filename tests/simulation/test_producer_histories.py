"""Idempotent and transactional producers while the power fails: between steps, within them, and during recovery.

After every start the producers, the open transactions, the aborted ones and the last stable offset are what a plain
reading of the log's batches says. What was deleted from the log may be remembered or not.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable

import pytest

from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.log.aborted_transactions import collect_aborted
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.log_environment import LogManagerConfig
from tests.support.simulated_files import PowerOff, SimulatedFiles
from tests.unit.storage.log_harness import NOW, Broker, batch, check_indexes, log_config, read_all

CONFIG = log_config(segment_bytes=1000, index_interval_bytes=150)
PLAIN, IDEMPOTENT, TRANSACTIONAL = 0, 1, 2


class ProducerHistory:
    """interrupted: how often the power went off within each step."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = SimulatedFiles()
        self.broker = Broker(self.files, config=CONFIG, manager_config=LogManagerConfig(), seed=seed)
        self.log = self.broker.log()
        self.interrupted: collections.Counter[str] = collections.Counter()

    def run(self) -> None:
        steps = (self.write, self.truncate, self.delete, self.roll, self.stop)
        for _ in range(self.chance.randint(1, 5)):
            self.write()
            self.files.power_off_after(self.chance.choice((0, 1, 2, 3, 5, 8, 13, 100)))
            step = self.chance.choice(steps)
            self._until_power_off(step.__name__, step)
            self._end_life()
            if self.chance.random() < 0.4:
                self.files.power_off_after(self.chance.randint(0, 12))
                self._until_power_off("start", self.start)
                self._end_life()
            self.start()
            self.check()

    def _until_power_off(self, name: str, step: Callable[[], None]) -> None:
        try:
            step()
        except PowerOff:
            self.interrupted[name] += 1

    def _end_life(self) -> None:
        """By the power, or by a kill."""
        if self.chance.random() < 0.6:
            self.files.crash(self.chance)
        else:
            self.files.kill()

    def start(self) -> None:
        self.broker.start()
        self.log = self.broker.log()

    # -- steps

    def write(self) -> None:
        for _ in range(self.chance.randint(1, 40)):
            kind = self.chance.choice((PLAIN, IDEMPOTENT, TRANSACTIONAL))
            if kind == PLAIN:
                self.log.append_as_leader(batch(), 0)
            else:
                self._send(kind)
            if kind == TRANSACTIONAL and self.chance.random() < 0.3:
                marker = EndTransactionMarker(self.chance.random() < 0.5, 0, NOW)
                self.log.append_as_leader(marker.batch(kind, 0), 0, origin=AppendOrigin.COORDINATOR)
            if self.chance.random() < 0.05:
                self.log.flush()
                self.broker.manager.checkpoints.write_recovery_points()

    def _send(self, producer_id: int) -> None:
        states = self.log.producers.states
        known = states.entries.get(producer_id) if states is not None else None
        sequence = known.last_sequence + 1 if known is not None else 0
        builder = RecordBatchBuilder(
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=producer_id == TRANSACTIONAL,
        )
        builder.append(NOW, b"key", b"value")
        if producer_id == TRANSACTIONAL:
            verification = self.log.producers.begin_verification(producer_id, 0, sequence)
            if verification is not None:
                self.log.producers.end_verification(producer_id, 0, verification)
        info = self.log.append_as_leader(builder.build(), 0)
        assert not info.is_duplicate
        assert self.log.append_as_leader(builder.build(), 0).first_offset == info.first_offset

    def truncate(self) -> None:
        self.log.raise_high_watermark_to_end()
        end = self.log.log_end_offset
        self.log.truncate_to(self.chance.randint(max(self.log.log_start_offset, end - 20), end))

    def delete(self) -> None:
        self.log.raise_high_watermark_to_end()
        offset = self.chance.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.log.maybe_increment_log_start_offset(offset, "client delete records request")
        self.log.delete_old_segments()
        self.broker.manager.checkpoints.write_log_start_offsets()
        self.broker.scheduler.tick()

    def roll(self) -> None:
        self.log.roll()
        self.broker.scheduler.tick()
        self.broker.manager.checkpoints.write_recovery_points()

    def stop(self) -> None:
        self.broker.manager.shutdown()

    # -- what a start found

    def check(self) -> None:
        log = self.log
        last: dict[int, int] = {}
        begun: dict[int, int] = {}
        aborted: dict[int, bool] = {}
        for stored in map(RecordBatch, read_all(log)):
            if stored.is_control:
                marker = EndTransactionMarker.of(stored)
                assert marker is not None
                has_data = begun.pop(stored.producer_id, None) is not None
                if marker.is_abort:
                    aborted[stored.base_offset] = has_data
            elif stored.producer_id >= 0:
                last[stored.producer_id] = stored.last_sequence
                if stored.is_transactional:
                    begun.setdefault(stored.producer_id, stored.base_offset)
        known = {producer.producer_id: producer for producer in log.producers.active()}
        assert {producer_id: known[producer_id].last_sequence for producer_id in last} == last
        starts = [producer.current_transaction_start_offset for producer in known.values()]
        open_starts = [start for start in starts if start >= 0]
        for start in begun.values():
            assert start in open_starts or min(open_starts) <= log.log_start_offset
        log.raise_high_watermark_to_end()
        assert log.last_stable_offset == max(min(open_starts, default=log.log_end_offset), log.log_start_offset)
        entries = collect_aborted(log.local, 0, log.log_end_offset)
        assert all(entry.last_offset in aborted or entry.last_offset < log.log_start_offset for entry in entries)
        assert {offset for offset, has_data in aborted.items() if has_data} <= {entry.last_offset for entry in entries}
        check_indexes(log)


@pytest.mark.parametrize("seed", range(40))
def test_history(seed: int) -> None:
    ProducerHistory(seed).run()


def test_every_step_is_interrupted() -> None:
    interrupted: collections.Counter[str] = collections.Counter()
    for seed in range(100, 160):
        history = ProducerHistory(seed)
        history.run()
        interrupted += history.interrupted
    assert set(interrupted) == {"write", "truncate", "delete", "roll", "stop", "start"}, interrupted
    assert min(interrupted.values()) >= 5, interrupted


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_histories(block: int) -> None:
    for seed in range(1000 + block * 100, 1100 + block * 100):
        try:
            ProducerHistory(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
