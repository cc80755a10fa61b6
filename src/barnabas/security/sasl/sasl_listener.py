"""The SASL of one listener: its mechanisms, made of its settings, and the authenticators of its connections.

One object for each listener with SASL, shared by the Processors of the listener; immutable. Kafka: SaslChannelBuilder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.config.secret import Secret
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.security.sasl.jaas import InvalidJaas, LoginModule, parse_login_module
from barnabas.security.sasl.login_modules import LOGIN_MODULES
from barnabas.security.sasl.oauth_config import OAUTHBEARER
from barnabas.security.sasl.oauth_listener import OAuthBearerServer, OAuthSettings, TokenJudge, token_judge
from barnabas.security.sasl.plain_server import InvalidPlainUsers, PlainServer, PlainUsers
from barnabas.security.sasl.sasl_config import SaslConfig
from barnabas.security.sasl.sasl_server import SaslServer, SaslServerFactory
from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS
from barnabas.security.sasl.scram_server import ScramCredentials, ScramServer
from barnabas.security.sasl.server_authenticator import AnswerVersions, SaslRules, SaslServerAuthenticator
from barnabas.transport.authenticator import Authenticator
from barnabas.transport.transport_layer import PlaintextTransportLayer, StreamSocket, TransportLayer

logger = logging.getLogger(__name__)

_OAUTH_MODULE: Final = "OAuthBearerLoginModule"


class LoginParts(NamedTuple):
    """What the logins of all listeners share."""

    credentials: ScramCredentials
    answer_versions: AnswerVersions
    clock: Clock
    scheduler: Scheduler
    asks_providers: bool = True
    """Whether the keys of tokens are fetched from identity providers; False where settings alone are checked."""


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
            if mechanism != OAUTHBEARER:
                setting = (
                    f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.server.callback.handler.class"
                )
                raise ConfigError(f"{setting}={handler}: there is no Java to load the class", setting)
        self._judge = _token_judge(listener_name, config, parts) if OAUTHBEARER in config.enabled_mechanisms else None
        mechanisms = {
            mechanism: _token_server(self._judge)
            if mechanism == OAUTHBEARER and self._judge is not None
            else _factory(listener_name, mechanism, config, parts)
            for mechanism in config.enabled_mechanisms
        }
        max_session_ms = {each: config.max_reauth_ms_of.get(each, config.max_reauth_ms) for each in mechanisms}
        self._rules = SaslRules(
            mechanisms, config.max_receive_bytes, parts.answer_versions, max_session_ms, parts.clock
        )

    def start(self) -> None:
        """Keep the keys of tokens up to date from now on."""
        if self._judge is not None and self._judge.keys is not None:
            self._judge.keys.start()

    def close(self) -> None:
        """Fetch no more keys."""
        if self._judge is not None and self._judge.keys is not None:
            self._judge.keys.close()

    def build(self, stream_socket: StreamSocket) -> tuple[TransportLayer, Authenticator]:
        """Build a SASL_PLAINTEXT channel (ChannelBuilder)."""
        return PlaintextTransportLayer(stream_socket), self.authenticator()

    def authenticator(self) -> SaslServerAuthenticator:
        """Return the authenticator of a new connection."""
        return SaslServerAuthenticator(self._rules)


def _factory(listener_name: str, mechanism: str, config: SaslConfig, parts: LoginParts) -> SaslServerFactory:
    """Return the maker of a mechanism's servers. Raises ConfigError: as `SaslListener`."""
    if mechanism not in LOGIN_MODULES:
        reason = "Kerberos (GSSAPI) is not supported" if mechanism == "GSSAPI" else f"{mechanism} is not supported"
        raise ConfigError(
            f"Listener {listener_name}: the SASL mechanism {reason}; "
            f"set sasl.enabled.mechanisms to some of {', '.join((*LOGIN_MODULES, OAUTHBEARER))}",
            "sasl.enabled.mechanisms",
        )
    setting = f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    login = config.logins.get(mechanism)
    module = None if login is None else _login_module(setting, LOGIN_MODULES[mechanism], login)
    scram = SCRAM_MECHANISMS.get(mechanism)
    if scram is not None:
        make_scram: Callable[[], SaslServer] = partial(ScramServer, scram, parts.credentials)
        return make_scram
    make_plain: Callable[[], SaslServer] = partial(PlainServer, _plain_users(listener_name, setting, module, config))
    return make_plain


def _plain_users(listener_name: str, jaas: str, module: LoginModule | None, config: SaslConfig) -> PlainUsers:
    """Return the users of PLAIN: those of `sasl.plain.users`, or of the login context.

    jaas: the name of the login context's setting. Raises ConfigError: there are none, or both settings have some.
    """
    name = "sasl.plain.users"
    of_module = None if module is None else PlainUsers.of_module(module)
    if config.plain_users is None:
        if of_module is None:
            raise ConfigError(
                f"Listener {listener_name} enables PLAIN and has no users: set listener.name.{listener_name.lower()}."
                f"{name}=<name>:<password>,..., or {jaas} to org.apache.kafka.common.security.plain.PlainLoginModule "
                'required user_<name>="<password>";',
                jaas,
            )
        return of_module
    # A login context without users may stand beside: it says as whom this broker logs in to others.
    if of_module:
        raise ConfigError(f"Listener {listener_name} has users in {name} and in {jaas}: keep one of the two", name)
    try:
        return PlainUsers.of_setting(config.plain_users.reveal())
    except InvalidPlainUsers as error:
        raise ConfigError(f"{name} of listener {listener_name}: {error}", name) from None


def _token_judge(listener_name: str, config: SaslConfig, parts: LoginParts) -> TokenJudge:
    """Return the judge of a listener's tokens. Raises ConfigError: as `SaslListener`."""
    prefix = f"listener.name.{listener_name.lower()}.{OAUTHBEARER.lower()}."
    login = config.logins.get(OAUTHBEARER)
    module = None if login is None else _login_module(f"{prefix}sasl.jaas.config", _OAUTH_MODULE, login)
    handler = config.handlers.get(OAUTHBEARER)
    settings = OAuthSettings(prefix, config.oauth, handler, module)
    judge = token_judge(settings, parts.scheduler, parts.clock, asks_providers=parts.asks_providers)
    if judge.keys is None:
        logger.warning(
            "Listener %s accepts unsecured tokens: any client can be any user. It is for development only",
            listener_name,
        )
    return judge


def _token_server(judge: TokenJudge) -> SaslServerFactory:
    make: Callable[[], SaslServer] = partial(OAuthBearerServer, judge.validator)
    return make


def _login_module(setting: str, java_class: str, login: Secret) -> LoginModule:
    """Parse a login context. java_class: of its module. Raises ConfigError: it is malformed, or of another module."""
    try:
        module = parse_login_module(login.reveal())
    except InvalidJaas as error:
        raise ConfigError(f"{setting}: {error}", setting) from None  # the cause's frames hold the text
    if module.short_name != java_class:
        raise ConfigError(f"{setting}: the login module of this mechanism is {java_class}", setting)
    return module
