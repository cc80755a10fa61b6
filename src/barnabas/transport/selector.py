"""The non-blocking connections of one thread: connect, accept, receive frames, send, expire. For servers and clients.

Owned by one thread (a Processor, a NetworkClient's, a PeerConnection's); only `wakeup` may be called from another. No
lock but the test-and-set of the wake-up. Two differences from Kafka, both for speed: readiness is edge-triggered and
kept in marks of the channels (`ChannelIO`), so that muting costs nothing; and `io.write` sends at once. A server uses
that, and a broker's connection to another (`send_at_once`); a client queues with `send` and lets `poll` write, as in
Kafka.

Its parts, each with its own state: `OpenChannels` (which channels there are, how one ends), `ChannelIO` (which are
ready, reading and writing), `ChannelSetup` (how a channel becomes ready), `MemoryKeeper` (where memory is limited).
Results stay until the next `poll`. A client's use:

    selector = Selector(SystemClock())
    selector.connect("node-0", ("127.0.0.1", 9092))
    selector.poll(timeout_ms=100)          # ... until "node-0" is in selector.connected
    selector.send("node-0", [frame with its size prefix])
    selector.poll(timeout_ms=100)
    for channel in selector.completed_receives:
        while (frame := channel.take_receive()) is not None:   # several answers may have come in one receive
            handle(channel.connection_id, frame)               # without its size prefix

**One poll**, on a server with three connections. A's client has sent a whole request. B's answer is a file of 3 MB, of
which 1 MB has left. C has sent nothing for nine minutes:

    limits                memory that came back is granted, rejected peers whose delay is over are closed (rare)
    write what waits      B's next megabyte; one more is left, so B stays among the channels to write
    ask the Poller        without waiting, because B has more to write
    events                A is readable: its mark is set, it joins the channels to read
    read                  one `recv` from A: its frame completes, A is in `completed_receives`
    upkeep                C expires: it is closed
    report                C is in `disconnected`, with the state EXPIRED

The order of these steps matters. The results of the last poll are cleared first. A channel that fails between two polls
is reported at the end of the next one, so its completed frames are always handled before the report.

Kafka: Selector.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from barnabas.runtime.clock import Clock
from barnabas.transport.channel.authenticator import (
    AuthenticationFailed,
    Authenticator,
    ChannelBuilder,
    plaintext_channel,
)
from barnabas.transport.channel.channel_io import ChannelIO
from barnabas.transport.channel.channel_setup import USE_DEFAULT_BUFFER_SIZE, ChannelFactory, ChannelSetup, open_socket
from barnabas.transport.channel.kafka_channel import ChannelState, KafkaChannel
from barnabas.transport.channel.memory_keeper import UNLIMITED, MemoryKeeper, MemoryLimit
from barnabas.transport.channel.open_channels import IdleExpiry, OpenChannels, PollResults, SelectorCounters
from barnabas.transport.channel.transport_layer import StreamSocket
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.memory_pool import NONE, MemoryPool
from barnabas.transport.poller import (
    BROKEN,
    READ_HANGUP,
    READABLE,
    WRITABLE,
    Poller,
    PollWakeup,
    Wakeup,
    default_poller,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)

DROP_BUFFERS_NS: Final = 30_000_000_000
"""The interval at which receive buffers are freed that were not needed since the last time."""
_NOT_WRITABLE: Final = ~0x004


class _Upkeep:
    """The occasional work: close idle channels (Kafka: maybeCloseOldestConnection), free buffers that were not needed.

    It knows the time at which its next task is due, so that a poll costs one comparison.
    """

    __slots__ = ("_buffers", "_channels", "_drop_buffers_ns", "due_ns")

    def __init__(self, channels: OpenChannels, buffers: FrameBufferPool, now_ns: int) -> None:
        self._channels = channels
        self._buffers = buffers
        self._drop_buffers_ns = now_ns + DROP_BUFFERS_NS
        self.due_ns: i64 = 0
        """The time before which there is nothing to do."""

    def run(self, now_ns: int) -> None:
        """Run the tasks that are due."""
        next_idle_ns = self._channels.close_idle(now_ns)
        if now_ns >= self._drop_buffers_ns:
            self._buffers.drop_unused()
            self._drop_buffers_ns = now_ns + DROP_BUFFERS_NS
        self.due_ns = min(next_idle_ns, self._drop_buffers_ns)


class Selector:
    """The channels of one thread. Times: the clock's monotonic nanoseconds; timeouts in milliseconds."""

    __slots__ = (
        "_channels",
        "_is_memory_limited",
        "_memory",
        "_now",
        "_setup",
        "_upkeep",
        "_wakeup",
        "completed_receives",
        "completed_sends",
        "connected",
        "counters",
        "disconnected",
        "io",
        "muted_readable",
        "polled_ns",
        "results",
    )

    def __init__(
        self,
        clock: Clock,
        *,
        poller: Poller | None = None,
        wakeup: Wakeup | None = None,
        max_receive_bytes: int = (1 << 31) - 1,
        max_idle_ms: float = 9 * 60 * 1000,
        channel_builder: ChannelBuilder = plaintext_channel,
        open_socket: Callable[[int], Any] = open_socket,
        pool: FrameBufferPool | None = None,
        memory_pool: MemoryPool = NONE,
        failed_authentication_delay_ms: float = 0,
    ) -> None:
        """`max_idle_ms` below zero: never; `open_socket(address family)` makes a non-blocking socket (tests).

        pool: receive buffers, shared by all Selectors that share a limited `memory_pool`.
        failed_authentication_delay_ms: from the rejection of a peer to its last answer and the close.
        """
        self._now = clock.nanoseconds
        poller = poller if poller is not None else default_poller()
        buffers = pool if pool is not None else FrameBufferPool()
        self._wakeup = PollWakeup(poller, wakeup)
        self._memory: MemoryLimit = UNLIMITED
        self._is_memory_limited = memory_pool is not NONE
        if self._is_memory_limited:
            self._memory = MemoryKeeper(memory_pool, buffers, self._wakeup.wake)
        self._channels = OpenChannels(poller, IdleExpiry(max_idle_ms))
        self.counters = SelectorCounters(self._channels)
        results = self.results = PollResults()
        """The collections that follow here, but `completed_receives`."""
        self.io = ChannelIO(self._channels, results, poller, self._now)
        """The reader and writer of channels. Between two polls the layer above writes and unmutes channels with it."""
        self._setup = ChannelSetup(
            ChannelFactory(channel_builder, buffers, max_receive_bytes, self._memory, self._now),
            self._channels,
            self.io,
            results,
            self.counters,
            open_socket,
            failed_authentication_delay_ms,
        )
        self._upkeep = _Upkeep(self._channels, buffers, self._now())
        self.connected = results.connected
        """Ids of the connections that became ready since the last poll, both connected and accepted ones."""
        self.disconnected = results.disconnected
        """Ids of the connections lost since the last poll, and the state in which each ended."""
        self.completed_receives: list[KafkaChannel] = []
        """Channels with a whole frame. `channel.take_receive()` returns it, and then the frames buffered behind it."""
        self.completed_sends = results.completed_sends
        """Channels that have nothing left to send, since the last poll."""
        self.muted_readable = results.muted_readable
        """Muted channels whose peers have sent something since the last poll. It is read when they are unmuted."""
        self.polled_ns: i64 = 0
        """When the last poll ended."""

    # -- connections

    def connect(
        self,
        connection_id: str,
        address: tuple[str, int],
        send_buffer_bytes: int = USE_DEFAULT_BUFFER_SIZE,
        receive_buffer_bytes: int = USE_DEFAULT_BUFFER_SIZE,
        build: ChannelBuilder | None = None,
    ) -> None:
        """Begin to connect; a later poll reports the connection in `connected` or `disconnected`.

        `address` is (IP address, port); a host name is resolved here, blocking. build: makes the channel, instead of
        the Selector's own builder. Raises ValueError for a connection id in use, OSError when connecting cannot even
        begin.
        """
        self._setup.connect(connection_id, address, send_buffer_bytes, receive_buffer_bytes, build)

    def take_connect_error(self, connection_id: str) -> OSError | AuthenticationFailed | None:
        """Return why a connection in `disconnected` did not become ready (connect, handshake, login), and forget it."""
        return self.io.refusals.pop(connection_id, None) or self._setup.take_connect_error(connection_id)

    def register(self, connection_id: str, stream_socket: StreamSocket) -> KafkaChannel:
        """Take over an accepted, non-blocking socket. Raises ValueError for a connection id in use."""
        return self._setup.accept(connection_id, stream_socket)

    def authenticator(self, connection_id: str) -> Authenticator | None:
        """Return the authenticator of an open connection; None if there is no such connection."""
        channel = self._channels.by_id.get(connection_id)
        return None if channel is None else channel.authenticator

    def reauthenticate(self, connection_id: str, authenticator: Authenticator) -> None:
        """Log in again on a connection that this side has made, and that waits for no answer.

        A later poll reports the connection in `connected` again, or in `disconnected`. Raises KeyError for a
        connection that is not open.
        """
        self._setup.reauthenticate(self._channels.by_id[connection_id], authenticator, is_dialled=True)

    def reauthenticate_peer(self, channel: KafkaChannel, authenticator: Authenticator) -> None:
        """Let a client log in again that has begun to: the frame in `channel.receive` is its SaslHandshake.

        The channel may be ready again at once; otherwise a later poll reports it, as in `reauthenticate`.
        """
        self._setup.reauthenticate(channel, authenticator, is_dialled=False)

    def send(self, connection_id: str, frame: Iterable[Any]) -> None:
        """Queue `frame` (size prefix included) for the next poll, which also reports a connection lost by then.

        Raises RuntimeError when a send is in progress already, KeyError for a connection that is not open.
        """
        channel = self._channels.by_id.get(connection_id)
        if channel is None:
            if self._channels.was_lost(connection_id):
                return
            raise KeyError(connection_id)
        if channel.outgoing.unsent:
            raise RuntimeError(f"A send is in progress already on connection {connection_id}")
        channel.outgoing.add(list(frame))
        self.io.write_later(channel)

    def send_at_once(self, connection_id: str, frame: Iterable[Any]) -> None:
        """Send `frame`, as much of it as there is room for; the next polls send the rest, and report a lost connection.

        Raises KeyError for a connection that is not open.
        """
        channel = self._channels.by_id[connection_id]
        channel.last_active_ns = self._now()
        channel.outgoing.add(list(frame))
        self.io.write(channel)

    def channel(self, connection_id: str) -> KafkaChannel | None:
        """Return the open channel of that id; None if there is none."""
        return self._channels.by_id.get(connection_id)

    @property
    def channels(self) -> list[KafkaChannel]:
        """The open channels, those that still connect or log in included."""
        return self._channels.all

    def is_channel_ready(self, connection_id: str) -> bool:
        """Return whether a connection is connected and authenticated."""
        channel = self._channels.by_id.get(connection_id)
        return channel is not None and channel.ready

    def lowest_priority_channel(self) -> KafkaChannel | None:
        """Return the channel to give up first when there are too many."""
        return self._channels.lowest_priority()

    def close(self, connection_id: str) -> None:
        """Close one connection. The close is not reported in `disconnected`. An unknown id is no error."""
        channel = self._channels.by_id.get(connection_id)
        if channel is not None:
            self._channels.remove(channel)

    def close_all(self) -> None:
        """Close every connection, the Poller and the wake-up."""
        self._channels.close_all()
        self._wakeup.close()

    def wakeup(self) -> None:
        """Make the current poll, or else the next one, return at once. Any thread may call it."""
        self._wakeup.wake()

    # -- the loop

    def poll(self, timeout_ms: float) -> None:
        """Do all I/O that is possible, waiting for some at most `timeout_ms`. Results are in the public collections."""
        # Every step is tested here, so that a poll without its work pays for no call: this method runs once for every
        # request.
        io = self.io
        channels = self._channels
        if self.results.has_any:
            self._clear_results()
        if self._is_memory_limited or self._setup.has_delayed_closes:
            timeout_ms = min(timeout_ms, self._enforce_limits())
        if io.to_write and io.write_waiting():
            timeout_ms = 0.0  # there is something to report, or more to write
        if channels.has_reports or io.ready:
            timeout_ms = 0.0
        started_ns: i64 = self._now()
        events = self._wakeup.wait(timeout_ms)
        now_ns: i64 = self._now()
        if events:
            self._take_events(events)
        self.completed_receives = io.read_ready(now_ns) if io.ready else []
        if now_ns >= self._upkeep.due_ns:
            self._upkeep.run(now_ns)
        if self._is_memory_limited:
            self._give_up_slow(now_ns)
        if channels.has_reports:
            self._report()
        polled_ns: i64 = self._now()
        self.polled_ns = polled_ns
        counters = self.counters
        counters.idle_ns += now_ns - started_ns
        counters.select_calls += 1
        counters.io_ns += polled_ns - now_ns

    def _clear_results(self) -> None:
        # Empty nearly always: a server writes at once, connects to nothing, and seldom loses a connection.
        self.results.has_any = False
        self.completed_sends.clear()
        self.connected.clear()
        self.disconnected.clear()
        self.muted_readable.clear()

    def _enforce_limits(self) -> float:
        """Grant memory and close rejected peers. Returns the milliseconds that this poll may wait at most."""
        now_ns = self._now()
        for channel in self._memory.granted(now_ns):
            self.io.read_soon(channel)
        return self._setup.close_delayed(now_ns)

    def _take_events(self, events: list[tuple[int, int]]) -> None:
        # Nearly all events say that a ready channel is readable, so this loop handles them without a call.
        by_fd = self._channels.by_fd
        ready = self.io.ready
        for fd, event in events:
            known = by_fd.get(fd)
            if known is None:
                self._wakeup.drain(fd)
                continue
            channel = known  # of a type without None
            if event & _NOT_WRITABLE == READABLE and channel.ready and channel.outgoing.writable:
                channel.readable = True
                if channel.muted:
                    self.muted_readable.append(channel)
                    self.results.has_any = True
                elif not channel.in_ready_list:
                    channel.in_ready_list = True  # `read_soon` without the call
                    ready.append(channel)
            else:
                self._take_rare_event(channel, event)

    def _take_rare_event(self, channel: KafkaChannel, event: int) -> None:
        """Take any event but "readable": connecting, authenticating, room to write, the peer going away."""
        channel.last_active_ns = self._now()
        if event & (BROKEN | READ_HANGUP):
            channel.hangup = True
        if not channel.ready:
            before = channel.state
            # A new connection is always writable, and an authenticator waits for bytes alone.
            if event != WRITABLE or before is not ChannelState.AUTHENTICATE or not channel.transport.ready:
                self._setup.advance(channel, can_connect=bool(event & (WRITABLE | BROKEN)))
            if before is ChannelState.NOT_CONNECTED and not channel.ready:
                return
            if before is ChannelState.AUTHENTICATE and not channel.hangup:
                event &= ~READABLE  # handshake and authenticator have received all there was, or asked for the rest
        if event & WRITABLE and not channel.closed:
            self.io.take_writable(channel)
        if event & (READABLE | READ_HANGUP | BROKEN) and not channel.closed:
            self.io.take_readable(channel, is_broken=bool(event & BROKEN))

    def _give_up_slow(self, now_ns: int) -> None:
        """Close connections that hold memory which others need, and make no progress."""
        for channel in self._memory.slow_channels(now_ns):
            if self._memory.would_free_memory(channel):
                logger.info("Closing connection %s: other connections need the memory it holds", channel.connection_id)
                self._channels.fail(channel, ChannelState.OUT_OF_MEMORY)

    def _report(self) -> None:
        for channel in self._channels.take_reports():
            if channel.closed:
                if channel.connection_id in self._channels.by_id:
                    # It was lost between two polls, and its id is in use again: a report would be about the new one.
                    self.take_connect_error(channel.connection_id)
                elif channel.state is not ChannelState.LOCAL_CLOSE:
                    self.disconnected[channel.connection_id] = channel.state
                    self.results.has_any = True
            elif channel.state is ChannelState.NOT_CONNECTED:
                self._setup.finish_connect(channel)  # connected at once
