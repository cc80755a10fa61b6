"""How much a micro-batch reads, and when it waits: Spark's rules, without Spark."""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.source_options import ReadLimits
from barnabas_spark.reading.stream_reader import TriggerLimits
from barnabas_spark.topic_offsets import Offsets

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
START = {T0: 10, T1: 10}


def limits(clock: list[int], smallest: int | None = None, largest: int | None = None) -> TriggerLimits:
    return TriggerLimits(ReadLimits(largest, smallest, 1_000, None, None), lambda: clock[0])


def ends(first: int, second: int) -> Offsets:
    return {T0: first, T1: second}


def test_without_limits_everything_is_read() -> None:
    assert limits([0]).end_of_batch(START, ends(500, 11)) == ends(500, 11)


def test_too_few_offsets_wait_for_more_or_for_the_delay() -> None:
    clock = [0]
    some = limits(clock, smallest=20)
    assert some.end_of_batch(START, ends(11, 10)) == ends(11, 10), "the first micro-batch waits for nothing"
    clock[0] = 500
    assert some.end_of_batch(START, ends(20, 19)) == START
    assert some.end_of_batch(START, ends(20, 20)) == ends(20, 20)
    clock[0] = 1_499
    assert some.end_of_batch(START, ends(11, 10)) == START
    clock[0] = 1_500
    assert some.end_of_batch(START, ends(11, 10)) == ends(11, 10)


def test_both_limits_hold_together() -> None:
    clock = [0]
    both = limits(clock, smallest=10, largest=20)
    assert both.end_of_batch(START, ends(40, 20)) == ends(25, 15)
    assert both.end_of_batch(ends(25, 15), ends(30, 15)) == ends(25, 15)
    assert both.end_of_batch(ends(25, 15), ends(35, 15)) == ends(35, 15)
