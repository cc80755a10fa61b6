"""Parts of the consumer's group machinery by themselves: reset policies, heartbeat times, settings."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.calls.offset_lookup import EARLIEST, LATEST
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.group.classic.classic_member_session import Heartbeat
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.offset_reset import OffsetReset, parse_offset_reset
from barnabas.rpc.connection_states import ExponentialBackoff


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", OffsetReset(EARLIEST)),
        ("latest", OffsetReset(LATEST)),
        ("none", OffsetReset()),
        ("by_duration:PT1H", OffsetReset(duration_ms=3_600_000)),
        ("by_duration:P3DT4H5M6.789S", OffsetReset(duration_ms=3 * 86_400_000 + 4 * 3_600_000 + 5 * 60_000 + 6_789)),
        ("by_duration:PT0.5S", OffsetReset(duration_ms=500)),
    ],
)
def test_reset_policies(text: str, expected: OffsetReset) -> None:
    assert parse_offset_reset(text) == expected


@pytest.mark.parametrize(
    "text", ["", "EARLIEST", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:-P1D"]
)
def test_no_reset_policies(text: str) -> None:
    with pytest.raises(ValueError, match="auto_offset_reset must be"):
        parse_offset_reset(text)


def test_a_duration_counts_from_now_and_not_from_before_time() -> None:
    assert parse_offset_reset("by_duration:PT1S").timestamp_at(5_000) == 4_000
    assert parse_offset_reset("by_duration:P9D").timestamp_at(5_000) == 0


def test_heartbeats_are_due_in_time_and_soon_after_a_failure() -> None:
    config = GroupRebalanceConfig(
        group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=3_000, max_poll_interval_ms=60_000
    )
    heartbeat = Heartbeat(config, ExponentialBackoff(100, 1_000, None), 0)
    assert (heartbeat.is_due(2_999), heartbeat.is_due(3_000)) == (False, True)
    heartbeat.sent(3_000)
    assert heartbeat.next_event_ms(3_000, is_in_flight=True) == 7_000, "the session's end"
    heartbeat.failed(3_500)
    assert heartbeat.next_event_ms(3_500, is_in_flight=False) == 100
    heartbeat.failed(3_600)
    assert heartbeat.next_event_ms(3_600, is_in_flight=False) == 200
    heartbeat.received(4_000)
    assert (heartbeat.is_session_over(13_999), heartbeat.is_session_over(14_000)) == (False, True)
    assert (heartbeat.is_poll_overdue(59_999), heartbeat.is_poll_overdue(60_000)) == (False, True)
    heartbeat.polled(50_000)
    assert not heartbeat.is_poll_overdue(109_999)


@pytest.mark.parametrize(
    "settings",
    [
        {"group_id": ""},
        {"heartbeat_interval_ms": 45_000},
        {"max_poll_records": 0},
        {"enable_auto_commit": True},
        {"auto_offset_reset": "sometimes"},
        {"group_instance_id": ""},
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ConsumerConfig(**settings)
