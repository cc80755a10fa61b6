"""How often, and with which words, a client says that it cannot connect."""

from __future__ import annotations

import logging

import pytest

from barnabas.rpc.connection_failures import ConnectionFailures
from barnabas.rpc.connection_states import Node

NODE = Node(1, "b", 9092)
REFUSED = "Cannot connect to broker b:9092 (id: 1): connection refused. Trying again"


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def fail(failures: ConnectionFailures, now_ms: int, reason: str = "connection refused", node: Node = NODE) -> None:
    failures.begun(node, now_ms)
    failures.failed(node.id, reason, now_ms)


def test_the_first_failure_is_reported_at_once_and_later_ones_every_ten_seconds(
    warnings: pytest.LogCaptureFixture,
) -> None:
    failures = ConnectionFailures()
    for now_ms in range(0, 20_000, 1_000):
        fail(failures, now_ms)
    assert warnings.messages == [f"{REFUSED}.", f"{REFUSED}; 11 attempts have failed."]


def test_another_reason_and_another_node_are_reported_at_once(warnings: pytest.LogCaptureFixture) -> None:
    failures = ConnectionFailures()
    fail(failures, 0)
    fail(failures, 1, "unknown host")
    fail(failures, 2, node=Node(-1, "c", 1))
    assert [message.partition(". ")[0] for message in warnings.messages] == [
        "Cannot connect to broker b:9092 (id: 1): connection refused",
        "Cannot connect to broker b:9092 (id: 1): unknown host",
        "Cannot connect to broker c:1: connection refused",
    ]


def test_a_success_is_reported_after_failures_only_and_begins_anew(warnings: pytest.LogCaptureFixture) -> None:
    failures = ConnectionFailures()
    failures.begun(NODE, 0)
    failures.succeeded(1)
    assert not warnings.messages
    fail(failures, 1)
    failures.begun(NODE, 2)
    failures.succeeded(1)
    fail(failures, 3)
    assert warnings.messages == [
        f"{REFUSED}.",
        "Connected to broker b:9092 (id: 1) after 1 failed attempt.",
        f"{REFUSED}.",
    ]


def test_a_node_that_moves_begins_anew(warnings: pytest.LogCaptureFixture) -> None:
    failures = ConnectionFailures()
    fail(failures, 0)
    fail(failures, 1, node=NODE._replace(port=9093))
    assert len(warnings.messages) == 2


def test_an_attempt_that_hangs_is_reported_once(warnings: pytest.LogCaptureFixture) -> None:
    failures = ConnectionFailures()
    assert failures.next_report_ms(0) is None
    failures.begun(NODE, 0)
    assert failures.next_report_ms(500) == 1_500
    failures.report_slow(1_999)
    assert not warnings.messages
    failures.report_slow(2_000)
    failures.report_slow(2_001)
    assert warnings.messages == ["Cannot connect to broker b:9092 (id: 1): no answer yet. Still waiting."]
    assert failures.next_report_ms(2_001) is None


def test_a_node_that_is_forgotten_is_not_reported(warnings: pytest.LogCaptureFixture) -> None:
    failures = ConnectionFailures()
    failures.begun(NODE, 0)
    failures.forget(1)
    failures.failed(1, "connection refused", 1)
    failures.report_slow(9_000)
    assert not warnings.messages
