"""Any interleaving of arrivals, turns, handlers, late answers, throttles and slow readers: every request is answered
once and in its connection's order, in both modes, and nothing is left over."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.api.request import Request
from tests.support.memory_network import MemorySocket, framed
from tests.unit.network.network_harness import NetworkHarness

CONNECTIONS = 3
# Answered at once, later, not at all, later not at all, at once but throttled, by a continuation; C completes others'.
KINDS = "AWNVTRC"
SILENT = (b"N", b"V")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, CONNECTIONS - 1), st.text(KINDS, min_size=1, max_size=6)),
        st.tuples(st.just("trickle"), st.integers(0, CONNECTIONS - 1), st.integers(1, 30)),
        st.tuples(st.just("read"), st.integers(0, CONNECTIONS - 1), st.integers(1, 200)),
        st.tuples(st.sampled_from(["turn", "handle", "answer", "unthrottle"]), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Client:
    """What one client has sent, and got."""

    def __init__(self, number: int, end: MemorySocket) -> None:
        self.number = number
        self.end = end
        self.sent: list[bytes] = []
        self.outgoing = b""
        self.received = b""

    def ask(self, kinds: str) -> None:
        """Requests that will be sent by `trickle`; every fifth is a large one."""
        for kind in kinds:
            size = 66_000 if len(self.sent) % 5 == 4 else len(self.sent)
            body = b"%c%d.%d." % (ord(kind), self.number, len(self.sent)) + bytes(size)
            self.sent.append(body)
            self.outgoing += framed(body)

    def trickle(self, count: int) -> None:
        piece, self.outgoing = self.outgoing[:count], self.outgoing[count:]
        if piece:
            self.end.send(piece)

    def read(self, count: int) -> None:
        self.received += bytes(self.end.incoming[:count])
        rest = bytes(self.end.incoming[count:])
        self.end.take()
        self.end.incoming += rest

    def expected(self) -> bytes:
        return framed(*(b"re:" + body[:40] for body in self.sent if body[:1] not in SILENT))


class World:
    """The harness, and requests that wait for something."""

    def __init__(self, inline: bool) -> None:
        self.harness = NetworkHarness(inline=inline, queue_size=2)
        self.harness.on_request = self.on_request
        self.clients = [Client(n, self.harness.connect(capacity=150)) for n in range(CONNECTIONS)]
        self.waiting: list[Request[Any]] = []
        self.throttled: list[Request[Any]] = []
        self.largest_unsent = 0

    def on_request(self, request: Request[Any]) -> None:
        kind = chr(request.body[0])
        if kind in "WV":
            self.waiting.append(request)
        elif kind == "N":
            request.channel.no_op(request)
        elif kind == "R":
            request.channel.resume(lambda: self.harness.answer(request))
        elif kind == "C":
            while self.waiting:
                self.complete(self.waiting.pop(0))
            self.harness.answer(request)
        else:
            if kind == "T":
                self.throttled.append(request)
                request.channel.start_throttling(request)
            self.harness.answer(request)

    def complete(self, request: Request[Any]) -> None:
        """What a purgatory does, on whichever thread."""
        if request.body[:1] in SILENT:
            request.channel.no_op(request)
        else:
            self.harness.answer(request)

    def step(self, name: str, index: int, argument: Any) -> None:
        if name == "send":
            self.clients[index].ask(argument)
        elif name == "trickle":
            self.clients[index].trickle(argument)
        elif name == "read":
            self.clients[index].read(argument)
        elif name == "turn":
            self.harness.processor_turn()
        elif name == "handle":
            self.harness.handler.run_once(0)
        elif name == "answer" and self.waiting:
            self.complete(self.waiting.pop(0))
        elif name == "unthrottle" and self.throttled:
            request = self.throttled.pop(0)
            request.channel.end_throttling(request)

    def finish(self) -> None:
        """Let everything come to its end."""
        for _ in range(600):
            for client in self.clients:
                client.trickle(70_000)
                client.read(1000)
            self.harness.turn()
            while self.waiting:
                self.step("answer", 0, 0)
            while self.throttled:
                self.step("unthrottle", 0, 0)
            everything = len(self.harness.completed) == sum(len(client.sent) for client in self.clients)
            if everything and all(client.received == client.expected() for client in self.clients):
                return


@given(st.booleans(), steps)
def test_every_order_is_kept(inline: bool, script: list[tuple[str, int, Any]]) -> None:
    world = World(inline)
    for step in script:
        world.step(*step)
    world.finish()
    for client in world.clients:
        assert client.received == client.expected()
    harness = world.harness
    harness.settle()
    assert len(harness.completed) == len(harness.seen) == sum(len(client.sent) for client in world.clients)
    assert all(not connection.inflight for connection in harness.connections())
    assert harness.pool.leaked == 0
    for client in world.clients:
        client.end.close()
    harness.settle()
    assert (harness.connections(), harness.quotas.total) == ([], 0)
    harness.processor.close()


def test_the_script_can_find_something() -> None:
    """The test's own expectation, once by hand."""
    world = World(inline=True)
    world.step("send", 0, "AWN")
    world.finish()
    (size,) = struct.unpack_from(">i", world.clients[0].received)
    assert world.clients[0].received[4 : 4 + size].startswith(b"re:A0.0.")
