"""One connection as its Selector sees it: a receiving half, a sending half, and the state of both.

Owned by the thread of its Selector; no other thread touches it, so no lock. Kafka: KafkaChannel. A layer above
keeps its own object for the connection in `attachment`, so that a request needs no look-up by connection id.

The stages: NOT_CONNECTED (a client's connect is under way) -> AUTHENTICATE (transport handshake, then the
authenticator) -> READY -> closed; `state` then says how the channel ended. Between the last two a channel may be
closing (`OpenChannels.begin_closing`): received requests are handled, their answers leave, nothing more is read. From
READY a channel goes back to AUTHENTICATE when its client logs in again (KIP-368).

`ChannelState` names these stages and ends; a client interprets a disconnect by it. `ChannelMemory` is the channel's
account where memory is limited. `ChannelIO` writes the marks `readable`, `in_ready_list` and `in_write_list`, and
explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from errno import ECONNRESET
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.transport.channel.authenticator import AuthenticationFailed, Authenticator
from barnabas.transport.channel.frame_reader import FREE_BYTES, RECEIVE_BYTES, Frame, FrameReader
from barnabas.transport.channel.send import Send
from barnabas.transport.channel.transport_layer import TransportLayer
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.memory_pool import MemoryLease, MemoryPool

if TYPE_CHECKING:
    from mypy_extensions import i64


class ChannelState(Enum):
    """The stage of an open channel; for a closed channel, the stage in which it ended or the reason.

    A channel that is closing (`OpenChannels.is_closing`), because its peer has finished or was rejected and there is an
    answer to send first, keeps the state in which closing began.
    """

    NOT_CONNECTED = "not connected"
    AUTHENTICATE = "authenticate"
    READY = "ready"
    EXPIRED = "expired"
    FAILED_SEND = "failed send"
    AUTHENTICATION_FAILED = "authentication failed"
    LOCAL_CLOSE = "local close"
    OUT_OF_MEMORY = "out of memory"
    """Closed because other channels needed the memory that this one held, and this one was the slowest."""


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
        "readable",
        "reader",
        "ready",
        "reauthentication_began_ns",
        "receive",
        "state",
        "transport",
    )

    def __init__(
        self,
        connection_id: str,
        transport: TransportLayer,
        authenticator: Authenticator,
        pool: FrameBufferPool,
        max_receive_bytes: int,
        now_ns: int,
        memory: ChannelMemory | None = None,
    ) -> None:
        """memory: the channel's account in a limited MemoryPool; None: memory is not limited."""
        self.connection_id = connection_id
        self.transport = transport
        self.authenticator = authenticator
        self.reauthentication_began_ns: i64 = 0
        """When the client last began to log in again on this connection; 0: it has logged in once at most."""
        self.fd = transport.fileno()
        self.state = ChannelState.AUTHENTICATE
        self.ready = False
        """Whether the channel is connected, authenticated and open. Besides `state`, because every event reads this."""
        self.reader = FrameReader(transport.recv, transport.recv_into, pool, max_receive_bytes, memory)
        self.outgoing = Send(transport) if memory is None else Send(transport, FREE_BYTES)
        self.memory = memory
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
        self.last_active_ns: i64 = now_ns
        self.network_ns: i64 = -1
        """The nanoseconds spent receiving and sending since they were last charged; -1 if they are not measured."""
        self.attachment: Any = None

    def measure_network_time(self) -> None:
        """Have ChannelIO read and write by `timed_read` and `timed_write` from now on.

        For request quotas (Kafka: recordTimePerConnection). A connection that is not charged is not measured.
        """
        self.network_ns = 0

    def timed_read(self, now: Callable[[], int]) -> Frame | None:
        """Receive as `reader.read` does, and add its time to `network_ns`. `now`: nanoseconds."""
        started_ns = now()
        try:
            return self.reader.read()
        finally:
            self.network_ns += now() - started_ns

    def timed_write(self, now: Callable[[], int]) -> bool:
        """Send as `outgoing.write` does, and add its time to `network_ns`. `now`: nanoseconds."""
        started_ns = now()
        try:
            return self.outgoing.write()
        finally:
            self.network_ns += now() - started_ns

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
        """Stop reading. No system call is needed: the Poller's reports are kept in `readable`."""
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
        self.outgoing.add(list(frame))

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


class Keeper(Protocol):
    """The part of a Selector's MemoryKeeper that a channel's account uses."""

    pool: MemoryPool

    def allocate(self, memory: ChannelMemory, size: int) -> MemoryLease | None:
        """Return a lease, or put the channel into the queue. Raises ValueError for a size that is never given."""

    def begin_holding(self, memory: ChannelMemory) -> None:
        """Note that the channel holds memory of the pool."""

    def stop_holding(self, memory: ChannelMemory) -> None:
        """Note that the channel has given back all memory of the pool."""

    def forget(self, memory: ChannelMemory) -> None:
        """Forget a channel that is closed."""


class ChannelMemory:
    """One channel's account in a limited MemoryPool, and its pace. Without a limit no channel has an account.

    The account is the bytes `charged` beyond the free ones, and the lease of the frame being received. Everything
    counts that a client can make the broker keep, except the first `FREE_BYTES`: so a client can send a small request
    however much memory the others have used up. Kafka: NetworkReceive, which counts only the frame being received.
    """

    __slots__ = (
        "channel",
        "charged",
        "granted",
        "keeper",
        "leased",
        "mark_moved",
        "mark_ns",
        "pool",
        "request_bytes",
    )

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.pool = keeper.pool
        self.channel: KafkaChannel | None = None
        """None before the channel is made, and once it is closed."""
        self.charged = 0
        self.granted: MemoryLease | None = None
        """The lease that the channel has waited for, until its reader takes it."""
        self.leased = 0
        """The size of the lease of the frame being received; 0 if the frame has none."""
        self.request_bytes = 0
        """The memory of a small request that waits for a handler, or is being handled by one."""
        self.mark_ns = 0
        self.mark_moved = 0

    # -- called by the FrameReader

    def reserve(self, size: int, *, is_small: bool = False) -> MemoryLease | None:
        """Return a lease for a whole frame; None if there is no memory: the Selector reads on when there is.

        Raises ValueError for a size that the pool never gives.
        """
        lease = self.granted
        if lease is not None:
            self.granted = None
        else:
            pool = self.pool
            wanted = min(size * pool.request_expansion, pool.size) if is_small and pool.request_expansion > 1 else size
            lease = self.keeper.allocate(self, wanted)
        if lease is not None:
            self.leased = lease.size
            self.keeper.begin_holding(self)
        return lease

    def hand_over(self) -> None:
        """Hand the lease over: the frame is whole, and the lease belongs to its request now."""
        self.leased = 0
        if not self.charged:
            self.keeper.stop_holding(self)

    def give_back(self, lease: MemoryLease) -> None:
        """Release the lease of a frame that will never be whole."""
        self.hand_over()
        self.pool.release(lease)

    # -- called by the Selector and the Processor

    def request_waits(self, size: int) -> None:
        """Count a request whose frame of `size` bytes has no lease, and which is going to wait for a handler."""
        self.request_bytes = size * self.pool.request_expansion

    def update(self) -> None:
        """Charge the channel's current bytes: received and not taken, of a waiting request, of unsent answers."""
        channel = self.channel
        held = self.request_bytes
        if channel is not None:
            held += channel.reader.bytes_kept + channel.outgoing.memory_bytes
        excess = held - FREE_BYTES if held > FREE_BYTES else 0
        change = excess - self.charged
        if not change:
            return
        self.charged = excess
        self.pool.charge(change)
        if excess or self.leased:
            self.keeper.begin_holding(self)
        else:
            self.keeper.stop_holding(self)

    def close(self) -> None:
        """Give all memory back: the channel is closed, its reader and its answers have been dropped."""
        self.channel = None
        self.request_bytes = 0
        self.update()
        self.keeper.forget(self)

    # -- how fast it moves

    @property
    def waits_for_peer(self) -> bool:
        """Whether the peer is expected to act: to take its answer, or to send the rest of a frame."""
        channel = self.channel
        return channel is not None and bool(channel.outgoing.unsent or not (channel.muted or channel.reader.waiting))

    @property
    def moved(self) -> int:
        """The bytes received and sent so far."""
        channel = self.channel
        return 0 if channel is None else channel.reader.received + channel.outgoing.sent

    def mark(self, now_ns: int) -> None:
        """Measure the channel's pace from here on."""
        self.mark_ns = now_ns
        self.mark_moved = self.moved

    def seconds_left(self, now_ns: int) -> float:
        """Return how long the channel will hold its memory at the pace since the mark; infinite if it is silent."""
        channel = self.channel
        if channel is None:
            return 0.0
        moved = self.moved - self.mark_moved
        left: int = channel.outgoing.unsent or channel.reader.missing
        return left * (now_ns - self.mark_ns) / 1e9 / moved if moved > 0 else inf
