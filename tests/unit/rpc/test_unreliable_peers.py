"""Exchanges with peers that answer slowly, in pieces, wrongly, twice or not at all, over a real Selector in memory.

Time is the mock clock's: it moves when a poll finds nothing. Whatever a peer does, an exchange ends in time, with its
own answer or with ConnectionLost, and after a failure no socket is open.
"""

from __future__ import annotations

import errno
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.headers import parse_request_header, response_frame
from barnabas.protocol.message_index import request_class
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.rpc.connection_states import ConnectionState, Node
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.rpc.peer_connection import ConnectionLost, PeerConnection
from barnabas.transport.channel.authenticator import ChannelBuilder, PlaintextAuthenticator, plaintext_channel
from barnabas.transport.channel.tls_transport_layer import TlsTransportLayer
from barnabas.transport.selector import Selector
from tests.support.certificates import CertificateAuthority
from tests.support.memory_network import MemoryNetwork, MemoryPoller, MemorySocket
from tests.support.mock_clock import MockClock

NODE = Node(7, "localhost", 9092)
ADDRESS = ("127.0.0.1", NODE.port)
REQUEST_MS, CONNECT_MS, SETUP_MS = 3_000, 4_000, 2_500
LARGE_BYTES = 300_000
AUTHORITY = CertificateAuthority()


class Conduct(Enum):
    """What a peer does with a request, or before it."""

    ANSWER = auto()
    ANSWER_LARGE = auto()
    ANSWER_SLOWLY = auto()
    ANSWER_AND_CLOSE = auto()
    ANSWER_TWICE = auto()
    ANSWER_TOO_LATE = auto()
    ANSWER_ANOTHER = auto()
    ANSWER_HALF = auto()
    ANSWER_HALF_AND_CLOSE = auto()
    SEND_NONSENSE = auto()
    CLOSE = auto()
    RESET = auto()
    READ_NOTHING = auto()
    REFUSE = auto()
    LEAVE_IN_THE_DARK = auto()

    @property
    def is_answered(self) -> bool:
        return self.name in {"ANSWER", "ANSWER_LARGE", "ANSWER_SLOWLY", "ANSWER_AND_CLOSE", "ANSWER_TWICE"}


class Step(NamedTuple):
    """One exchange. pause_ms: the time before it."""

    conduct: Conduct
    pause_ms: int
    trusted_ms: int


class Network(MemoryNetwork):
    """The network: an attempt to connect may be refused, or lead nowhere."""

    conduct = Conduct.ANSWER

    def connect(self, client: MemorySocket, address: tuple[str, int]) -> int:
        if self.conduct is Conduct.LEAVE_IN_THE_DARK:
            return errno.EINPROGRESS
        return super().connect(client, ("10.0.0.1", 1) if self.conduct is Conduct.REFUSE else address)


class Peer:
    """The other end of one connection."""

    def __init__(self, end: MemorySocket, context: ssl.SSLContext | None) -> None:
        self.end = end
        self.received = bytearray()
        self.is_slow = False
        self._wire = bytearray()
        self._tls: ssl.SSLObject | None = None
        if context is not None:
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def receive(self) -> None:
        """Take what has arrived, and go on with the handshake."""
        data = self.end.take()
        if self._tls is None:
            self.received += data
            return
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
            while piece := self._tls.read(1 << 16):
                self.received += piece
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        self._wire += self._outgoing.read()

    def write(self, data: bytes) -> None:
        if self._tls is not None and data:
            self._tls.write(data)
            data = self._outgoing.read()
        self._wire += data

    def deliver(self, count: int | None = None) -> None:
        """Send the next bytes of what was written, if the other end is open; by default all of them."""
        if self._wire and not self.end.closed and self.end.peer is not None and not self.end.peer.closed:
            with suppress(BlockingIOError):
                del self._wire[: self.end.send(bytes(self._wire[:count]))]


class World:
    """A connection, and the broker that it leads to."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.clock = MockClock()
        self.network = Network()
        self.poller = self.network.poller = _Time(self)
        self.listening = self.network.listen(ADDRESS)
        self.peers: list[Peer] = []
        self.sockets: list[MemorySocket] = []
        self.step = Step(Conduct.ANSWER, 0, -1)
        self.requests: list[int] = []
        self.due: list[tuple[int, Callable[[], None]]] = []
        self._context = context
        self.selector = Selector(
            self.clock, poller=self.poller, open_socket=self._open_socket, max_idle_ms=-1, max_receive_bytes=1 << 20
        )
        self.connection = PeerConnection(
            NODE,
            self.selector,
            NetworkClientConfig(
                client_id="me",
                request_timeout_ms=REQUEST_MS,
                connection_setup_timeout_ms=SETUP_MS,
                connection_setup_timeout_max_ms=SETUP_MS,
                channel_builder=_plaintext if context is None else _tls,
            ),
            self.clock,
            resolve=lambda host, port: [ADDRESS[0]],
        )

    def _open_socket(self, family: int) -> MemorySocket:
        self.sockets.append(self.network.open_socket(family))
        return self.sockets[-1]

    # -- the broker

    def act(self) -> None:
        """Do what is due, before a poll looks for events."""
        for end in self.listening[len(self.peers) :]:
            self.peers.append(Peer(end, self._context))
        now_ms = self.connection.now_ms()
        due = [action for due_ms, action in self.due if due_ms <= now_ms]
        self.due = [(due_ms, action) for due_ms, action in self.due if due_ms > now_ms]
        for action in due:
            action()
        for peer in self.peers:
            if peer.end.closed or self.step.conduct is Conduct.READ_NOTHING:
                continue
            peer.receive()
            if not peer.is_slow:
                peer.deliver()
            while len(peer.received) >= 4:
                (size,) = struct.unpack_from(">i", peer.received)
                if len(peer.received) < 4 + size:
                    break
                frame = bytes(peer.received[4 : 4 + size])
                del peer.received[: 4 + size]
                self._serve(peer, frame)

    def _serve(self, peer: Peer, frame: bytes) -> None:
        header, position = parse_request_header(frame)
        body = request_class(header.api_key).decode(frame, header.api_version, position)[0]
        assert isinstance(body, FetchRequest)
        self.requests.append(body.session_id)
        conduct, now_ms = self.step.conduct, self.connection.now_ms()

        def answer(session_id: int) -> bytes:
            records = bytes(LARGE_BYTES) if conduct is Conduct.ANSWER_LARGE else b"records"
            data = FetchResponse.PartitionData(partition_index=0, records=records)
            response = FetchResponse(
                session_id=session_id, responses=[FetchResponse.FetchableTopicResponse(partitions=[data])]
            )
            pieces, _ = response_frame(header, response, None)
            return b"".join(bytes(piece) for piece in pieces)

        whole = answer(body.session_id)
        if conduct in (Conduct.CLOSE, Conduct.RESET):
            peer.end.close() if conduct is Conduct.CLOSE else peer.end.reset()
        elif conduct is Conduct.ANSWER_SLOWLY:
            peer.is_slow = True
            peer.write(whole)
            self.due += [(now_ms + after_ms, partial(peer.deliver, 15)) for after_ms in (1, 300, 600)]
            self.due.append((now_ms + 900, partial(setattr, peer, "is_slow", False)))
        elif conduct is Conduct.ANSWER_TOO_LATE:
            self.due.append((now_ms + REQUEST_MS + 200, lambda: peer.write(whole)))
        elif conduct is Conduct.ANSWER_ANOTHER:
            peer.write(whole[:4] + struct.pack(">i", header.correlation_id - 1) + whole[8:])
        elif conduct is Conduct.SEND_NONSENSE:
            peer.write(struct.pack(">i", 12) + bytes(range(200, 212)))
        elif conduct in (Conduct.ANSWER_HALF, Conduct.ANSWER_HALF_AND_CLOSE):
            peer.write(whole[: len(whole) // 2])
        else:
            peer.write(whole + (answer(-1) if conduct is Conduct.ANSWER_TWICE else b""))
        if not peer.is_slow:
            peer.deliver()
        if conduct in (Conduct.ANSWER_AND_CLOSE, Conduct.ANSWER_HALF_AND_CLOSE):
            peer.end.close()


class _Time(MemoryPoller):
    """A Poller that lets the broker act, and time pass while nothing happens."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def _poll(self, timeout: float) -> list[tuple[int, int]]:
        self._world.act()
        events = super()._poll(timeout)
        if not events and timeout > 0:
            now_ms = self._world.connection.now_ms()
            due_ms = [due_ms - now_ms for due_ms, _ in self._world.due]
            self._world.clock.advance(min([timeout * 1000, *due_ms]))
        return events


def _plaintext(host: str) -> ChannelBuilder:
    return plaintext_channel


def _tls(host: str) -> ChannelBuilder:
    return lambda stream_socket: (
        TlsTransportLayer(stream_socket, AUTHORITY.client_context(), server_side=False, server_hostname=host),
        PlaintextAuthenticator(),
    )


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ssl.SSLContext | None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(AUTHORITY.issue("server").write_pem(tmp_path_factory.mktemp("tls") / "server.pem"))
    return {"PLAINTEXT": None, "SSL": context}


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(Conduct),
        st.sampled_from([0, 20, 60, 700_000]),
        st.sampled_from([-1, 50]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
@given(steps=STEPS)
def test_an_exchange_ends_with_its_own_answer_or_without_a_connection(
    contexts: dict[str, ssl.SSLContext | None], protocol: str, steps: list[Step]
) -> None:
    world = World(contexts[protocol])
    asked: list[int] = []
    may_fail = False
    for number, step in enumerate(steps, 1):
        world.step, world.network.conduct = step, step.conduct
        attempts = len(world.sockets)
        world.clock.advance(step.pause_ms)
        started_ms = world.connection.now_ms()
        was_open = bool(world.selector.channels)
        try:
            world.connection.await_ready(CONNECT_MS, trusted_ms=step.trusted_ms)
            sent_ms = world.connection.now_ms()
            asked.append(number)
            answer = world.connection.exchange(FetchRequest(session_id=number))
        except ConnectionLost:
            assert not step.conduct.is_answered or may_fail
            assert world.connection.state is ConnectionState.DISCONNECTED
            assert world.selector.channels == []
            assert all(each.closed for each in world.sockets)
            if step.conduct in (Conduct.CLOSE, Conduct.RESET, Conduct.ANSWER_HALF_AND_CLOSE, Conduct.REFUSE):
                assert world.connection.now_ms() == started_ms, "a loss is noticed at once"
            may_fail = False
        else:
            assert isinstance(answer, FetchResponse)
            assert answer.session_id == number, "another request's answer"
            assert step.conduct.is_answered or (
                step.conduct in (Conduct.REFUSE, Conduct.LEAVE_IN_THE_DARK) and was_open
            )
            (topic,) = answer.responses
            records = topic.partitions[0].records
            assert records is not None
            assert len(records) == (LARGE_BYTES if step.conduct is Conduct.ANSWER_LARGE else len(b"records"))
            assert world.connection.now_ms() - sent_ms <= REQUEST_MS
            # A trusted connection may have been lost unseen; a frame behind an answer is found by the next exchange.
            may_fail = step.conduct in (Conduct.ANSWER_AND_CLOSE, Conduct.ANSWER_TWICE)
            del answer, topic, records
        assert world.connection.now_ms() - started_ms <= CONNECT_MS + REQUEST_MS + 2
        assert len(world.sockets) - attempts <= 1
        assert sum(not each.closed for each in world.sockets) == len(world.selector.channels) <= 1
    assert world.requests == [each for each in asked if each in world.requests], "a request was sent twice"
    world.connection.close()
    assert all(each.closed for each in world.sockets)
    assert world.poller.closed


def test_the_loss_of_the_connection_before_is_not_taken_for_that_of_the_next() -> None:
    world = World(None)
    world.connection.await_ready(CONNECT_MS)
    world.poller.poll(0)
    world.peers[0].end.reset()
    world.selector.send_at_once(str(NODE.id), [b"to nobody"])
    world.connection.disconnect()
    assert not world.connection.ready()
    world.connection.watch(0)
    assert world.connection.state is ConnectionState.READY
    assert len(world.selector.channels) == 1
    assert isinstance(world.connection.exchange(FetchRequest(session_id=1)), FetchResponse)
    world.connection.close()
