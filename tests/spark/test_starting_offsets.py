"""Where queries start, and that a stream which starts again starts at the same place."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.option_values import OptionError
from barnabas_spark.source_options import SourceOptions
from barnabas_spark.starting_offsets import first_offsets, partitions_to_read, resolve
from barnabas_spark.topic_offsets import Offsets

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeBroker:
    """Topic `t` with two partitions, whose end moves on at every question."""

    def __init__(self) -> None:
        self.end = 100

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        assert list(topics) == ["t"]
        return [T0, T1]

    def earliest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 5)

    def latest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        self.end += 1
        return dict.fromkeys(partitions, self.end)


def options(streaming: bool = True, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "h:1", **more}
    if "assign" not in more:
        given["subscribe"] = "t"
    return SourceOptions.parse(given, streaming=streaming)


def test_positions_become_offsets() -> None:
    broker = FakeBroker()
    assert resolve("startingOffsets", "earliest", [T0, T1], broker) == {T0: 5, T1: 5}
    assert resolve("startingOffsets", {T0: -2, T1: -1}, [T0, T1], broker) == {T0: 5, T1: 101}
    assert resolve("startingOffsets", {T0: 7, T1: 8}, [T0, T1], broker) == {T0: 7, T1: 8}


@pytest.mark.parametrize(
    ("position", "wrong"), [({T0: 7}, "t-1 is missing"), ({T0: 1, T1: 1, TopicPartition("u", 0): 1}, "u-0 is not read")]
)
def test_offsets_must_name_exactly_what_is_read(position: Offsets, wrong: str) -> None:
    with pytest.raises(OptionError, match=f"option 'startingOffsets' must give an offset for exactly.*{wrong}"):
        resolve("startingOffsets", position, [T0, T1], FakeBroker())


def test_an_assigned_partition_must_exist() -> None:
    assert partitions_to_read(options(assign='{"t": [1]}'), FakeBroker()) == [T1]
    with pytest.raises(OptionError, match=r"'assign' names t-2, but topic 't' has 2 partitions"):
        partitions_to_read(options(assign='{"t": [1, 2]}'), FakeBroker())


def test_a_kept_start_is_used_again(tmp_path: os.PathLike[str]) -> None:
    location = os.path.join(tmp_path, "state", "start")
    broker = FakeBroker()
    first = first_offsets(options(startingOffsetsLocation=location), broker)
    assert first == {T0: 101, T1: 101}
    assert first_offsets(options(startingOffsetsLocation=location), broker) == first
    assert first_offsets(options(), broker) == {T0: 102, T1: 102}


def test_a_damaged_start_is_named(tmp_path: os.PathLike[str]) -> None:
    with open(os.path.join(tmp_path, "starting-offsets.json"), "w", encoding="utf-8") as file:
        file.write("{")
    with pytest.raises(OptionError, match=r"starting-offsets\.json.*holds no offsets"):
        first_offsets(options(startingOffsetsLocation=os.fspath(tmp_path)), FakeBroker())
