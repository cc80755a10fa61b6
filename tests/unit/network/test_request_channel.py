"""Every request is handled exactly once, no more wait than may, continuations go first."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from barnabas.network.requests.request_channel import CallbackRequest, RequestChannel, ShutdownRequest


def no_wake() -> None:
    raise AssertionError("nobody was refused")


def test_requests_come_out_in_order_behind_continuations() -> None:
    channel = RequestChannel(10)
    ran = []
    assert channel.try_send("one", no_wake)
    channel.send_callback(lambda: ran.append(True))
    assert channel.try_send("two", no_wake)
    channel.send_shutdown_request()
    assert channel.request_queue_size == 4
    first = channel.receive(0)
    assert isinstance(first, CallbackRequest)
    first.run()
    assert ran == [True]
    assert [channel.receive(0), channel.receive(0)] == ["one", "two"]
    assert isinstance(channel.receive(0), ShutdownRequest)
    assert channel.receive(0) is None


def test_a_full_queue_refuses_and_wakes_once_when_there_is_room() -> None:
    channel = RequestChannel(2)
    woken = []

    def wake() -> None:
        woken.append(len(channel.waiting_requests))

    assert channel.try_send(1, wake)
    assert channel.try_send(2, wake)
    assert not channel.try_send(3, wake)
    assert not channel.try_send(3, wake)
    channel.send_callback(no_wake)
    channel.receive(0)
    assert woken == []
    assert channel.receive(0) == 1
    assert woken == [1]
    assert channel.try_send(3, wake)
    assert [channel.receive(0), channel.receive(0)] == [2, 3]
    assert woken == [1]


def test_clear_takes_everything_out() -> None:
    channel = RequestChannel(2)
    channel.try_send(1, no_wake)
    channel.try_send(2, no_wake)
    assert channel.clear() == [1, 2]
    assert channel.request_queue_size == 0


def test_a_processor_id_in_use_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    class Registered:
        processor_id = 3

        def __init__(self, size: int) -> None:
            self.response_queue_size = size

    channel = RequestChannel()
    channel.add_processor(Registered(1))
    with caplog.at_level(logging.WARNING):
        channel.add_processor(Registered(2))
    assert "Unexpected processor with processorId 3" in caplog.text
    assert channel.response_queue_sizes == {3: 1}
    channel.remove_processor(3)
    assert channel.response_queue_sizes == {}


class Producer:
    """What a Processor does: sends what it can, stages what it cannot, sleeps until woken."""

    def __init__(self, channel: RequestChannel, items: list[Any]) -> None:
        self.channel = channel
        self.items = items
        self.awake = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        for item in self.items:
            while not self.channel.try_send(item, self.awake.set):
                # A lost wake-up would make this time out, and the assertion fail.
                assert self.awake.wait(30)
                self.awake.clear()


def test_under_stress_each_item_is_taken_once_and_no_wakeup_is_lost() -> None:
    capacity, per_producer, callbacks = 7, 3000, 2000
    channel = RequestChannel(capacity)
    taken: list[list[Any]] = [[] for _ in range(4)]
    largest = [0] * 4

    def consume(index: int) -> None:
        while True:
            item = channel.receive(30)
            assert item is not None
            if isinstance(item, ShutdownRequest):
                return
            largest[index] = max(largest[index], len(channel.waiting_requests))
            if isinstance(item, CallbackRequest):
                item.run()
            else:
                taken[index].append(item)

    ran: list[int] = []
    producers = [Producer(channel, [(n, i) for i in range(per_producer)]) for n in range(3)]
    consumers = [threading.Thread(target=consume, args=(index,)) for index in range(4)]
    for thread in consumers:
        thread.start()
    for producer in producers:
        producer.thread.start()
    for number in range(callbacks):
        channel.send_callback(lambda number=number: ran.append(number))  # type: ignore[misc]
    for producer in producers:
        producer.thread.join(60)
        assert not producer.thread.is_alive()
    for _ in consumers:
        channel.send_shutdown_request()
    for thread in consumers:
        thread.join(60)
        assert not thread.is_alive()
    everything = sorted(item for items in taken for item in items)
    assert everything == sorted((n, i) for n in range(3) for i in range(per_producer))
    assert sorted(ran) == list(range(callbacks))
    assert max(largest) <= capacity + len(consumers)  # the shutdown requests come on top of the bound
    for items in taken:
        for number in range(3):
            own = [i for n, i in items if n == number]
            assert own == sorted(own)
