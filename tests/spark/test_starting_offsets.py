"""Where queries start, and that a stream which starts again starts at the same place."""

from __future__ import annotations

import os

import pytest

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.source_options import DataLoss
from barnabas_spark.reading.starting_offsets import first_offsets, partitions_to_read, resolve
from barnabas_spark.topic_offsets import Offsets
from tests.spark.scripted_offsets import T0, T1, FakeBroker, options


def test_positions_become_offsets() -> None:
    broker = FakeBroker()
    assert resolve("startingOffsets", "earliest", [T0, T1], broker) == {T0: 5, T1: 5}
    assert resolve("startingOffsets", {T0: -2, T1: -1}, [T0, T1], broker) == {T0: 5, T1: 101}
    assert resolve("startingOffsets", {T0: 7, T1: 8}, [T0, T1], broker) == {T0: 7, T1: 8}


def test_times_become_offsets() -> None:
    broker = FakeBroker()
    for_all = options(startingTimestamp="900").starting
    assert resolve("startingOffsets", for_all, [T0, T1], broker) == {T0: 50, T1: 50}
    of_each = '{"t": {"0": 900, "1": 1001}}'
    at_end = options(startingOffsetsByTimestamp=of_each, startingOffsetsByTimestampStrategy="latest").starting
    assert resolve("startingOffsets", at_end, [T0, T1], broker) == {T0: 50, T1: 101}
    ending = options(False, endingOffsetsByTimestamp=of_each).ending
    assert resolve("endingOffsets", ending, [T0, T1], broker) == {T0: 50, T1: 102}


def test_a_time_after_the_last_record_names_partition_end_and_option() -> None:
    starting = options(startingOffsetsByTimestamp='{"t": {"0": 900, "1": 1001}}').starting
    said = r"'startingOffsetsByTimestamp': t-1, which ends at offset 101, has no record at or after 1001 ms.*latest"
    with pytest.raises(OptionError, match=said):
        resolve("startingOffsets", starting, [T0, T1], FakeBroker())


def test_times_must_name_exactly_what_is_read() -> None:
    starting = options(startingOffsetsByTimestamp='{"t": {"0": 900}}').starting
    with pytest.raises(OptionError, match=r"'startingOffsetsByTimestamp' must give a value.*t-1 is missing"):
        resolve("startingOffsets", starting, [T0, T1], FakeBroker())


def test_a_pattern_matches_a_part_of_a_name() -> None:
    # The broker's answer is for topic t alone: the other names must not match.
    assert partitions_to_read(options(subscribePattern="^.$"), FakeBroker()) == [T0, T1]
    assert partitions_to_read(options(subscribePattern="x.*"), FakeBroker()) == []


@pytest.mark.parametrize(
    ("position", "wrong"), [({T0: 7}, "t-1 is missing"), ({T0: 1, T1: 1, TopicPartition("u", 0): 1}, "u-0 is not read")]
)
def test_offsets_must_name_exactly_what_is_read(position: Offsets, wrong: str) -> None:
    with pytest.raises(OptionError, match=f"option 'startingOffsets' must give a value for exactly.*{wrong}"):
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


def test_a_kept_start_is_that_of_the_options_which_found_it(tmp_path: os.PathLike[str]) -> None:
    """Otherwise options that were changed before the first micro-batch would be ignored without a word."""
    location = os.fspath(tmp_path)
    broker = FakeBroker()
    assert first_offsets(options(startingOffsetsLocation=location), broker) == {T0: 101, T1: 101}
    changed = options(startingOffsetsLocation=location, startingOffsets="earliest")
    assert first_offsets(changed, broker) == {T0: 5, T1: 5}
    assert first_offsets(options(startingOffsetsLocation=location), broker) == {T0: 102, T1: 102}
    assert first_offsets(options(startingOffsetsLocation=location), broker) == {T0: 102, T1: 102}
    # An earlier version kept the offsets alone.
    with open(os.path.join(tmp_path, "starting-offsets.json"), "w", encoding="utf-8") as file:
        file.write('{"t": {"0": 9, "1": 8}}')
    assert first_offsets(changed, broker) == {T0: 9, T1: 8}


def test_a_start_without_topics_is_kept_too(tmp_path: os.PathLike[str]) -> None:
    matching_nothing = options(subscribePattern="^new$", startingOffsetsLocation=os.fspath(tmp_path))
    for _ in range(2):
        assert first_offsets(matching_nothing, FakeBroker()) == {}


def test_a_damaged_start_is_named(tmp_path: os.PathLike[str]) -> None:
    with open(os.path.join(tmp_path, "starting-offsets.json"), "w", encoding="utf-8") as file:
        file.write("{")
    with pytest.raises(OptionError, match=r"starting-offsets\.json.*holds no offsets"):
        first_offsets(options(startingOffsetsLocation=os.fspath(tmp_path)), FakeBroker())


def test_a_start_beyond_the_end_is_not_kept(tmp_path: os.PathLike[str]) -> None:
    """Otherwise a start that is wrong would be that of the next run too."""
    location = os.path.join(tmp_path, "start")
    wrong = {"startingOffsets": '{"t": {"0": 100, "1": 900}}', "startingOffsetsLocation": location}
    with pytest.raises(
        DataLoss, match=r"'startingOffsets' gives 900 for t-1, which ends at offset 101\..*failOnDataLoss"
    ):
        first_offsets(options(True, **wrong), FakeBroker())
    mended = options(startingOffsets='{"t": {"0": 100, "1": 90}}', startingOffsetsLocation=location)
    assert first_offsets(mended, FakeBroker()) == {T0: 100, T1: 90}
    assert first_offsets(mended, FakeBroker()) == {T0: 100, T1: 90}
