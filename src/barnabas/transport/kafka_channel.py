"""One connection as its Selector sees it: a receiving half, a sending half, and the state of both.

Owned by the thread of its Selector; no other thread touches it, so no lock. Kafka: KafkaChannel. A layer above
keeps its own object for the connection in `attachment`, so that a request needs no look-up by connection id.

The stages: NOT_CONNECTED (a client's connect is under way) -> AUTHENTICATE (transport handshake, then the
authenticator) -> READY -> closed; `state` then says how the channel ended. Between the last two a channel may be
closing (`OpenChannels.begin_closing`): received requests are handled, their answers leave, nothing more is read. From
READY a channel goes back to AUTHENTICATE when its client logs in again (KIP-368).

`ChannelIO` writes the marks `readable`, `in_ready_list` and `in_write_list`, and explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import ECONNRESET
from typing import Any

from barnabas.transport.authenticator import AuthenticationFailed, Authenticator
from barnabas.transport.channel_memory import FREE_BYTES, ChannelMemory
from barnabas.transport.channel_state import ChannelState
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.frame_reader import RECEIVE_BYTES, Frame, FrameReader
from barnabas.transport.send import Send
from barnabas.transport.transport_layer import TransportLayer


class KafkaChannel:
    """A channel. At most one completed frame waits in `receive`; frames behind it stay raw bytes in the reader."""

    __slots__ = (
        "attachment",
        "authenticator",
        "closed",
        "connection_id",
        "conversed",
        "fd",
        "hangup",
        "in_ready_list",
        "in_write_list",
        "last_active_ns",
        "memory",
        "muted",
        "network_ns",
        "outgoing",
        "read",
        "readable",
        "reader",
        "ready",
        "reauthentication_began_ns",
        "receive",
        "state",
        "transport",
        "write",
    )

    def __init__(
        self,
        connection_id: str,
        transport: TransportLayer,
        authenticator: Authenticator,
        pool: FrameBufferPool,
        max_receive_bytes: int,
        now_ns: int,
        memory: ChannelMemory[KafkaChannel] | None = None,
    ) -> None:
        """memory: the channel's account in a limited MemoryPool; None: memory is not limited."""
        self.connection_id = connection_id
        self.transport = transport
        self.authenticator = authenticator
        self.reauthentication_began_ns = 0
        """When the client last began to log in again on this connection; 0: it has logged in once at most."""
        self.fd = transport.fileno()
        self.state = ChannelState.AUTHENTICATE
        self.ready = False
        """Whether the channel is connected, authenticated and open. Besides `state`, because every event reads this."""
        self.reader = FrameReader(transport.recv, transport.recv_into, pool, max_receive_bytes, memory)
        self.outgoing = Send(transport) if memory is None else Send(transport, FREE_BYTES)
        self.memory = memory
        # Bound once: the Selector calls these for every request.
        self.read: Callable[[], Frame | None] = self.reader.read
        self.write: Callable[[], bool] = self.outgoing.write
        self.receive: Frame | None = None
        self.muted = False
        self.readable = False
        """Whether the kernel may hold received bytes: set by the Poller's event, cleared by a receive that took them
        all."""
        self.hangup = False
        """Whether the peer has finished or is gone: then read until the stream ends, however few bytes a receive
        brings."""
        self.conversed = False
        """Whether the authenticator has sent frames, which answer no request."""
        self.in_ready_list = False
        self.in_write_list = False
        self.closed = False
        self.last_active_ns = now_ns
        self.network_ns = -1
        """The nanoseconds spent receiving and sending since they were last charged; -1 if they are not measured."""
        self.attachment: Any = None

    def measure_network_time(self, now: Callable[[], int]) -> None:
        """Sum up the time of `read` and `write` in `network_ns` from now on. `now`: nanoseconds.

        For request quotas (Kafka: recordTimePerConnection). A connection that is not charged is not measured.
        """
        read, write = self.read, self.write
        self.network_ns = 0

        def timed_read() -> Frame | None:
            started_ns = now()
            try:
                return read()
            finally:
                self.network_ns += now() - started_ns

        def timed_write() -> bool:
            started_ns = now()
            try:
                return write()
            finally:
                self.network_ns += now() - started_ns

        self.read, self.write = timed_read, timed_write

    # -- transitions: the Selector's parts

    def begin_connect(self) -> None:
        """Note that a connect has begun: nothing can be sent yet."""
        self.state = ChannelState.NOT_CONNECTED
        self.outgoing.writable = False

    def finish_connect(self) -> None:
        """Go on to the handshake. Raises OSError when connecting has failed."""
        self.transport.finish_connect()
        self.state = ChannelState.AUTHENTICATE
        self.outgoing.writable = True

    def became_writable(self) -> bool:
        """Note that the socket has room again. Returns False if the socket had room before."""
        outgoing = self.outgoing
        if outgoing.writable:
            return False
        outgoing.writable = True
        return True

    def mute(self) -> None:
        """Stop reading. No system call is needed: the Poller's reports are kept in `readable` meanwhile."""
        self.muted = True

    def take_receive(self) -> Frame | None:
        """Take the completed frame, or if there is none, the next frame that is buffered already.

        A frame is `bytes`, or from 64 KiB on a memoryview of a recycled buffer, which goes back to its pool by
        `reader.release()`. Raises InvalidReceive when an impossible length lies behind the last frame.
        """
        frame = self.receive
        if frame is None:
            return self.reader.next_frame()
        self.receive = None
        return frame

    @property
    def principal(self) -> str:
        """The peer's principal, as the authenticator has established it."""
        return self.authenticator.principal

    def prepare(self) -> None:
        """Go on with handshake and authentication.

        Raises AuthenticationFailed, with state AUTHENTICATION_FAILED if it was the authenticator that refused the
        peer; InvalidReceive for an impossible frame; OSError when the connection is gone.
        """
        transport = self.transport
        self.reader.drained = False  # the event says that there may be bytes
        if not transport.ready:
            transport.handshake()
        if transport.ready and not self.authenticator.complete:
            try:
                self.authenticator.authenticate(self)
            except AuthenticationFailed:
                self.state = ChannelState.AUTHENTICATION_FAILED
                raise
        if transport.ready and self.authenticator.complete:
            self.state = ChannelState.READY
            self.ready = True

    def reauthenticate(self, authenticator: Authenticator, now_ns: int) -> None:
        """Go back from READY to the login, by a new authenticator: nothing else is read until it has finished."""
        self.authenticator.close()
        self.authenticator = authenticator
        self.reauthentication_began_ns = now_ns
        self.state = ChannelState.AUTHENTICATE
        self.ready = False

    # As the authenticator's Conversation:

    def send(self, frame: Sequence[Any]) -> None:
        """Queue a frame of the authenticator's. The Selector writes it when the authenticator returns."""
        self.conversed = True
        self.outgoing.add(frame)

    def receive_frame(self) -> Frame | None:
        """Return the next whole frame, however many receives it takes; None when the socket has no more for now.

        Raises ConnectionResetError when the peer has finished, InvalidReceive for an impossible length.
        """
        if self.receive is not None:
            return self.take_receive()  # the request that begins a re-authentication
        reader = self.reader
        if reader.drained and not reader.buffered and not self.hangup:
            return None  # the frame before was the last bytes: the Poller reports those that follow
        while True:
            received = reader.received
            frame = reader.read()
            if frame is not None:
                return frame
            if reader.ended:
                raise ConnectionResetError(ECONNRESET, "The peer closed the connection during its authentication")
            if reader.waiting or (reader.drained and not (self.hangup and reader.received > received)):
                return None

    def limit_frames(self, max_bytes: int | None) -> None:
        """Bound the frames received from now on, at most by the bound of requests; None: by that bound."""
        self.reader.limit_frames(max_bytes)

    def discard_unread(self) -> None:
        """Receive once and drop the bytes: a socket closed with unread bytes is reset, and the last answer is lost."""
        with suppress(OSError):
            self.transport.recv(RECEIVE_BYTES)

    def close(self, state: ChannelState | None = None) -> None:
        """Close the socket, give files and buffers back. A second call is harmless."""
        if self.closed:
            return
        self.closed = True
        self.ready = False
        if state is not None:
            self.state = state
        if self.network_ns >= 0:  # the measuring functions refer to this channel: no cycle shall be left behind
            self.read, self.write = self.reader.read, self.outgoing.write
        if self.receive is not None:
            self.receive = None
            if self.reader.release is not None:
                self.reader.release()  # a whole frame that was not taken
        self.outgoing.discard()
        self.reader.close()
        if self.memory is not None:
            self.memory.close()
        self.authenticator.close()
        self.transport.close()

    def __repr__(self) -> str:
        return f"KafkaChannel({self.connection_id}, {self.state.value})"
