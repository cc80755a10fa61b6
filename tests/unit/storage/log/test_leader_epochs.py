"""The leader epoch cache against the batches of a log, kept as a list of (offset, epoch)."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.storage.checkpoints import LeaderEpochCheckpointFile
from barnabas.storage.log.leader_epochs import EpochEntry, LeaderEpochCache
from tests.support.simulated_files import SimulatedFiles


def new_cache() -> tuple[LeaderEpochCache, SimulatedFiles]:
    files = SimulatedFiles()
    return LeaderEpochCache(LeaderEpochCheckpointFile("/", files)), files


class EpochMachine(RuleBasedStateMachine):
    """A log whose offsets each have an epoch; the cache must answer as the log itself would."""

    @initialize()
    def begin(self) -> None:
        self.cache, self.files = new_cache()
        self.log: dict[int, int] = {}
        self.start = self.end = 0
        self.epoch = 0

    @rule(step=st.integers(0, 3), count=st.integers(1, 20))
    def append(self, step: int, count: int) -> None:
        self.epoch += step
        self.cache.assign(self.epoch, self.end)
        for _ in range(count):
            self.log[self.end] = self.epoch
            self.end += 1

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        self.end = self.start + int((self.end - self.start) * share)
        self.log = {offset: epoch for offset, epoch in self.log.items() if offset < self.end}
        self.cache.truncate_from_end(self.end)

    @rule(share=st.floats(0, 1))
    def delete(self, share: float) -> None:
        if self.log:
            self.start += int((self.end - 1 - self.start) * share)
            self.log = {offset: epoch for offset, epoch in self.log.items() if offset >= self.start}
            self.cache.truncate_from_start(self.start)

    @rule()
    def reload(self) -> None:
        self.cache.flush()
        self.cache = LeaderEpochCache(LeaderEpochCheckpointFile("/", self.files))
        self.cache.load()

    @rule(epoch=st.integers(0, 40))
    def ask_end_offset(self, epoch: int) -> None:
        known = sorted(set(self.log.values()))
        found = self.cache.end_offset_for(epoch, self.end)
        if not known or epoch > known[-1]:
            assert found is None
            return
        later = [offset for offset, other in self.log.items() if other > epoch]
        earlier = [other for other in known if other <= epoch]
        assert found == EpochEntry(earlier[-1] if earlier else epoch, min(later, default=self.end))

    @invariant()
    def same_epochs(self) -> None:
        starts: dict[int, int] = {}
        for offset, epoch in self.log.items():
            starts.setdefault(epoch, offset)
        assert [tuple(entry) for entry in self.cache.entries] == list(starts.items())
        assert self.cache.latest_epoch == max(starts, default=-1)
        for offset in (self.start, self.end - 1) if self.log else ():
            assert self.cache.epoch_for_offset(offset) == self.log[offset]


TestEpochMachine = EpochMachine.TestCase
TestEpochMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_leader_that_never_wrote_is_replaced() -> None:
    """An epoch that began at an offset where a later leader wrote first was never committed."""
    cache, _ = new_cache()
    cache.assign(1, 0)
    cache.assign(2, 10)
    cache.assign(3, 10)
    assert cache.entries == (EpochEntry(1, 0), EpochEntry(3, 10))


def test_same_epoch_keeps_its_earliest_start() -> None:
    cache, _ = new_cache()
    assert cache.assign(2, 10)
    assert not cache.assign(2, 15)
    assert cache.assign(2, 5)
    assert cache.entries == (EpochEntry(2, 5),)
