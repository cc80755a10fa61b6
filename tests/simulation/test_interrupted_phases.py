"""Power failures and kills in the middle of every phase of a log's life, from seeds, each phase interrupted many times.

The histories are those of `test_crash_histories`; here the power goes off inside a step, after a random number of
changes to the disk, and sometimes again while the broker recovers from it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

import pytest

from barnabas.protocol.errors import ApiError
from barnabas.records.record_batch import RecordBatch
from tests.simulation.crash_history import History
from tests.support.simulated_files import PowerOff
from tests.unit.storage.log_harness import PARTITION, batch, read_all, without_place

LEAST_INTERRUPTIONS = 10
SEEDS = range(60)


class InterruptedHistory(History):
    """A history whose steps may be cut short. interrupted: how often each phase was."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.interrupted: collections.Counter[str] = collections.Counter()
        self._attempted: list[bytes] = []
        self._deleting = False

    def run(self) -> None:
        phases: tuple[tuple[str, Callable[[], None]], ...] = (
            ("append", self.append),
            ("roll", self.append_and_roll),
            ("flush", self.append_and_flush),
            ("checkpoint", self.append_and_checkpoint),
            ("retention", self.delete_records),
            ("file deletion", self.background),
            ("truncation", self.truncate),
            ("epoch file", self.new_leader_and_flush),
            ("clean stop", self.clean_stop),
            ("topic deletion", self.delete_topic),
        )
        for _ in range(25):
            for _ in range(self.chance.randint(1, 4)):
                self.append()
            if self.chance.random() < 0.5:
                self.delete_records()
            self.durable = max(self.durable, self.log.local.recovery_point)
            phase, step = self.chance.choice(phases)
            self.interrupt(phase, step)

    def interrupt(self, phase: str, step: Callable[[], None]) -> None:
        """Do a step until the power goes off in it, or it is done; then start again, perhaps with an interruption."""
        self.files.power_off_after(self.chance.choice((0, 1, 2, 3, 5, 8)))
        self._remember_intentions(step)
        try:
            step()
        except PowerOff:
            self.interrupted[phase] += 1
        self.end_life()
        if self.chance.random() < 0.3:
            self.files.power_off_after(self.chance.randint(0, 12))
            try:
                self.broker.start()
                self.broker.log()
            except PowerOff:
                self.interrupted["recovery"] += 1
            self.end_life()
        self.broker.start()
        self.started(self.broker.log())

    def end_life(self) -> None:
        """By a kill or by the power."""
        if self.chance.random() < 0.4:
            self.files.kill()
        else:
            self.files.crash(self.chance)

    def _remember_intentions(self, step: Callable[[], None]) -> None:
        """What a step that is cut short may have done already is no loss."""
        if step == self.truncate:
            self.durable = 0  # anything behind the target may be gone; the target is not known yet
        if step == self.delete_records:
            self.start = self.log.high_watermark
        self._deleting = step == self.delete_topic

    # -- steps

    def append_one(self, produced: bytes) -> None:
        self._attempted.append(without_place(produced))
        super().append_one(produced)
        self._attempted.clear()

    def append_and_roll(self) -> None:
        self.append()
        self.roll()

    def append_and_flush(self) -> None:
        self.append()
        self.flush()

    def append_and_checkpoint(self) -> None:
        self.append()
        self.flush()
        self.checkpoint()

    def new_leader_and_flush(self) -> None:
        self.new_leader()
        self.append_one(batch(2))
        self.log.flush()

    def clean_stop(self) -> None:
        self.broker.manager.shutdown()

    def delete_topic(self) -> None:
        self.broker.manager.async_delete(PARTITION)
        self.broker.scheduler.tick(200)

    # -- what a start found

    def started(self, log: object) -> None:
        found = read_all(log)  # type: ignore[arg-type]
        if self._deleting and not found:
            self.model, self.durable, self.start = [], 0, 0
            self._deleting = False
        known = {RecordBatch(one).base_offset for one in self.model}
        for stored in found:
            # Cut short, an append may be in the log or not; nobody was told.
            if RecordBatch(stored).base_offset not in known and without_place(stored) in self._attempted:
                self.model.append(stored)
        self._attempted.clear()
        super().started(log)  # type: ignore[arg-type]


def _run(seeds: range) -> collections.Counter[str]:
    interrupted: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        history = InterruptedHistory(seed)
        try:
            history.run()
        except (AssertionError, ApiError, OSError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        interrupted += history.interrupted
    return interrupted


def test_every_phase_is_interrupted_often() -> None:
    interrupted = _run(SEEDS)
    phases = {
        "append",
        "roll",
        "flush",
        "checkpoint",
        "retention",
        "file deletion",
        "truncation",
        "epoch file",
        "clean stop",
        "topic deletion",
        "recovery",
    }
    rare = {phase: interrupted[phase] for phase in phases if interrupted[phase] < LEAST_INTERRUPTIONS}
    assert not rare, f"interrupted too seldom: {rare}, of {interrupted}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("block", range(10))
def test_many_interrupted_histories(block: int) -> None:
    _run(range(10_000 + block * 100, 10_100 + block * 100))
