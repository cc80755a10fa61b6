"""A TLS channel in a Selector, over sockets in memory: nothing above the transport notices, whatever is cut or full."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest

from barnabas.records.file_records import FileRecords
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.segment.file import OpenFile
from barnabas.transport.channel.authenticator import PlaintextAuthenticator
from barnabas.transport.channel.kafka_channel import ChannelState, KafkaChannel
from barnabas.transport.channel.tls_transport_layer import TlsTransportLayer
from barnabas.transport.channel.transport_layer import StreamSocket
from barnabas.transport.poller import WRITABLE
from barnabas.transport.selector import Selector
from tests.support.certificates import CertificateAuthority
from tests.support.memory_network import MemoryNetwork, MemorySocket, framed
from tests.support.mock_clock import MockClock

AUTHORITY = CertificateAuthority()
NO_TLS_SPOKEN = "the peer does not speak TLS: it has to be set up for SSL, or to use another listener"


@pytest.fixture(scope="module")
def server_context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(AUTHORITY.issue("server").write_pem(tmp_path_factory.mktemp("tls") / "server.pem"))
    return context


class TlsClient:
    """A client by Python's ssl, whose bytes the test moves: `wire` are those that it has not delivered yet."""

    def __init__(self, end: MemorySocket, context: ssl.SSLContext | None = None) -> None:
        self.end = end
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        context = context or AUTHORITY.client_context()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.wire = bytearray()
        self.read = bytearray()
        self.finished = False
        """Whether the server has said that no more follows."""

    def handshake(self) -> bool:
        """One step. Whether it is over."""
        self._take()
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.wire += self.outgoing.read()
        return True

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.tls.write(view) :]
        self.wire += self.outgoing.read()

    def deliver(self, count: int | None = None) -> None:
        """The next bytes of the wire, as far as there is room; all of them by default."""
        left = len(self.wire) if count is None else count
        while left and self.wire:
            try:
                sent = self.end.send(bytes(self.wire[:left]))
            except BlockingIOError:
                return
            del self.wire[:sent]
            left -= sent

    def receive(self) -> bytes:
        """All that has been decrypted so far."""
        self._take()
        while True:
            try:
                piece = self.tls.read(1 << 20)
            except ssl.SSLWantReadError:
                return bytes(self.read)
            except ssl.SSLZeroReturnError:
                piece = b""
            if not piece:
                self.finished = True
                return bytes(self.read)
            self.read += piece

    def _take(self) -> None:
        self.incoming.write(self.end.take())


class World:
    """A Selector that serves TLS."""

    def __init__(self, context: ssl.SSLContext, client_capacity: int | None = None) -> None:
        self.network = MemoryNetwork()
        self.selector = Selector(
            MockClock(),
            poller=self.network.poller,
            channel_builder=lambda stream_socket: (
                TlsTransportLayer(stream_socket, context, server_side=True),
                PlaintextAuthenticator(),
            ),
        )
        server, end = self.network.pair(client_capacity)
        self.end = end
        self.selector.register("a", server)
        self.client = TlsClient(end)

    def poll(self) -> dict[str, ChannelState]:
        self.selector.poll(300)
        return dict(self.selector.disconnected)

    def connect(self) -> None:
        for _ in range(10):
            over = self.client.handshake()
            self.client.deliver()
            self.poll()
            if over and self.selector.is_channel_ready("a"):
                return
        raise AssertionError("no handshake")

    @property
    def channel(self) -> KafkaChannel:
        channel = self.selector.channel("a")
        assert channel is not None
        return channel

    def frames(self) -> list[bytes]:
        found = []
        for channel in self.selector.completed_receives:
            while (frame := channel.take_receive()) is not None:
                found.append(bytes(frame))
                if channel.reader.release is not None:
                    channel.reader.release()
        return found

    def frames_of_polls(self, count: int) -> list[bytes]:
        """Poll until so many have come. No event follows the last byte, so a lost edge ends this."""
        found: list[bytes] = []
        for _ in range(20 * count + 200):
            self.poll()
            found += self.frames()
            if len(found) >= count:
                return found
        raise AssertionError(f"{len(found)} frames of {count}")


def test_the_handshake_makes_a_channel_ready(server_context: ssl.SSLContext) -> None:
    world = World(server_context)
    assert not world.selector.is_channel_ready("a")
    world.connect()
    assert world.selector.counters.successful_authentications == 1
    transport = world.channel.transport
    assert isinstance(transport, TlsTransportLayer)
    assert transport.cipher_suite[1] == "TLSv1.3"
    assert transport.peer_certificate is None


def test_a_request_in_the_segment_of_the_handshakes_end_is_read(server_context: ssl.SSLContext) -> None:
    world = World(server_context)
    while not world.client.handshake():
        world.client.deliver()
        world.poll()
    world.client.write(framed(b"first", b"second"))
    world.client.deliver()
    assert world.frames_of_polls(2) == [b"first", b"second"]


def test_records_cut_at_every_byte(server_context: ssl.SSLContext) -> None:
    world = World(server_context)
    for _ in range(10):
        over = world.client.handshake()
        while world.client.wire:
            world.client.deliver(1)
            assert world.poll() == {}
        if over:
            break
    assert world.selector.is_channel_ready("a")
    world.client.write(framed(b"hello"))
    found = []
    while world.client.wire:
        world.client.deliver(1)
        world.poll()
        found += world.frames()
    assert found == [b"hello"]


@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 16_385, 65_531, 65_532, 65_536, 65_537, 200_000, 3_000_000])
def test_frames_of_any_size_come_whole(server_context: ssl.SSLContext, size: int) -> None:
    world = World(server_context)
    world.connect()
    frame = bytes(range(256)) * (size // 256 + 1)
    world.client.write(framed(frame[:size], b"behind"))
    # The socket takes a megabyte at a time, so the reader drains it in between.
    found: list[bytes] = []
    while world.client.wire:
        world.client.deliver(1 << 19)
        world.poll()
        found += world.frames()
    for _ in range(200):
        if len(found) == 2:
            break
        world.poll()
        found += world.frames()
    assert found == [frame[:size], b"behind"]


def test_decrypted_bytes_survive_a_mute(server_context: ssl.SSLContext) -> None:
    """Many frames in few records: what is decrypted and not taken is read when the channel is unmuted."""
    world = World(server_context)
    world.connect()
    frames = [bytes([number]) * 3000 for number in range(100)]
    world.client.write(framed(*frames))
    world.client.deliver()
    found: list[bytes] = []
    for _ in range(1000):
        world.poll()
        for channel in world.selector.completed_receives:
            frame = channel.take_receive()
            assert frame is not None
            found.append(bytes(frame))
            channel.mute()
        world.selector.io.unmute(world.channel)
        if len(found) == 100:
            break
    assert found == frames


@pytest.mark.parametrize("capacity", [700, 5_000, 70_000, 150_000])
def test_an_answer_for_which_there_is_no_room_leaves_in_pieces(server_context: ssl.SSLContext, capacity: int) -> None:
    world = World(server_context, capacity)
    world.connect()
    pieces = [b"head", bytes(range(256)) * 600, b"", b"x" * 70_000, b"tail" * 10]
    world.channel.outgoing.add(pieces)
    world.selector.io.write(world.channel)
    expected = b"".join(pieces)
    for _ in range(2_000):
        if len(world.client.receive()) == len(expected):
            break
        assert world.poll() == {}
    assert bytes(world.client.read) == expected
    world.poll()
    assert not world.channel.outgoing.unsent
    assert world.channel.outgoing.sent == len(expected)


@pytest.mark.parametrize("capacity", [5_000, 100_000, 1 << 20])
def test_a_file_is_read_and_encrypted(server_context: ssl.SSLContext, tmp_path: Path, capacity: int) -> None:
    world = World(server_context, capacity)
    world.connect()
    content = bytes(range(251)) * 12_000
    path = tmp_path / "segment"
    path.write_bytes(content)
    file = OpenFile(OperatingSystemFiles().open(str(path)))
    start, size = 100, 2_500_000
    world.channel.outgoing.add([b"head", FileRecords(file, start, size), b"tail"])
    world.selector.io.write(world.channel)
    expected = b"head" + content[start : start + size] + b"tail"
    for _ in range(10_000):
        if len(world.client.receive()) == len(expected):
            break
        world.poll()
    assert bytes(world.client.read) == expected


def test_plaintext_bytes_are_one_line_in_the_log(
    server_context: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(server_context)
    world.end.send(framed(b"\0\x12\0\3\0\0\0\1\0\1a"))
    with caplog.at_level(logging.INFO):
        assert world.poll() == {"a": ChannelState.AUTHENTICATION_FAILED}
    assert [record.message for record in caplog.records] == [
        "Failed authentication with a (SSL handshake failed: WRONG_VERSION_NUMBER: " + NO_TLS_SPOKEN + ")"
    ]


@pytest.mark.parametrize("delivered", [0, 1, 5, 50, 200])
def test_a_handshake_that_ends_early_fails(server_context: ssl.SSLContext, delivered: int) -> None:
    world = World(server_context)
    world.client.handshake()
    world.client.deliver(delivered)
    world.poll()
    world.end.close()
    assert "a" in world.poll()
    assert world.selector.channel("a") is None


def test_a_forged_record_ends_the_connection(server_context: ssl.SSLContext) -> None:
    world = World(server_context)
    world.connect()
    world.client.write(framed(b"request"))
    world.client.wire[-1] ^= 1
    world.client.deliver()
    assert "a" in world.poll()
    assert world.frames() == []


def test_the_end_of_the_stream_is_seen_behind_the_last_request(server_context: ssl.SSLContext) -> None:
    world = World(server_context)
    world.connect()
    world.client.write(framed(b"last"))
    with pytest.raises(ssl.SSLWantReadError):
        world.client.tls.unwrap()
    world.client.wire += world.client.outgoing.read()
    world.client.deliver()
    world.end.close()
    found: list[bytes] = []
    ended: dict[str, ChannelState] = {}
    for _ in range(5):
        ended |= world.poll()
        found += world.frames()
    assert found == [b"last"]
    assert "a" in ended


def test_a_close_says_that_no_more_follows(server_context: ssl.SSLContext) -> None:
    world = World(server_context)
    world.connect()
    world.channel.outgoing.add([b"answer"])
    world.selector.io.write(world.channel)
    world.selector.close("a")
    assert world.client.receive() == b"answer"
    assert world.client.finished


def test_our_client_and_our_server_talk(server_context: ssl.SSLContext) -> None:
    """Both sides of the transport, in one Selector: it connects to itself. The client names its server (SNI)."""
    named: list[str | None] = []

    def note_name(_tls: object, name: str | None, _context: ssl.SSLContext) -> None:
        named.append(name)

    server_context.sni_callback = note_name
    network = MemoryNetwork()
    address = ("127.0.0.1", 9092)
    accepted = network.listen(address)
    context = AUTHORITY.client_context()

    def build(stream_socket: StreamSocket) -> tuple[TlsTransportLayer, PlaintextAuthenticator]:
        is_server = stream_socket.getsockname() == address
        name = None if is_server else "localhost"
        chosen = server_context if is_server else context
        return TlsTransportLayer(stream_socket, chosen, server_side=is_server, server_hostname=name), (
            PlaintextAuthenticator()
        )

    selector = Selector(MockClock(), poller=network.poller, open_socket=network.open_socket, channel_builder=build)
    selector.connect("client", address)
    selector.register("server", accepted[0])
    for _ in range(10):
        selector.poll(0)
    assert selector.is_channel_ready("client")
    assert selector.is_channel_ready("server")
    server_context.sni_callback = None
    assert named == ["localhost"]
    requests = [bytes([number]) * 50_000 for number in range(10)]
    found: list[bytes] = []
    for request in requests:
        selector.send("client", [framed(request)])
        for _ in range(20):
            selector.poll(0)
            for channel in selector.completed_receives:
                assert channel.connection_id == "server"
                frame = channel.take_receive()
                assert frame is not None
                found.append(bytes(frame))
    assert found == requests


def test_a_request_that_the_handshake_received_is_read_without_an_event(server_context: ssl.SSLContext) -> None:
    """The client is so fast that one call sees its whole handshake, and the request behind it."""
    world = World(server_context)
    world.client.handshake()
    world.client.deliver()
    world.poll()
    assert world.client.handshake()
    world.client.write(framed(b"request"))
    world.client.deliver()
    # What an edge-triggered Poller says when the socket was emptied after the edge: that there is room.
    world.network.poller._events.update(dict.fromkeys(world.network.poller._events, WRITABLE))
    assert world.frames_of_polls(1) == [b"request"]
