"""The SASL of one listener: its mechanisms, made of its settings, and the authenticators of its connections.

One object for each listener with SASL, shared by the Processors of the listener; immutable. Kafka: SaslChannelBuilder.
"""

from __future__ import annotations

import logging

from barnabas.config.config_error import ConfigError
from barnabas.config.secret import Secret
from barnabas.security.sasl.jaas import InvalidJaas, LoginModule, parse_login_module
from barnabas.security.sasl.mechanisms import MECHANISMS, NOT_OFFERED
from barnabas.security.sasl.sasl_config import SaslConfig
from barnabas.security.sasl.sasl_server import LoginParts, MechanismSettings, ServedMechanism
from barnabas.security.sasl.server_authenticator import SaslRules, SaslServerAuthenticator
from barnabas.transport.channel.authenticator import Authenticator
from barnabas.transport.channel.transport_layer import PlaintextTransportLayer, StreamSocket, TransportLayer

logger = logging.getLogger(__name__)


class SaslListener:
    """A listener's channel builder (`build`), and the maker of its authenticators.

    `start` and `close` frame the time in which it is served; before, it checks logins by what was loaded at first.
    """

    def __init__(self, listener_name: str, config: SaslConfig, parts: LoginParts) -> None:
        """Make the mechanisms; that of tokens fetches its keys.

        Raises ConfigError: a mechanism is unknown, or lacks its users or keys, or a login context is malformed.
        """
        if not config.enabled_mechanisms:
            raise ConfigError(
                f"Listener {listener_name} uses SASL and enables no mechanism: set sasl.enabled.mechanisms",
                "sasl.enabled.mechanisms",
            )
        if config.login_of_no_mechanism is not None:
            logger.warning(
                "Listener %s: sasl.jaas.config has no effect without the prefixes of a listener and a mechanism "
                "(listener.name.%s.<mechanism>.sasl.jaas.config)",
                listener_name,
                listener_name.lower(),
            )
        for mechanism, handler in config.handlers.items():
            if mechanism not in MECHANISMS or not MECHANISMS[mechanism].has_handlers:
                setting = (
                    f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.server.callback.handler.class"
                )
                raise ConfigError(f"{setting}={handler}: there is no Java to load the class", setting)
        enabled = dict.fromkeys(config.enabled_mechanisms)
        served = {mechanism: _served(listener_name, mechanism, config, parts) for mechanism in enabled}
        self._keys = [each.keys for each in served.values() if each.keys is not None]
        self._rules = SaslRules(
            {mechanism: each.new_server for mechanism, each in served.items()},
            config.max_receive_bytes,
            parts.answer_versions,
            {each: config.max_reauth_ms_of.get(each, config.max_reauth_ms) for each in enabled},
            parts.clock,
        )

    def start(self) -> None:
        """Keep the keys of tokens up to date from now on."""
        for keys in self._keys:
            keys.start()

    def close(self) -> None:
        """Stop fetching the keys of identity providers."""
        for keys in self._keys:
            keys.close()

    def build(self, stream_socket: StreamSocket) -> tuple[TransportLayer, Authenticator]:
        """Build a SASL_PLAINTEXT channel (ChannelBuilder)."""
        return PlaintextTransportLayer(stream_socket), self.authenticator()

    def authenticator(self) -> SaslServerAuthenticator:
        """Return the authenticator of a new connection."""
        return SaslServerAuthenticator(self._rules)


def _served(listener_name: str, mechanism: str, config: SaslConfig, parts: LoginParts) -> ServedMechanism:
    """Return the server's side of a mechanism. Raises ConfigError: as `SaslListener`."""
    row = MECHANISMS.get(mechanism)
    if row is None:
        raise ConfigError(
            f"Listener {listener_name}: the SASL mechanism {NOT_OFFERED.get(mechanism, mechanism)} is not supported; "
            f"set sasl.enabled.mechanisms to some of {', '.join(MECHANISMS)}",
            "sasl.enabled.mechanisms",
        )
    prefix = f"listener.name.{listener_name.lower()}.{mechanism.lower()}."
    login = config.logins.get(mechanism)
    module = None if login is None else _login_module(f"{prefix}sasl.jaas.config", row.login_module, login)
    handler = config.handlers.get(mechanism)
    return row.serve(MechanismSettings(listener_name, mechanism, prefix, module, handler, config, parts))


def _login_module(setting: str, java_class: str, login: Secret) -> LoginModule:
    """Parse a login context. java_class: of its module. Raises ConfigError: it is malformed, or of another module."""
    try:
        module = parse_login_module(login.reveal())
    except InvalidJaas as error:
        raise ConfigError(f"{setting}: {error}", setting) from None  # the cause's frames hold the text
    if module.short_name != java_class:
        raise ConfigError(f"{setting}: the login module of this mechanism is {java_class}", setting)
    return module
