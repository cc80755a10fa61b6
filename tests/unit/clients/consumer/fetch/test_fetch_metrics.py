"""The consumer's metrics by Kafka's names: totals, means, extremes and rates of what a scripted broker sent."""

from __future__ import annotations

import math
from typing import Any

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.scripted_cluster import ScriptedCluster, batches

TP0, TP1 = TopicPartition("a.b", 0), TopicPartition("a.b", 1)


def measured(consumer: Consumer, **tags: Any) -> dict[str, float]:
    """The metrics that have exactly these tags besides the client id, by name."""
    wanted = (("client-id", "me"), *((name, str(value)) for name, value in tags.items()))
    return {each.name: value for each, value in consumer.metrics().items() if each.tags == wanted}


def test_what_was_read_is_counted_once_for_each_answer() -> None:
    cluster = ScriptedCluster({"a.b": [0, 0]})
    cluster.logs["a.b", 0], cluster.logs["a.b", 1] = batches(0, 10), batches(0, 4)
    consumer = Consumer("", client=cluster.client(), auto_offset_reset="earliest", client_id="me", max_poll_records=6)
    consumer.assign([TP0, TP1])
    assert math.isnan(measured(consumer)["fetch-size-avg"])
    assert len(consumer.poll(1000)) == 6
    of_first = measured(consumer, topic="a_b", partition=0)
    # The partitions take turns in being first in an answer.
    of_first = of_first if "records-lag" in of_first else measured(consumer, topic="a_b", partition=1)
    assert of_first["preferred-read-replica"] == -1
    assert measured(consumer)["records-consumed-total"] == 0, "the answer is not read to its end"
    while len(consumer.poll(0)):
        pass
    for tags in ({}, {"topic": "a_b"}):
        found = measured(consumer, **tags)
        assert found["records-consumed-total"] == 14
        assert found["bytes-consumed-total"] == len(batches(0, 10)) + len(batches(0, 4))
        assert found["fetch-size-max"] == found["bytes-consumed-total"]
        assert found["records-consumed-rate"] == pytest.approx(14 / 30, rel=0.1)
    assert measured(consumer)["records-lag-max"] >= 4
    of_first = measured(consumer, topic="a_b", partition=0)
    assert (of_first["records-lag"], of_first["records-lead"]) == (0, 10)
    consumer.assign([TP1])
    assert not measured(consumer, topic="a_b", partition=0)


def test_latency_counts_from_the_request_to_the_answer() -> None:
    cluster = ScriptedCluster({"a.b": [0]})
    consumer = Consumer("", client=cluster.client(), auto_offset_reset="earliest", client_id="me")
    consumer.assign([TP0])
    consumer.position(TP0)
    consumer.poll(1200)
    found = measured(consumer)
    assert found["fetch-latency-avg"] == found["fetch-latency-max"] == 500
    assert found["fetch-total"] >= 2
