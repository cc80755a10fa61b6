"""The channels of each listener, by its security protocol and its own settings; and its new keys while the broker runs.

Made with the sockets, on the main thread. The network asks for a listener's builder when it opens the listener and when
it makes threads for it; DynamicSecurity calls `validate` and `reconfigure`, one change at a time. Each dictionary is
replaced by one assignment, since a validation may read it while a listener is opened. Kafka:
ChannelBuilders.serverChannelBuilder, and the reconfigurable channel builders of a Selector.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas.config.broker_config_keys import LISTENER_PREFIX
from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.listeners import EndPoint, listeners_of, protocol_map_of
from barnabas.network.connections.channel_builders import check_protocol
from barnabas.runtime.clock import Clock
from barnabas.transport.channel.authenticator import Authenticator, ChannelBuilder, plaintext_channel
from barnabas.transport.channel.transport_layer import StreamSocket, TransportLayer

if TYPE_CHECKING:
    from barnabas.security.sasl.sasl_listener import SaslListener
    from barnabas.security.sasl.sasl_server import LoginParts
    from barnabas.security.tls.tls_config import TlsConfig
    from barnabas.security.tls.tls_listener import TlsListener

logger = logging.getLogger(__name__)

_WITH_TLS: Final = ("SSL", "SASL_SSL")
_WITH_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")


class ListenerChannels:
    """The builders of all listeners (ChannelBuilders), and the keeper of their keys."""

    def __init__(
        self,
        current: Callable[[], ConfigValues],
        clock: Clock,
        logins: Callable[[], LoginParts],
        given: Mapping[str, ChannelBuilder] | None = None,
    ) -> None:
        """current: returns the settings in force. logins: returns what the logins of all SASL listeners
        share.

        given: builders by security protocol to use instead (tests).
        """
        self._current = current
        self._clock = clock
        self._logins = logins
        self._given = given
        self._tls: dict[str, TlsListener] = {}
        self._sasl: dict[str, SaslListener] = {}

    # -- what the network asks for

    def check(self, end_point: EndPoint) -> None:
        """Check a listener that is to be opened, and load its keys.

        Raises ConfigError: the listener's settings cannot be used.
        """
        if self._given is not None:
            check_protocol(end_point, self._given)
        self.builder_of(end_point.listener_name, end_point.security_protocol)

    def builder_of(self, listener_name: str, security_protocol: str) -> ChannelBuilder:
        """Return the builder of a listener's channels. Raises ConfigError as `check` does, if it was not called."""
        if self._given is not None:
            return self._given[security_protocol]
        if security_protocol in _WITH_SASL:
            sasl = self._sasl_of(listener_name)
            if security_protocol not in _WITH_TLS:
                return sasl.build
            return _sasl_over_tls(self._tls_of(listener_name), sasl)
        return self._tls_of(listener_name).build if security_protocol in _WITH_TLS else plaintext_channel

    def _sasl_of(self, listener_name: str) -> SaslListener:
        sasl = self._sasl.get(listener_name)
        if sasl is None:
            sasl = _new_sasl(self._current(), listener_name, self._logins())
            sasl.start()
            self._sasl = {**self._sasl, listener_name: sasl}
        return sasl

    def _tls_of(self, listener_name: str) -> TlsListener:
        tls = self._tls.get(listener_name)
        if tls is None:
            tls = _new_tls(self._current(), listener_name, self._clock)
            self._tls = {**self._tls, listener_name: tls}
        return tls

    # -- changed settings

    def validate(self, proposed: ConfigValues) -> None:
        """Check the listeners of the proposed settings. Raises ConfigError: one of them could not be served."""
        opened = self._tls
        for end_point in listeners_of(proposed):
            if self._given is not None:
                check_protocol(end_point, self._given)
                continue
            name, protocol = end_point.listener_name, end_point.security_protocol
            if protocol in _WITH_SASL and self._needs_check(proposed, name):
                _new_sasl(proposed, name, self._logins())  # made for its checks alone
            if protocol not in _WITH_TLS:
                continue
            if name in opened:
                opened[name].check(tls_config_of(proposed, name))
            else:
                _new_tls(proposed, name, self._clock)

    def _needs_check(self, proposed: ConfigValues, listener_name: str) -> bool:
        """Return whether the logins of a listener would be others, also if it takes them over at the next start only.

        The check of unchanged ones would fetch the keys of tokens once more, for a change of something else.
        """
        if listener_name not in self._sasl:
            return True
        from barnabas.security.sasl.sasl_config import SaslConfig

        return SaslConfig.of(proposed, listener_name) != SaslConfig.of(self._current(), listener_name)

    def reconfigure(self, current: ConfigValues) -> None:
        """Take over changed key stores; a listener whose new one cannot be used keeps the old one."""
        names = {end_point.listener_name for end_point in listeners_of(current)}
        self._tls = {name: tls for name, tls in self._tls.items() if name in names}
        for name, sasl in self._sasl.items():
            if name not in names:
                sasl.close()
        self._sasl = {name: sasl for name, sasl in self._sasl.items() if name in names}
        self.reload(current)

    def reload(self, current: ConfigValues) -> None:
        """Take over changed settings and changed files of the listeners that are open."""
        for name, tls in self._tls.items():
            try:
                tls.reload(tls_config_of(current, name))
            except ConfigError as error:
                logger.error("Listener %s keeps its key store: %s", name, error.message)  # noqa: TRY400 as it says


# A broker whose listeners are all PLAINTEXT imports neither SASL nor TLS.
def _new_sasl(config: ConfigValues, listener_name: str, logins: LoginParts) -> SaslListener:
    from barnabas.security.sasl.sasl_config import SaslConfig
    from barnabas.security.sasl.sasl_listener import SaslListener

    return SaslListener(listener_name, SaslConfig.of(config, listener_name), logins)


def _new_tls(config: ConfigValues, listener_name: str, clock: Clock) -> TlsListener:
    from barnabas.security.tls.tls_listener import TlsListener

    return TlsListener(listener_name, tls_config_of(config, listener_name), clock)


def tls_config_of(config: ConfigValues, listener_name: str) -> TlsConfig:
    """Return the settings of TLS that hold for a listener."""
    from barnabas.security.tls.tls_config import TlsConfig

    tls = TlsConfig.of(config.of_listener(listener_name))
    # KIP-684: where clients log in by SASL, only the listener's own setting asks for certificates as well.
    is_own = f"{LISTENER_PREFIX}{listener_name.lower()}.ssl.client.auth" in config.originals
    if protocol_map_of(config).get(listener_name) in _WITH_SASL and not is_own:
        return replace(tls, client_auth="none")
    return tls


def _sasl_over_tls(tls: TlsListener, sasl: SaslListener) -> ChannelBuilder:
    def build(stream_socket: StreamSocket) -> tuple[TransportLayer, Authenticator]:
        return tls.transport(stream_socket), sasl.authenticator()

    return build
