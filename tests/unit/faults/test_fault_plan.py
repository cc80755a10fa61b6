"""Plans as tests write them: what they match, what is refused, and their way through JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.faults.fault_plan import (
    ACTIONS,
    All,
    BlackHole,
    Chance,
    Delay,
    Drop,
    Error,
    Every,
    FaultPlan,
    First,
    Kill,
    Nth,
    RequestFacts,
    api_key_of,
    fault_plan,
    plan_from_json,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode


def request(api_key: ApiKey = ApiKey.PRODUCE, client_id: str | None = "app", *topics: str) -> RequestFacts:
    return RequestFacts(api_key, client_id, lambda: topics)


@pytest.mark.parametrize("api", ["Produce", "PRODUCE", "produce", 0, ApiKey.PRODUCE])
def test_an_api_by_any_of_its_names(api: Any) -> None:
    assert api_key_of(api) is ApiKey.PRODUCE
    assert api_key_of("OffsetForLeaderEpoch") is api_key_of("OFFSET_FOR_LEADER_EPOCH") is ApiKey.OFFSET_FOR_LEADER_EPOCH


def test_no_restriction_matches_every_request() -> None:
    assert fault_plan(Drop()).matches(request(ApiKey.HEARTBEAT, None))
    assert fault_plan(Drop()).calls == All()


def test_each_restriction_has_to_match() -> None:
    plan = fault_plan(Drop(), api=["Produce", "Fetch"], client_id="app", topic="orders")
    assert plan.matches(request(ApiKey.FETCH, "app", "other", "orders"))
    assert not plan.matches(request(ApiKey.METADATA, "app", "orders"))
    assert not plan.matches(request(ApiKey.FETCH, "app2", "orders"))
    assert not plan.matches(request(ApiKey.FETCH, None, "orders"))
    assert not plan.matches(request(ApiKey.FETCH, "app", "order", "orders2"))


def test_topics_are_looked_for_only_where_a_plan_asks() -> None:
    def fail() -> list[str]:
        raise AssertionError("the topics were asked for")

    assert fault_plan(Drop(), api="Produce").matches(RequestFacts(ApiKey.PRODUCE, None, fail))
    assert not fault_plan(Drop(), api="Fetch", topic="t").matches(RequestFacts(ApiKey.PRODUCE, None, fail))


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"action": "drop"}, "an action is one of Delay, Error, Drop, BlackHole, Kill, not 'drop'"),
        ({"action": Drop}, "not <class"),
        ({"calls": 3}, "calls are one of All, Nth, First, Every, Chance, not 3"),
        ({"client_id": b"app"}, "client_id is a text, not b'app'"),
        ({"topic": 5}, "topic is a text, not 5"),
        ({"api": "Prduce"}, "Kafka has no API 'Prduce'; did you mean 'Produce'?"),
        ({"api": 4000}, "there is no API with the key 4000"),
        ({"api": True}, "there is no API with the key True"),
        ({"api": ["Produce", "Fech"]}, "Kafka has no API 'Fech'; did you mean 'Fetch'?"),
        ({"api": []}, "the list of APIs is empty"),
        ({"api": "Heartbeat", "topic": "t"}, "Heartbeat requests name no topic, so none can be for topic 't'"),
        ({"api": ["Fetch", "JoinGroup"], "topic": "t"}, "JoinGroup requests name no topic"),
    ],
)
def test_a_plan_that_makes_no_sense(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        fault_plan(**({"action": Drop()} | wrong))
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    "plan",
    [
        fault_plan(Delay(500, "after"), api="Fetch", client_id="slow", topic="orders", calls=First(3)),
        fault_plan(Drop("after"), api=["OffsetCommit", "Produce"], calls=Nth(1)),
        fault_plan(BlackHole()),
        fault_plan(Kill(), calls=Chance(0.25, seed=7)),
    ],
)
def test_json_carries_every_part(plan: FaultPlan) -> None:
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_json_carries_an_error_by_name() -> None:
    for code in ("REQUEST_TIMED_OUT", 7, ErrorCode.REQUEST_TIMED_OUT):
        value = fault_plan(Error(code), calls=Every(2)).to_json()
        assert plan_from_json(json.loads(json.dumps(value))) == fault_plan(Error("REQUEST_TIMED_OUT"), calls=Every(2))


@pytest.mark.parametrize("part", ["action", "calls"])
@pytest.mark.parametrize("value", [{"kind": "Explode"}, {"kind": "Drop", "speed": 3}, {"kind": []}, {}, 5])
def test_json_that_is_no_plan(part: str, value: object) -> None:
    assert len(ACTIONS) == 5
    with pytest.raises((ValueError, TypeError, KeyError)):
        plan_from_json(fault_plan(Drop()).to_json() | {part: value})
