"""The offsets of a group against a model that keeps the whole log and works everything out anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.coordinator.group.committed_offsets import CommittedOffsets, OffsetValues
from barnabas.coordinator.group.offsets_topic import offset_value

KEYS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1))
PRODUCERS = st.integers(1, 2)


class Written(NamedTuple):
    """A commit in the log."""

    position: int
    offsets: OffsetValues

    def each(self) -> Iterator[tuple[tuple[str, int], bytes]]:
        for topic, values in self.offsets.items():
            for partition, value in values.items():
                yield (topic, partition), value


class OffsetsMachine(RuleBasedStateMachine):
    """Commits that count at once, that wait and come back in any order, inside transactions; and removals."""

    @initialize()
    def begin(self) -> None:
        self.offsets = CommittedOffsets()
        self.position = 0
        self.counted: dict[tuple[str, int], tuple[int, bytes]] = {}
        self.waiting: list[Written] = []
        self.open: dict[int, dict[tuple[str, int], tuple[int, bytes]]] = {}

    def write(self, keys: set[tuple[str, int]]) -> Written:
        self.position += 1
        value = offset_value(self.position, -1, "", 0)
        offsets: dict[str, dict[int, bytes]] = {}
        for topic, partition in sorted(keys):
            offsets.setdefault(topic, {})[partition] = value
        return Written(self.position, offsets)

    def count(self, key: tuple[str, int], position: int, value: bytes) -> None:
        if self.counted.get(key, (-1, b""))[0] < position:
            self.counted[key] = (position, value)

    @rule(keys=st.sets(KEYS, min_size=1))
    @precondition(lambda self: not self.waiting)
    def commit(self, keys: set[tuple[str, int]]) -> None:
        written = self.write(keys)
        self.offsets.put_all(written.offsets, written.position)
        for (topic, partition), value in written.each():
            self.count((topic, partition), written.position, value)

    @rule(keys=st.sets(KEYS, min_size=1))
    def commit_and_wait(self, keys: set[tuple[str, int]]) -> None:
        written = self.write(keys)
        self.offsets.begin_waiting(written.offsets)
        self.waiting.append(written)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), is_stored=st.booleans())
    def replicas_answer(self, data: st.DataObject, is_stored: bool) -> None:
        written = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        self.offsets.end_waiting(written.offsets, written.position, is_stored=is_stored)
        if is_stored:
            for (topic, partition), value in written.each():
                self.count((topic, partition), written.position, value)

    @rule(keys=st.sets(KEYS, min_size=1), producer_id=PRODUCERS)
    @precondition(lambda self: not self.waiting)
    def commit_in_a_transaction(self, keys: set[tuple[str, int]], producer_id: int) -> None:
        written = self.write(keys)
        self.offsets.put_transactional(producer_id, written.offsets, written.position)
        for (topic, partition), value in written.each():
            self.open.setdefault(producer_id, {})[topic, partition] = (written.position, value)

    @rule(producer_id=PRODUCERS, is_committed=st.booleans())
    @precondition(lambda self: not self.waiting)
    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        self.offsets.end_transaction(producer_id, is_committed=is_committed)
        for key, (position, value) in self.open.pop(producer_id, {}).items():
            if is_committed:
                self.count(key, position, value)

    @rule(key=KEYS)
    @precondition(lambda self: not self.waiting)
    def remove(self, key: tuple[str, int]) -> None:
        was_there = key in self.counted or any(key in offsets for offsets in self.open.values())
        assert self.offsets.remove(*key) == was_there
        self.counted.pop(key, None)
        for producer_id in list(self.open):
            self.open[producer_id].pop(key, None)
            if not self.open[producer_id]:
                del self.open[producer_id]

    @invariant()
    def same_as_the_model(self) -> None:
        offsets = self.offsets
        assert {(topic, partition): value for topic, partition, value in offsets} == {
            key: value for key, (_, value) in self.counted.items()
        }
        assert len(offsets) == len(self.counted)
        assert offsets.is_empty == (not self.counted and not self.waiting and not self.open)
        unstable = {key for of_producer in self.open.values() for key in of_producer}
        for topic, partition in [("t", 0), ("t", 1), ("u", 0), ("u", 1)]:
            assert offsets.is_unstable(topic, partition) == ((topic, partition) in unstable)
            waits = any((topic, partition) == key for written in self.waiting for key, _ in written.each())
            assert offsets.is_waiting(topic, partition) == waits
        assert set(offsets.unstable) == unstable


TestOffsets = OffsetsMachine.TestCase
TestOffsets.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
