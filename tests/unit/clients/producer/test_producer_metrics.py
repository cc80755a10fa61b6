"""The producer's metrics, from a sender on a scripted network and from a pool on a clock that stands still."""

from __future__ import annotations

import math
import threading

import pytest

from barnabas.clients.errors import BufferExhausted
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.producer_metrics import ClientState
from barnabas.protocol.errors import ErrorCode
from tests.support.mock_clock import MockClock
from tests.unit.clients.producer.producer_harness import SenderSetting

STATE = ClientState(BufferPool(1_000, MockClock()).use(), 0, math.nan)


def values(setting: SenderSetting, topic: str | None = None) -> dict[str, float]:
    tags = (("client-id", "mine"),) if topic is None else (("client-id", "mine"), ("topic", topic))
    group = "producer-metrics" if topic is None else "producer-topic-metrics"
    measured = setting.sender.metrics.measure("mine", STATE)
    return {metric.name: value for metric, value in measured.items() if (metric.group, metric.tags) == (group, tags)}


def test_what_was_sent_retried_and_failed() -> None:
    setting = SenderSetting(linger_ms=20)
    setting.append()
    setting.append()
    setting.turns()
    setting.clock.advance(20)
    setting.turns(2)
    setting.clock.advance(7)
    setting.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    setting.clock.advance(150)
    setting.turns(4)
    setting.clock.advance(9)
    setting.answer(base_offset=0)
    setting.append()
    setting.clock.advance(20)
    setting.turns(4)
    setting.answer(ErrorCode.INVALID_RECORD)
    found = values(setting)
    assert (found["record-send-total"], found["record-retry-total"], found["record-error-total"]) == (5, 2, 1)
    assert found["records-per-request-avg"] == pytest.approx(5 / 3)
    assert found["request-latency-avg"] == pytest.approx(16 / 3)
    assert found["request-latency-max"] == 9
    assert found["record-queue-time-max"] == 177
    assert 61 < found["batch-size-avg"] < found["batch-size-max"] < 100
    assert found["compression-rate-avg"] == 1.0
    assert found["record-send-rate"] == pytest.approx(5 / 30, rel=0.02)
    topic = values(setting, "t")
    assert (topic["record-send-total"], topic["record-retry-total"], topic["record-error-total"]) == (5, 2, 1)
    assert topic["byte-total"] == pytest.approx(3 * found["batch-size-avg"])
    setting.clock.advance(90_000)
    found = values(setting)
    assert math.isnan(found["request-latency-avg"])
    assert (found["record-send-total"], found["record-send-rate"]) == (5, 0)


def test_a_batch_that_was_split_is_counted() -> None:
    setting = SenderSetting()
    for _ in range(4):
        setting.append(b"v" * 100)
    setting.turns()
    setting.answer(ErrorCode.MESSAGE_TOO_LARGE)
    assert values(setting)["batch-split-total"] == 1


def test_waits_for_memory() -> None:
    clock = MockClock()
    pool = BufferPool(1_000, clock)
    pool.allocate(800, 0)
    with pytest.raises(BufferExhausted):
        pool.allocate(300, 0)
    waiter = threading.Thread(target=pool.allocate, args=(300, 60_000))
    waiter.start()
    while not pool.waiting:
        waiter.join(0.001)
    assert pool.use().waiting == 1
    clock.advance(6_000)
    pool.give_back(800)
    waiter.join()
    use = pool.use()
    assert (use.total_bytes, use.available_bytes, use.waiting, use.exhausted) == (1_000, 700, 0, 1)
    assert use.waited_ns == 6_000_000_000
    assert use.wait_ratio == pytest.approx(0.2, rel=0.2)
