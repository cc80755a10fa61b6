"""The stages until a channel of a Selector is ready: connect or accept, handshake, authentication; and its rejection.

Owned by the Selector's thread; no lock.

    connect ─► NOT_CONNECTED ─(writable)─► AUTHENTICATE ─(handshake, authenticator)─► READY, in `connected`
    accept  ─────────────────────────────►      │
                                                └─(rejected)─► AUTHENTICATION_FAILED, closed after a delay

PLAINTEXT has neither handshake nor authenticator, so an accepted channel is READY at once. A channel whose client logs
in again (`reauthenticate`) goes from READY to AUTHENTICATE, with a new authenticator.

Kafka: Selector (connect, register, configureSocketChannel, delayedClosingChannels), KafkaChannel.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from barnabas.transport.channel.authenticator import AuthenticationFailed, Authenticator, ChannelBuilder
from barnabas.transport.channel.channel_io import ChannelIO
from barnabas.transport.channel.frame_reader import InvalidReceive
from barnabas.transport.channel.kafka_channel import ChannelState, KafkaChannel
from barnabas.transport.channel.memory_keeper import MemoryLimit
from barnabas.transport.channel.open_channels import OpenChannels, PollResults, SelectorCounters
from barnabas.transport.channel.transport_layer import StreamSocket
from barnabas.transport.frame_buffer_pool import FrameBufferPool

logger = logging.getLogger(__name__)

USE_DEFAULT_BUFFER_SIZE: Final = -1


class ChannelFactory(NamedTuple):
    """The settings and parts that all channels of a Selector share."""

    build: ChannelBuilder
    buffers: FrameBufferPool
    max_receive_bytes: int
    memory: MemoryLimit
    now: Callable[[], int]

    def make(self, connection_id: str, stream_socket: StreamSocket, build: ChannelBuilder | None) -> KafkaChannel:
        """Make the channel of a socket, by `build` if it is given. Raises OSError when its descriptor is gone."""
        transport, authenticator = (self.build if build is None else build)(stream_socket)
        memory = self.memory.for_channel()
        channel = KafkaChannel(
            connection_id, transport, authenticator, self.buffers, self.max_receive_bytes, self.now(), memory
        )
        if memory is not None:
            memory.channel = channel
        return channel


class DelayedClose(NamedTuple):
    """A channel whose peer was rejected. After the delay the answer is sent and the channel closed."""

    due_ns: int
    channel: KafkaChannel
    answer: Sequence[Any]
    """A frame with its size prefix; if it is empty, the channel closes without an answer."""


class ChannelSetup:
    """The maker of channels, which also carries on with channels that are not ready yet."""

    __slots__ = (
        "_channels",
        "_connect_errors",
        "_counters",
        "_delayed_closes",
        "_dialled",
        "_factory",
        "_failed_authentication_delay_ns",
        "_io",
        "_now",
        "_open_socket",
        "_results",
        "has_delayed_closes",
    )

    def __init__(
        self,
        factory: ChannelFactory,
        channels: OpenChannels,
        io: ChannelIO,
        results: PollResults,
        counters: SelectorCounters,
        open_socket: Callable[[int], Any],
        failed_authentication_delay_ms: float,
    ) -> None:
        """`open_socket` makes a non-blocking socket of an address family."""
        self._factory = factory
        self._channels = channels
        self._io = io
        self._results = results
        self._counters = counters
        self._open_socket = open_socket
        self._now = factory.now
        self._failed_authentication_delay_ns = int(failed_authentication_delay_ms * 1_000_000)
        self._connect_errors: dict[str, OSError | AuthenticationFailed] = {}  # until taken: no poll has to empty it
        self._dialled: set[str] = set()
        """The connections that this side makes, until each is ready or lost: only their errors are kept."""
        self.has_delayed_closes = False
        """Whether there are any: a poll tests this alone."""
        self._delayed_closes: deque[DelayedClose] = deque()
        """The pending closes, in the order in which they are due, since all delays are the same."""

    def connect(
        self,
        connection_id: str,
        address: tuple[str, int],
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
        build: ChannelBuilder | None = None,
    ) -> None:
        """Begin to connect to an IP address or host name and a port.

        build: makes the channel of this connection, instead of the Selector's own builder. Raises ValueError for a
        connection id in use, OSError when connecting cannot even begin.
        """
        self._channels.refuse_duplicate(connection_id)
        family, resolved = _resolve(address)
        stream_socket = self._open_socket(family)
        try:
            _set_options(stream_socket, send_buffer_bytes, receive_buffer_bytes)
            error = stream_socket.connect_ex(resolved)
            if error not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                raise OSError(error, os.strerror(error))
            channel = self._factory.make(connection_id, stream_socket, build)
            self._channels.add(channel)
        except BaseException:
            stream_socket.close()  # no channel owns it yet
            raise
        # Registered with the Poller before: its first event may say that the connect has succeeded.
        channel.begin_connect()
        self._connect_errors.pop(connection_id, None)
        self._dialled.add(connection_id)
        if not error:
            # Connected at once: the Poller may report no event, so the next poll must not wait for one.
            self._channels.report(channel)

    def take_connect_error(self, connection_id: str) -> OSError | AuthenticationFailed | None:
        """Return why a connection that this side began did not become ready, and forget the error; None: no error."""
        return self._connect_errors.pop(connection_id, None)

    def accept(self, connection_id: str, stream_socket: StreamSocket) -> KafkaChannel:
        """Take over an accepted, non-blocking socket. Raises ValueError for a connection id in use."""
        self._channels.refuse_duplicate(connection_id)
        channel = self._factory.make(connection_id, stream_socket, None)
        self._channels.add(channel)
        self._counters.connections_created += 1
        self._prepare(channel)
        return channel

    def advance(self, channel: KafkaChannel, *, can_connect: bool) -> None:
        """Go on with a channel that is not ready, as far as possible without waiting.

        can_connect: its socket has become writable or broken, so the outcome of its connect is known.
        """
        if channel.state is ChannelState.NOT_CONNECTED:
            if can_connect:
                self.finish_connect(channel)
        elif channel.state is ChannelState.AUTHENTICATE:
            self._prepare(channel)

    def reauthenticate(self, channel: KafkaChannel, authenticator: Authenticator, *, is_dialled: bool) -> None:
        """Let the peer of a ready channel log in again, by a new authenticator.

        is_dialled: this side has connected, and asks for the error if the login fails.
        """
        if is_dialled:
            self._dialled.add(channel.connection_id)
        channel.reauthenticate(authenticator, self._now())
        self._prepare(channel)

    def finish_connect(self, channel: KafkaChannel) -> None:
        """Take the outcome of a connect. If it has succeeded, begin with the handshake."""
        try:
            channel.finish_connect()
        except OSError as error:
            self._keep_error(channel, error)
            self._channels.fail(channel, ChannelState.NOT_CONNECTED, error)
            return
        self._counters.connections_created += 1
        self._prepare(channel)

    def _prepare(self, channel: KafkaChannel) -> None:
        had_handshake = not channel.transport.ready
        try:
            channel.prepare()
        except AuthenticationFailed as error:
            self._refuse(channel, error)
            return
        except InvalidReceive as error:
            self._io.close_invalid(channel, error)
            return
        except OSError as error:
            self._keep_error(channel, error)
            self._channels.fail(channel, channel.state, error)
            return
        if channel.outgoing.unsent:
            self._io.write(channel)  # the authenticator's frames
        if channel.closed:
            return
        if channel.ready:
            if channel.reauthentication_began_ns:
                self._counters.sessions.reauthenticated(self._now() - channel.reauthentication_began_ns)
            else:
                self._counters.successful_authentications += 1
            self._dialled.discard(channel.connection_id)
            self._results.connected.append(channel.connection_id)
            self._results.has_any = True
        # A handshake may have received the first request with its own last bytes; the Poller, asked after that, sees an
        # empty socket.
        if channel.reader.received or had_handshake:
            self._io.expect_more(channel)

    def _keep_error(self, channel: KafkaChannel, error: OSError | AuthenticationFailed) -> None:
        # A server never asks for the errors of its clients: their ids are new for each connection, and would pile up.
        if channel.connection_id in self._dialled:
            self._dialled.discard(channel.connection_id)
            self._connect_errors[channel.connection_id] = error

    # -- rejections

    def _refuse(self, channel: KafkaChannel, error: AuthenticationFailed) -> None:
        is_again = channel.reauthentication_began_ns > 0
        if is_again:
            self._counters.sessions.failed_reauthentications += 1
        else:
            self._counters.failed_authentications += 1
        self._keep_error(channel, error)
        logger.info("Failed %sauthentication with %s (%s)", "re-" if is_again else "", channel.connection_id, error)
        if channel.state is not ChannelState.AUTHENTICATION_FAILED:
            self._channels.fail(channel, ChannelState.AUTHENTICATION_FAILED)  # the transport's handshake has failed
        elif self._failed_authentication_delay_ns > 0:
            due_ns = self._now() + self._failed_authentication_delay_ns
            self._delayed_closes.append(DelayedClose(due_ns, channel, error.answer))
            self.has_delayed_closes = True
        else:
            self._close_refused(channel, error.answer)

    def close_delayed(self, now_ns: int) -> float:
        """Close rejected channels whose delay is over. Returns the milliseconds until the next one is due."""
        delayed = self._delayed_closes
        while delayed:
            due_ns, channel, answer = delayed[0]
            if due_ns > now_ns:
                return (due_ns - now_ns) / 1e6
            delayed.popleft()
            if not channel.closed:
                self._close_refused(channel, answer)
        self.has_delayed_closes = False
        return inf

    def _close_refused(self, channel: KafkaChannel, answer: Sequence[Any]) -> None:
        channel.outgoing.add(list(answer))
        channel.discard_unread()
        self._io.close_when_sent(channel)


# -- sockets that connect


def open_socket(family: int) -> socket.socket:
    """Make a non-blocking socket that is going to connect. Raises OSError when there are too many open files."""
    stream_socket = socket.socket(family, socket.SOCK_STREAM)
    stream_socket.setblocking(False)
    return stream_socket


def _set_options(stream_socket: StreamSocket, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
    """Keep the connection alive, delay nothing, and size the kernel's buffers unless that is left to the system."""
    stream_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if send_buffer_bytes != USE_DEFAULT_BUFFER_SIZE:
        stream_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    if receive_buffer_bytes != USE_DEFAULT_BUFFER_SIZE:
        stream_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)


def _resolve(address: tuple[str, int]) -> tuple[int, Any]:
    """Return the address family and the first address of (host, port). Blocks for a host name.

    Raises OSError when the name is unknown.
    """
    host, port = address
    family, _, _, _, resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return family, resolved
