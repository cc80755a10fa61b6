"""Non-blocking connections of one thread: connect, accept, receive frames, send, expire. Servers and clients share it.

Owned by one thread (a Processor, a NetworkClient's); only `wakeup` may be called from another. No lock but the
test-and-set of the wake-up. Kafka: Selector. Differences, both for speed:

- Readiness is edge-triggered and kept in flags of the channel, so that muting costs nothing; a list holds the channels
  with something to read, and while it is not empty the Poller is asked without waiting.
- `write` sends at once. A server uses it; a client queues with `send` and lets `poll` write, as in Kafka.

Order of `poll`: clear the results, write what waits, look whether memory has come back and whose delayed close is due,
ask the Poller, its events, the immediately connected, read, idle expiry. Results stay until the next `poll`:

    selector = Selector(SystemClock())
    selector.connect("node-0", ("127.0.0.1", 9092))
    selector.poll(timeout_ms=100)          # ... until "node-0" is in selector.connected
    selector.send("node-0", [frame with its size prefix])
    selector.poll(timeout_ms=100)
    for channel in selector.completed_receives:
        while (frame := channel.take_receive()) is not None:   # several answers may have come in one receive
            handle(channel.connection_id, frame)               # without its size prefix
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from barnabas.runtime.clock import Clock
from barnabas.runtime.wakeup import Wakeup
from barnabas.transport.authenticator import AuthenticationFailed, Authenticator, PlaintextAuthenticator
from barnabas.transport.channel_memory import ChannelMemory
from barnabas.transport.channel_state import ChannelState
from barnabas.transport.client_socket import USE_DEFAULT_BUFFER_SIZE, open_socket, resolve, set_options
from barnabas.transport.default_poller import default_poller
from barnabas.transport.frame_buffer_pool import FrameBufferPool
from barnabas.transport.frame_reader import InvalidReceive
from barnabas.transport.idle_expiry import IdleExpiry
from barnabas.transport.kafka_channel import KafkaChannel
from barnabas.transport.memory_keeper import MemoryKeeper
from barnabas.transport.memory_pool import NONE, MemoryPool
from barnabas.transport.poll_wakeup import PollWakeup
from barnabas.transport.poller import BROKEN, READ_HANGUP, READABLE, WRITABLE, Poller
from barnabas.transport.selector_counters import SelectorCounters
from barnabas.transport.transport_layer import PlaintextTransportLayer, StreamSocket, TransportLayer

logger = logging.getLogger(__name__)

DROP_BUFFERS_NS: Final = 30_000_000_000
"""How often receive buffers that nobody needed since are let go."""
_ORDINARY_EVENTS: Final = (READABLE, READABLE | WRITABLE)

ChannelBuilder = Callable[[StreamSocket], tuple[TransportLayer, Authenticator]]


def plaintext_channel(stream_socket: StreamSocket) -> tuple[TransportLayer, Authenticator]:
    """The ChannelBuilder of PLAINTEXT: no handshake, everybody is ANONYMOUS."""
    return PlaintextTransportLayer(stream_socket), PlaintextAuthenticator()


class Selector(SelectorCounters):
    """The channels of one thread. Times: the clock's monotonic nanoseconds; timeouts in milliseconds."""

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
        failed_authentication_delay_ms: from the refusal of a peer to its last answer and the close.
        """
        super().__init__()
        self._now = clock.nanoseconds
        self._poller = poller if poller is not None else default_poller()
        self._rearm = self._poller.rearm if self._poller.needs_rearm else None
        self._wakeup = PollWakeup(self._poller, wakeup)
        self._max_receive_bytes = max_receive_bytes
        self._channel_builder = channel_builder
        self._open_socket = open_socket
        self._pool = pool if pool is not None else FrameBufferPool()
        self._memory: MemoryKeeper | None = None
        if memory_pool is not NONE:
            self._memory = MemoryKeeper(memory_pool, self._pool, self.wakeup)
        self._failed_authentication_delay_ns = int(failed_authentication_delay_ms * 1_000_000)
        self._delayed_closes: deque[tuple[int, KafkaChannel, Sequence[Any]]] = deque()  # by the time they are due
        self._closing: dict[KafkaChannel, None] = {}
        self._channels: dict[str, KafkaChannel] = {}
        self._by_fd: dict[int, KafkaChannel] = {}
        self._ready: list[KafkaChannel] = []  # something to read, unless muted meanwhile
        self._to_write: list[KafkaChannel] = []  # something to send, and room for it as far as we know
        self._immediately_connected: list[KafkaChannel] = []
        self._failed: list[KafkaChannel] = []  # closed between polls; reported by the next one
        self._idle_expiry = IdleExpiry(max_idle_ms)
        self._drop_buffers_ns = self._now() + DROP_BUFFERS_NS
        # Of what is idle: connections and buffers.
        self._next_check_ns = min(self._idle_expiry.next_check_ns, self._drop_buffers_ns)
        self._closed_received = 0  # bytes of connections that are closed
        self._closed_sent = 0
        self.connected: list[str] = []
        """Connections ready for use since the last poll (connects of ours, and accepted ones once authenticated)."""
        self.disconnected: dict[str, ChannelState] = {}
        """Connections lost since the last poll, and the state each was in."""
        self.completed_receives: list[KafkaChannel] = []
        """Channels with a whole frame: take it, and what is buffered behind it, by `channel.take_receive()`."""
        self.completed_sends: list[KafkaChannel] = []
        """Channels that have nothing left to send, since the last poll."""

    # -- connections -------------------------------------------------------------------------------------------------

    def connect(
        self,
        connection_id: str,
        address: tuple[str, int],
        send_buffer_bytes: int = USE_DEFAULT_BUFFER_SIZE,
        receive_buffer_bytes: int = USE_DEFAULT_BUFFER_SIZE,
    ) -> None:
        """Begin to connect; a later poll reports it in `connected` or `disconnected`.

        `address` is (IP address, port); a host name is resolved here, blocking. Raises ValueError for a connection id
        in use, OSError when connecting cannot even begin.
        """
        self._refuse_duplicate(connection_id)
        family, resolved = resolve(address)
        stream_socket = self._open_socket(family)
        try:
            set_options(stream_socket, send_buffer_bytes, receive_buffer_bytes)
            error = stream_socket.connect_ex(resolved)
            if error not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                raise OSError(error, f"Cannot connect to {address[0]}:{address[1]}")
            channel = self._add(connection_id, stream_socket)
        except BaseException:
            stream_socket.close()
            raise
        channel.state = ChannelState.NOT_CONNECTED
        channel.outgoing.writable = False
        if not error:
            self._immediately_connected.append(channel)

    def register(self, connection_id: str, stream_socket: StreamSocket) -> KafkaChannel:
        """Take over an accepted, non-blocking socket. Raises ValueError for a connection id in use."""
        self._refuse_duplicate(connection_id)
        channel = self._add(connection_id, stream_socket)
        self.connections_created += 1
        self._prepare(channel)
        return channel

    def channel(self, connection_id: str) -> KafkaChannel | None:
        """The open channel of that id."""
        return self._channels.get(connection_id)

    @property
    def channels(self) -> list[KafkaChannel]:
        """The open channels."""
        return list(self._channels.values())

    def is_channel_ready(self, connection_id: str) -> bool:
        """Connected and authenticated."""
        channel = self._channels.get(connection_id)
        return channel is not None and channel.ready

    @property
    def bytes_received(self) -> int:
        """`incoming-byte-total`."""
        return self._closed_received + sum(channel.reader.received for channel in self.channels)

    @property
    def bytes_sent(self) -> int:
        """`outgoing-byte-total`."""
        return self._closed_sent + sum(channel.outgoing.sent for channel in self.channels)

    def lowest_priority_channel(self) -> KafkaChannel | None:
        """The channel to give up first when there are too many: one that is closing, else the one idle longest."""
        return next(iter(self._closing), None) or self._idle_expiry.oldest()

    def close(self, connection_id: str) -> None:
        """Close one connection of our own will: nothing is reported. An unknown id is no error."""
        channel = self._channels.get(connection_id)
        if channel is not None:
            self._remove(channel, ChannelState.LOCAL_CLOSE)

    def close_when_sent(self, channel: KafkaChannel) -> None:
        """Read nothing more, and close once the answers handed over have left; a poll reports it, as READY."""
        if not channel.closed:
            channel.muted = True
            if not channel.outgoing.unsent or (self.write(channel) and not channel.closed):
                self._fail(channel, channel.state, None)
            elif not channel.closed:
                self._begin_closing(channel)

    def close_all(self) -> None:
        """Close every connection, the Poller and the wake-up."""
        for channel in self.channels:
            self._remove(channel, ChannelState.LOCAL_CLOSE)
        self._poller.close()
        self._wakeup.close()

    # -- sending and reading -----------------------------------------------------------------------------------------

    def send(self, connection_id: str, frame: Iterable[Any]) -> None:
        """Queue `frame` (size prefix included) for the next poll. One send at a time: a second is a RuntimeError.

        A connection lost meanwhile is reported by the next poll; KeyError if it has been reported already.
        """
        channel = self._channels.get(connection_id)
        if channel is None:
            if any(failed.connection_id == connection_id for failed in self._failed):
                return
            raise KeyError(connection_id)
        if channel.outgoing.unsent:
            raise RuntimeError(f"A send is in progress already on connection {connection_id}")
        channel.outgoing.add(frame)
        self._write_later(channel)

    def write(self, channel: KafkaChannel) -> bool:
        """Send now what `channel.outgoing` holds. True once nothing is left; otherwise poll goes on with it.

        Failing closes the channel, which the next poll reports.
        """
        if not channel.outgoing.writable:
            return False
        try:
            if channel.write():
                return True
        except OSError as error:
            self._fail(channel, ChannelState.FAILED_SEND, error)
            return False
        self._after_incomplete_write(channel)
        return False

    def mute(self, channel: KafkaChannel) -> None:
        """Stop reading. Costs nothing: what the Poller reports meanwhile is kept in the channel's flags."""
        channel.muted = True

    def unmute(self, channel: KafkaChannel) -> None:
        """Read again, starting with what is buffered."""
        channel.muted = False
        if (channel.readable or channel.reader.buffered) and not channel.in_ready_list and not channel.closed:
            self._read_soon(channel)

    def _read_soon(self, channel: KafkaChannel) -> None:
        if not channel.in_ready_list:
            channel.in_ready_list = True
            self._ready.append(channel)

    def wakeup(self) -> None:
        """Make the current poll, or else the next one, return at once. Any thread may call it."""
        self._wakeup.wake()

    # -- the loop ----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float) -> None:  # noqa: C901 - each step a test that is nearly always false, or a call
        """Do what can be done, waiting at most `timeout_ms` for it. The results are in the public lists."""
        self.completed_receives = []
        if self.completed_sends or self.connected or self.disconnected:
            self._clear_results()
        if self._to_write:
            self._write_waiting()
        started_ns = self._now()
        if self._memory is not None or self._delayed_closes:
            timeout_ms = min(timeout_ms, self._attend(started_ns))
        if self._ready or self._to_write or self._failed or self._immediately_connected or self.completed_sends:
            timeout_ms = 0.0  # there is something to do, or to report
        events = self._wakeup.wait(timeout_ms) if timeout_ms > 0 else self._wakeup.poll()
        now_ns = self._now()
        self.idle_ns += now_ns - started_ns
        self.select_calls += 1
        if events:
            by_fd = self._by_fd
            for fd, event in events:
                channel = by_fd.get(fd)
                if channel is None:
                    self._wakeup.drain(fd)
                elif event in _ORDINARY_EVENTS and channel.ready and channel.outgoing.writable:
                    channel.readable = True
                    if not (channel.muted or channel.in_ready_list):
                        channel.in_ready_list = True  # as `_read_soon` would, without the call
                        self._ready.append(channel)
                else:
                    self._handle_rare_event(channel, event)
        if self._immediately_connected:
            self._finish_immediate_connects()
        if self._ready:
            self._read_ready(now_ns)
        if now_ns >= self._next_check_ns:
            self._check_idle(now_ns)
        if self._memory is not None:
            self._give_up_slow(self._memory, now_ns)
        if self._failed:
            self._report_failed()
        self.io_ns += self._now() - now_ns

    def _clear_results(self) -> None:
        # `disconnected` of the last poll has been seen; what failed since is reported by this one.
        self.completed_sends = []
        self.connected = []
        self.disconnected = {}

    def _handle_rare_event(self, channel: KafkaChannel, event: int) -> None:
        """Everything but "readable": connecting, authenticating, room to write, the peer going away."""
        channel.last_active_ns = self._now()
        if event & (BROKEN | READ_HANGUP):
            channel.hangup = True
        if channel.state is ChannelState.NOT_CONNECTED:
            if event & (WRITABLE | BROKEN):
                self._finish_connect(channel)
            if not channel.ready:
                return
        elif not channel.ready and channel.state is ChannelState.AUTHENTICATE:
            self._prepare(channel)
        if channel.closed:
            return
        if event & WRITABLE and not channel.outgoing.writable:
            channel.outgoing.writable = True
            if channel.outgoing.unsent:
                self._write_later(channel)
                self._write_waiting()
        if event & (READABLE | READ_HANGUP | BROKEN) and not channel.closed:
            channel.readable = True
            if not channel.muted:
                self._read_soon(channel)
            elif event & BROKEN and not channel.reader.buffered and not channel.transport.has_unread():
                # Gone while its request is being handled, and it left no other: nobody waits for the answer.
                self._fail(channel, channel.state, None)

    def _read_ready(self, now_ns: int) -> None:
        """Receive once from every channel that may have something; at most one frame each is completed."""
        ready = self._ready
        still_ready = []
        completed = self.completed_receives
        memory_is_limited = self._memory is not None
        for channel in ready:
            if channel.muted or channel.closed or not channel.ready:
                channel.in_ready_list = False
                continue
            if channel.receive is not None:
                still_ready.append(channel)  # its frame of an earlier turn has not been taken yet
                continue
            try:
                frame = channel.read()
            except OSError as error:
                self._fail(channel, channel.state, error)
                continue
            except InvalidReceive as error:
                logger.warning("Closing connection %s: %s", channel.connection_id, error)
                self._fail(channel, channel.state, None)
                continue
            channel.last_active_ns = now_ns
            reader = channel.reader
            if memory_is_limited and channel.memory is not None:
                channel.memory.update()
            if frame is not None:
                channel.receive = frame
                completed.append(channel)
            elif reader.waiting:
                channel.in_ready_list = False  # until there is memory for its frame
                continue
            if reader.drained and not channel.hangup and not reader.ended:
                channel.readable = channel.in_ready_list = False
                if self._rearm is not None:
                    self._rearm(channel.fd, READABLE)
            elif reader.ended and frame is None:
                self._peer_has_finished(channel)
            elif channel.readable:
                still_ready.append(channel)
            else:  # a buffered frame, and no event since the last receive drained the socket
                channel.in_ready_list = False
        self._ready = still_ready

    def _peer_has_finished(self, channel: KafkaChannel) -> None:
        """It sends nothing more, but may still read: an answer on its way goes on."""
        if channel.outgoing.unsent:
            channel.in_ready_list = False
            self._begin_closing(channel)
        else:
            self._fail(channel, channel.state, None)

    def _write_later(self, channel: KafkaChannel) -> None:
        if channel.outgoing.writable and not channel.in_write_list:
            channel.in_write_list = True
            self._to_write.append(channel)

    def _write_waiting(self) -> None:
        waiting, self._to_write = self._to_write, []
        now_ns = self._now()
        for channel in waiting:
            channel.in_write_list = False
            if channel.closed or not channel.outgoing.unsent:
                continue
            channel.last_active_ns = now_ns
            if self.write(channel):
                self.completed_sends.append(channel)
                if channel.closing:
                    self._fail(channel, channel.state, None)
            if channel.memory is not None:
                channel.memory.update()

    def _after_incomplete_write(self, channel: KafkaChannel) -> None:
        if channel.outgoing.writable:
            self._write_later(channel)  # a long file: its next piece after the others' turn
        elif self._rearm is not None:
            self._rearm(channel.fd, WRITABLE)

    # -- a channel's life --------------------------------------------------------------------------------------------

    def _refuse_duplicate(self, connection_id: str) -> None:
        if connection_id in self._channels:
            raise ValueError(f"There is already a connection for id {connection_id}")

    def _add(self, connection_id: str, stream_socket: StreamSocket) -> KafkaChannel:
        transport, authenticator = self._channel_builder(stream_socket)
        memory = None if self._memory is None else ChannelMemory(self._memory)
        channel = KafkaChannel(
            connection_id, transport, authenticator, self._pool, self._max_receive_bytes, self._now(), memory
        )
        if memory is not None:
            memory.channel = channel
        self._poller.register(channel.fd)
        self._channels[connection_id] = channel
        self._by_fd[channel.fd] = channel
        self._idle_expiry.add(channel)
        return channel

    def _finish_immediate_connects(self) -> None:
        connected, self._immediately_connected = self._immediately_connected, []
        for channel in connected:
            if channel.state is ChannelState.NOT_CONNECTED and not channel.closed:
                self._finish_connect(channel)

    def _finish_connect(self, channel: KafkaChannel) -> None:
        try:
            channel.transport.finish_connect()
        except OSError as error:
            self._fail(channel, ChannelState.NOT_CONNECTED, error)
            return
        channel.state = ChannelState.AUTHENTICATE
        channel.outgoing.writable = True
        self.connections_created += 1
        self._prepare(channel)

    def _prepare(self, channel: KafkaChannel) -> None:
        try:
            channel.prepare()
        except AuthenticationFailed as error:
            self._refuse(channel, error)
            return
        except InvalidReceive as error:
            logger.warning("Closing connection %s: %s", channel.connection_id, error)
            self._fail(channel, channel.state, None)
            return
        except OSError as error:
            self._fail(channel, channel.state, error)
            return
        if channel.outgoing.unsent:
            self.write(channel)  # what the authenticator has to say
        if channel.ready and not channel.closed:
            self.successful_authentications += 1
            self.connected.append(channel.connection_id)
        reader = channel.reader
        if reader.received and not channel.closed:
            # The authenticator has been reading: what came behind its frames will not be reported again.
            channel.readable = not reader.drained
            if channel.ready and (channel.readable or reader.buffered):
                self._read_soon(channel)
            elif self._rearm is not None:
                self._rearm(channel.fd, READABLE)

    def _refuse(self, channel: KafkaChannel, error: AuthenticationFailed) -> None:
        self.failed_authentications += 1
        logger.info("Failed authentication with %s (%s)", channel.connection_id, error)
        if channel.state is not ChannelState.AUTHENTICATION_FAILED:
            self._fail(channel, ChannelState.AUTHENTICATION_FAILED, None)  # its transport's handshake has failed
        elif self._failed_authentication_delay_ns > 0:
            due_ns = self._now() + self._failed_authentication_delay_ns
            self._delayed_closes.append((due_ns, channel, error.answer))
        else:
            self._close_refused(channel, error.answer)

    def _attend(self, now_ns: int) -> float:
        """What limits bring with them: memory, delayed closes. Returns the milliseconds that may be waited at most."""
        if self._memory is not None:
            for channel in self._memory.granted(now_ns):
                self._read_soon(channel)
        return self._close_delayed(now_ns)

    def _close_delayed(self, now_ns: int) -> float:
        """Close refused connections whose time has come; returns the milliseconds until the next one."""
        delayed = self._delayed_closes
        while delayed:
            due_ns, channel, answer = delayed[0]
            if due_ns > now_ns:
                return (due_ns - now_ns) / 1e6
            delayed.popleft()
            if not channel.closed:
                self._close_refused(channel, answer)
        return float("inf")

    def _close_refused(self, channel: KafkaChannel, answer: Sequence[Any]) -> None:
        channel.outgoing.add(answer)
        channel.discard_unread()
        self.close_when_sent(channel)

    def _begin_closing(self, channel: KafkaChannel) -> None:
        channel.closing = True
        self._closing[channel] = None

    def _give_up_slow(self, memory: MemoryKeeper, now_ns: int) -> None:
        """Close connections that keep memory from others and do not use it."""
        for channel in memory.too_slow(now_ns):
            if memory.would_help(channel):
                logger.info("Closing connection %s: others need the memory that it holds", channel.connection_id)
                self.given_up_for_memory += 1
                self._fail(channel, ChannelState.OUT_OF_MEMORY, None)

    def _fail(self, channel: KafkaChannel, state: ChannelState, error: OSError | None) -> None:
        """Close a channel that is lost; the end of this poll, or the next one, reports it."""
        if error is not None:
            logger.debug("Connection %s lost: %s", channel.connection_id, error)
        self._remove(channel, state)
        self._failed.append(channel)

    def _remove(self, channel: KafkaChannel, state: ChannelState) -> None:
        self._poller.unregister(channel.fd)
        del self._channels[channel.connection_id]
        del self._by_fd[channel.fd]
        channel.close(state)
        self._closed_received += channel.reader.received
        self._closed_sent += channel.outgoing.sent
        self.connections_closed += 1
        if channel.closing:
            del self._closing[channel]
        self._idle_expiry.closed()

    def _report_failed(self) -> None:
        # Frames received completely before the connection was lost are still to be handled.
        for channel in self._failed:
            self.disconnected[channel.connection_id] = channel.state
        self._failed = []

    def _check_idle(self, now_ns: int) -> None:
        expiry = self._idle_expiry
        while now_ns >= expiry.next_check_ns and (channel := expiry.expired(now_ns)) is not None:
            logger.debug("Closing idle connection %s", channel.connection_id)
            self.connections_expired += 1
            self._remove(channel, ChannelState.EXPIRED)
            self._failed.append(channel)
        if now_ns >= self._drop_buffers_ns:
            self._pool.drop_unused()
            self._drop_buffers_ns = now_ns + DROP_BUFFERS_NS
        self._next_check_ns = min(expiry.next_check_ns, self._drop_buffers_ns)
