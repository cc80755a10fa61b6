"""Plans of reassignments: Kafka's file format, and the proposal of a plan."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from barnabas.cli.topics.reassignment_plan import Plan, parse_plan, plan_text, propose_plan
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node

FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)
TWICE = json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2})
NODES = [Node(broker_id, "host", 9092, "ab"[broker_id % 2]) for broker_id in range(4)]


def test_plans_are_written_and_read_back() -> None:
    text = plan_text({SECOND: (2, 1), FIRST: (1, 2)})
    assert json.loads(text) == {
        "version": 1,
        "partitions": [
            {"topic": "flights", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]},
            {"topic": "flights", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]},
        ],
    }
    assert parse_plan(text) == Plan({FIRST: [1, 2], SECOND: [2, 1]}, {})


def test_plan_that_names_log_directories() -> None:
    entry = {"topic": "flights", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/disk2"]}
    assert parse_plan(json.dumps({"partitions": [entry]})) == Plan({FIRST: [1, 2]}, {2: {FIRST: "/disk2"}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "not a reassignment plan"),
        ('{"version": 2, "partitions": []}', "version 2 is not known"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "not a reassignment plan"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [-1]}]}', "-1 is not a whole number in"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["d"]}]}', "'d' of t-0"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]}', "0 log_dirs"),
        (TWICE, "a partition twice"),
        ('{"partitions": []}', "names no partition"),
        ('{"partitions": [{"topic": "t", "partition": 1.5, "replicas": [1]}]}', "1.5 is not a whole number"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}', '"1" is not a whole number'),
        ('{"partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}', "true is not a whole number"),
    ],
)
def test_what_is_no_plan(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_plan(text)


def test_a_proposal_spreads_partitions_over_the_brokers_and_their_racks() -> None:
    current = {TopicPartition("flights", index): (0, 1) for index in range(6)}
    proposed = propose_plan(current, NODES, [1, 2, 3], random.Random(1), rack_aware=False)
    assert Counter(replicas[0] for replicas in proposed.values()) == {1: 2, 2: 2, 3: 2}
    assert all(len(set(replicas)) == 2 for replicas in proposed.values())
    over_racks = propose_plan(current, NODES, [0, 1, 2, 3], random.Random(1), rack_aware=True)
    assert all({replica % 2 for replica in replicas} == {0, 1} for replicas in over_racks.values())


def test_proposals_that_cannot_be_made() -> None:
    chance = random.Random(1)
    with pytest.raises(ValueError, match="broker 9 is not registered"):
        propose_plan({FIRST: (0, 1)}, NODES, [1, 9], chance, rack_aware=True)
    with pytest.raises(ApiError, match="larger than available brokers"):
        propose_plan({FIRST: (0, 1)}, NODES, [1], chance, rack_aware=True)
    with pytest.raises(ValueError, match="--disable-rack-aware"):
        propose_plan({FIRST: (0, 1)}, [*NODES, Node(4, "host", 9092, None)], [1, 4], chance, rack_aware=True)
