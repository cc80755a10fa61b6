"""The producer's settings where they depend on each other."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.producer.producer_config import ProducerConfig


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"enable_idempotence": False}, False),
        ({"acks": "all", "retries": 1, "max_in_flight_requests_per_connection": 5}, True),
        ({"acks": 1}, False),
        ({"acks": 0}, False),
        ({"retries": 0}, False),
        ({"max_in_flight_requests_per_connection": 6}, False),
    ],
)
def test_idempotence_is_on_unless_a_given_setting_rules_it_out(settings: Any, expected: bool) -> None:
    assert ProducerConfig(**settings).is_idempotent is expected


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"acks": 1}, "Must set acks to all in order to use the idempotent producer, not to 1."),
        ({"retries": 0}, "Must set retries to non-zero"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5 to use the idempotent producer, not to 6."),
    ],
)
def test_idempotence_that_was_asked_for_contradicts_them(settings: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ProducerConfig(enable_idempotence=True, **settings)
