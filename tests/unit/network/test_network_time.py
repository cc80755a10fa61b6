"""Request quotas: what the network thread spent on a connection is charged to its requests, and to those alone."""

from __future__ import annotations

import gc
from typing import Any

from barnabas.api.request import Request
from tests.support.memory_network import framed
from tests.support.mock_clock import MockClock
from tests.unit.network.network_harness import NetworkHarness


class TickingClock(MockClock):
    """Whatever lies between two looks takes a nanosecond."""

    def nanoseconds(self) -> int:
        self.advance(1e-6)
        return super().nanoseconds()


class Charged(NetworkHarness):
    """Requests but those that begin with "free" are charged."""

    def __init__(self) -> None:
        super().__init__(clock=TickingClock())
        self.charges: list[tuple[bytes, int]] = []
        self.on_request = self.charge_and_answer

    def charge_and_answer(self, request: Request[Any]) -> None:
        body: bytes = bytes(request.body)
        if not body.startswith(b"free"):
            request.record_network_time = lambda time_ns: self.charges.append((body, time_ns))
        if body.startswith(b"silent"):
            request.channel.no_op(request)
        else:
            self.answer(request)


def test_what_was_spent_is_charged_when_the_answer_has_left() -> None:
    harness = Charged()
    client, other = harness.connect(), harness.connect()
    for frame in (b"first", b"second", b"silent", b"third"):
        client.send(framed(frame))
        other.send(framed(b"free"))
        harness.settle()
    # With the first one measuring began; what a request without an answer left was nothing to write.
    assert [body for body, _ in harness.charges] == [b"second", b"silent", b"third"]
    assert all(time_ns > 0 for _, time_ns in harness.charges)
    measured = [connection.channel.network_ns for connection in harness.connections()]
    assert sorted(measured) == [-1, 0]


def test_measuring_leaves_no_garbage() -> None:
    harness = Charged()
    client = harness.connect()
    client.send(framed(b"first"))
    harness.settle()
    (connection,) = harness.connections()
    channel = connection.channel
    client.close()
    harness.settle()
    assert harness.connections() == []
    assert channel.network_ns >= 0, "it was measured"
    assert not any(refers is channel for refers in gc.get_referents(channel, channel.reader, channel.outgoing))
