"""The bytes of pushed metrics, as protobuf's own encoder of opentelemetry-proto writes them, and their names."""

from __future__ import annotations

from math import nan

import pytest

from barnabas.clients.client_metrics import MetricName
from barnabas.clients.telemetry.otlp import MetricPoint, MetricPoints, encode_metrics, telemetry_name

CLIENT = (("client-id", "c"),)
TOTAL = MetricName("record-send-total", "producer-topic-metrics", (*CLIENT, ("topic", "flights")))
GAUGE = MetricName("batch-size-avg", "producer-metrics", CLIENT)

# Written by opentelemetry-proto 1 (MetricsData.SerializeToString) for the points of the first test.
GOLDEN = (
    "0a90010a130a110a0867726f75705f696412050a03677270127912270a01672a220a201980841e0000000000210000000000"
    "00f83f3a0c0a05746f70696312030a017412260a01733a210a1b1140420f00000000001980841e0000000000210000000000"
    "0008401002180112260a01643a210a1b1140420f00000000001980841e00000000002100000000000000c010011801"
)


def every_metric(name: str) -> bool:
    return True


def test_gauge_and_sums_have_the_bytes_of_protobuf() -> None:
    points = [
        MetricPoint("g", (("topic", "t"),), 1.5, 2),
        MetricPoint("s", (), 3.0, 2, start_ms=1),
        MetricPoint("d", (), -2.0, 2, start_ms=1, is_delta=True),
    ]
    assert encode_metrics([("group_id", "grp")], points).hex() == GOLDEN


def test_texts_of_more_than_127_bytes_have_lengths_of_two_bytes() -> None:
    encoded = encode_metrics([], [MetricPoint("n" * 300, (), 0.0, 0)])
    assert bytes([0x0A, 0xAC, 0x02]) + b"n" * 300 in encoded


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (TOTAL, "org.apache.kafka.producer.topic.record.send.total"),
        (GAUGE, "org.apache.kafka.producer.batch.size.avg"),
        (
            MetricName("records-lag-max", "consumer-fetch-manager-metrics"),
            "org.apache.kafka.consumer.fetch.manager.records.lag.max",
        ),
    ],
)
def test_names_are_those_of_kip_714(metric: MetricName, expected: str) -> None:
    assert telemetry_name(metric) == expected


def test_totals_are_sums_others_gauges_and_what_was_not_measured_is_left_out() -> None:
    points = MetricPoints(start_ms=10)
    measured = {TOTAL: 4.0, GAUGE: 2.5, MetricName("batch-size-max", "producer-metrics", CLIENT): nan}
    assert list(points.collect(measured, every_metric, 50, is_delta=False)) == [
        MetricPoint("org.apache.kafka.producer.topic.record.send.total", (("topic", "flights"),), 4.0, 50, start_ms=10),
        MetricPoint("org.apache.kafka.producer.batch.size.avg", (), 2.5, 50),
    ]


def test_delta_sums_tell_what_came_since_the_last_push() -> None:
    points = MetricPoints(start_ms=10)

    def push(value: float, now_ms: int) -> MetricPoint:
        (point,) = points.collect({TOTAL: value}, every_metric, now_ms, is_delta=True)
        return point

    first, second = push(4.0, 50), push(7.0, 90)
    assert (first.value, first.start_ms, first.is_delta) == (4.0, 10, True)
    assert (second.value, second.start_ms, second.time_ms) == (3.0, 50, 90)
    points.reset()
    assert push(9.0, 95).value == 9.0


def test_metrics_that_are_not_wanted_are_not_collected() -> None:
    points = MetricPoints(start_ms=10)
    wanted = [
        each.value for each in points.collect({TOTAL: 4.0, GAUGE: 2.5}, lambda name: "avg" in name, 50, is_delta=True)
    ]
    assert wanted == [2.5]
    (point,) = points.collect({TOTAL: 4.0}, every_metric, 60, is_delta=True)
    assert point.value == 4.0, "a sum that was not wanted before has not been told"
