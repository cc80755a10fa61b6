"""Idle channels are found in order, and closed ones are not kept."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.transport.channel.open_channels import SWEEP_AT_LEAST, IdleExpiry

pytestmark = pytest.mark.interpreted  # compiled, IdleExpiry takes KafkaChannels alone


class Channel:
    def __init__(self, last_active_ns: int) -> None:
        self.last_active_ns = last_active_ns
        self.closed = False


def test_the_oldest_is_the_one_without_news() -> None:
    expiry: Any = IdleExpiry(1)
    first, second, third = Channel(1), Channel(2), Channel(3)
    for channel in (first, second, third):
        expiry.add(channel)
    first.last_active_ns = 10
    assert expiry.oldest() is second
    second.closed = True
    expiry.closed()
    assert expiry.oldest() is third
    assert expiry.expired(1_000_003) is None
    assert expiry.expired(1_000_004) is third


def test_short_lived_channels_cost_no_memory() -> None:
    expiry: Any = IdleExpiry(600_000)
    lasting = Channel(0)
    expiry.add(lasting)
    for now_ns in range(1, 20_000):
        channel = Channel(now_ns)
        expiry.add(channel)
        channel.closed = True
        expiry.closed()
    assert len(expiry._heap) <= 2 * SWEEP_AT_LEAST + 2
    assert expiry.oldest() is lasting
