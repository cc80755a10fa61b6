"""Connections whose clients log in by SASL, and their intake: sessions that end, and logins on live ones (KIP-368).

Made and used by one Processor, on its thread; no lock. A session with an end is renewed by a SaslHandshake, also after
its end; any other request after its end closes the connection. A session without an end costs one comparison a request.
Kafka: SocketServer.Processor (processCompletedReceives), KafkaChannel (maybeBeginServerReauthentication,
serverAuthenticationSessionExpired).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from barnabas.network.connections.connection import Connection
from barnabas.network.connections.mute_states import NOT_MUTED
from barnabas.network.connections.request_intake import RequestIntake
from barnabas.network.requests.request_channel import RequestPath
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.sasl.server_authenticator import SaslServerAuthenticator
from barnabas.transport.channel.frame_reader import Frame
from barnabas.transport.channel.kafka_channel import KafkaChannel
from barnabas.transport.channel.open_channels import SessionCounters
from barnabas.transport.selector import Selector

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)

REAUTHENTICATE_AT_MOST_EVERY_NS: Final = 1_000_000_000
"""A client that logs in more often keeps a network thread busy. As in Kafka its SaslHandshake is then an ordinary
request, which is answered with an error."""
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")


class SaslConnection(Connection):
    """The Connection of a client that logs in by SASL."""

    __slots__ = ()

    def authenticated(self, sessions: SessionCounters) -> None:
        """Note who the client is, and for how long: its authenticator has finished, the first one or a later one."""
        super().authenticated(sessions)
        authenticator, context = self.channel.authenticator, self.context
        if isinstance(authenticator, SaslServerAuthenticator):
            context.authenticated_by_token = authenticator.is_token
            self.session_ends_ns = authenticator.session_ends_ns or 0
            if not (authenticator.can_reauthenticate or self.channel.reauthentication_began_ns):
                sessions.without_reauthentication += 1
            software = authenticator.client_software
            if software is not None:
                context.client_software_name, context.client_software_version = software


class ReauthenticationBegins(Exception):
    """The frame that is to be parsed is the SaslHandshake of a new login."""

    def __init__(self, handshake: bytes) -> None:
        super().__init__()
        self.handshake = handshake


class SessionExpired(Exception):
    """The frame that is to be parsed came after the end of its session."""


class SessionIntake(RequestIntake):
    """The RequestIntake of one Processor of a SASL listener."""

    __slots__ = ("_selector",)

    def __init__(self, processor_id: int, path: RequestPath, now: Callable[[], int], selector: Selector) -> None:
        super().__init__(processor_id, path, now, selector)
        self._selector = selector

    def take_requests(self, channel: KafkaChannel, connection: Connection) -> None:
        """Take requests as RequestIntake does, up to a SaslHandshake that begins a new login; raises the same."""
        try:
            super().take_requests(channel, connection)
        except ReauthenticationBegins as begins:
            self._reauthenticate(channel, connection, begins.handshake)
        except SessionExpired:
            logger.debug("Disconnecting expired connection %s", channel.connection_id)
            self._selector.counters.sessions.expired += 1
            connection.close_requested = True

    def look_at_session(self, frame: Frame, connection: Connection, received_ns: i64) -> None:
        """Look at the session of a connection whose session has an end, before its next frame is parsed.

        Raises ReauthenticationBegins for the SaslHandshake of a new login, SessionExpired for a request that is too
        late.
        """
        began_ns = connection.channel.reauthentication_began_ns
        may_begin = not began_ns or received_ns - began_ns >= REAUTHENTICATE_AT_MOST_EVERY_NS
        if may_begin and frame[:2] == _HANDSHAKE:
            raise ReauthenticationBegins(bytes(frame))
        if received_ns >= connection.session_ends_ns:
            raise SessionExpired

    def _reauthenticate(self, channel: KafkaChannel, connection: Connection, handshake: bytes) -> None:
        connection.muting = NOT_MUTED  # the frame is a handshake, which no handler answers
        if channel.reader.release is not None:
            channel.reader.release()  # the handshake is a copy
        authenticator = cast("SaslServerAuthenticator", channel.authenticator)
        channel.receive = handshake
        self._selector.reauthenticate_peer(channel, authenticator.renewal())
        if channel.ready:
            connection.authenticated(self._selector.counters.sessions)  # the tokens lay behind the handshake
