"""kafka-console-consumer reads our `__consumer_offsets` with Kafka's own formatters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.protocol.topic_partition import TopicPartition
from tests.support.raw_client import RawClient
from tests.support.raw_group_member import await_coordinator, classic_member
from tests.support.raw_offsets import commit_offsets
from tests.support.server_fixtures import Server
from tests.tools.kafka_tools import KafkaTools

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

FORMATTERS = "org.apache.kafka.tools.consumer"


def read(tools: KafkaTools, server: Server, formatter: str, group: str) -> list[dict[str, Any]]:
    """What it says of a group's records."""
    output = tools.run(
        server,
        "kafka-console-consumer",
        "--topic",
        "__consumer_offsets",
        "--from-beginning",
        "--formatter",
        f"{FORMATTERS}.{formatter}",
        "--timeout-ms",
        "5000",
    )
    records, place, decoder = [], output.stdout.find("{"), json.JSONDecoder()
    while place >= 0:  # one behind the other, with nothing between them
        record, end = decoder.raw_decode(output.stdout, place)
        records.append(record)
        place = output.stdout.find("{", end)
    return [record for record in records if record["key"]["data"]["group"] == group]


def test_committed_offsets(tools: KafkaTools, ours: Server, topic: str) -> None:
    group = f"group-of-{topic}"
    with RawClient(ours) as client:
        await_coordinator(client, group)
        client.create_topic(topic)
        commit_offsets(client, group, topic, {0: 17})
    *_, record = read(tools, ours, "OffsetsMessageFormatter", group)
    assert record["key"]["data"] == {"group": group, "topic": topic, "partition": 0}
    value = record["value"]
    assert value["version"] == 3
    assert value["data"]["commitTimestamp"] > 0
    assert {name: value["data"][name] for name in ("offset", "leaderEpoch", "metadata")} == {
        "offset": 17,
        "leaderEpoch": 3,
        "metadata": "m",
    }


def test_groups(tools: KafkaTools, ours: Server, topic: str) -> None:
    group = f"group-of-{topic}"
    with RawClient(ours) as client:
        client.create_topic(topic)
    with classic_member(ours, group, [TopicPartition(topic, 0)], "instance") as member_id:
        records = read(tools, ours, "GroupMetadataMessageFormatter", group)
    value = next(each["value"] for each in reversed(records) if each["value"]["data"]["members"])
    assert value["version"] == 3
    assert (value["data"]["protocolType"], value["data"]["generation"]) == ("consumer", 1)
    (member,) = value["data"]["members"]
    assert (member["memberId"], member["groupInstanceId"]) == (member_id, "instance")
