"""The security of this broker's connections to brokers, by the listener that they come by: protocol, keys and login.

A broker reaches the brokers of its cluster by one listener, and the controller by another where there is a control
plane. It takes the role of a client there, with the settings of its own listener: its key store is the client's
certificate, its login context has the user as whom it logs in. It is the server of the same listener, so it knows which
principal it has there, and by this principal it knows the requests of other brokers (decisions/0090).

Kafka: ChannelBuilders.clientChannelBuilder with the JAAS context of the server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.channels.listener_channels import tls_config_of
from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.listeners import controller_listener_name_of, inter_broker_listener_name_of, protocol_map_of
from barnabas.config.setting import Settings, setting
from barnabas.quota.quota_entity import sanitize
from barnabas.transport.channel.authenticator import ANONYMOUS, ChannelBuilder, ClientChannelBuilder
from barnabas.zk.znodes.config_znodes import ConfigEntityType, ConfigZnodes

if TYPE_CHECKING:
    from barnabas.rpc.client_channels import ClientChannels
    from barnabas.security.sasl.client.client_authenticator import PasswordUser
    from barnabas.security.tls.tls_config import TlsConfig
    from barnabas.security.tls.tls_contexts import TlsClient

logger = logging.getLogger(__name__)

_MECHANISM = "sasl.mechanism.inter.broker.protocol"


class InterBrokerConfig(Settings):
    """The settings of the client's role. endpoint_identification: `https`, or empty to trust any name."""

    mechanism: str = setting(_MECHANISM)
    endpoint_identification: str = setting("ssl.endpoint.identification.algorithm", lambda value: value or "")


class BrokerLogin(NamedTuple):
    """The user as whom this broker logs in to brokers, and how."""

    mechanism: str
    user: PasswordUser


class InterBrokerSecurity:
    """The channels of this broker's clients, by the listener that they connect to.

    Made by BrokerConnections, on the main thread; DynamicSecurity reloads it. `_channels` and `_principals` are each
    replaced by an assignment, since the threads of connections and of requests read them.
    """

    def __init__(self, config: ConfigValues, client_id: str) -> None:
        """Raises ConfigError: a key store cannot be used, or the login of this broker is missing."""
        self._client_id = client_id
        self._channels = self._channels_of(config)
        self._principals = _principals_of(config)

    def principal_at(self, listener_name: str) -> str:
        """Return the principal that this broker has at a listener of brokers, as a client of it."""
        return self._principals[listener_name]

    def protects(self, listener_name: str) -> bool:
        """Return whether connections to this listener are other than plaintext."""
        return listener_name in self._channels

    def builder_of(self, listener_name: str) -> ClientChannelBuilder | None:
        """Return the maker of channels to a listener; None for plaintext ones."""
        if listener_name not in self._channels:
            return None

        def build(host: str) -> ChannelBuilder:
            # Looked up for each connection, so that it uses the keys of the last reload.
            return self._channels[listener_name](host)

        return build

    def check(self, config: ConfigValues) -> None:
        """Check settings that are to be taken over. Raises ConfigError: they cannot be used."""
        self._channels_of(config)
        _principals_of(config)

    def reload(self, config: ConfigValues) -> None:
        """Take over changed settings and files. New connections use them; if they cannot be used, the old ones stay."""
        try:
            self._channels, self._principals = self._channels_of(config), _principals_of(config)
        except ConfigError as error:
            logger.error("Connections to brokers keep their keys: %s", error.message)  # noqa: TRY400 as it says

    def _channels_of(self, config: ConfigValues) -> Mapping[str, ClientChannels]:
        protocols = protocol_map_of(config)
        return {
            name: _channels_to(name, protocols[name], config, self._client_id)
            for name in _listeners_of_brokers(config)
            if protocols[name] != "PLAINTEXT"
        }


def _channels_to(listener_name: str, protocol: str, config: ConfigValues, client_id: str) -> ClientChannels:
    from barnabas.rpc.client_channels import ClientChannels

    tls = _tls_of(config, listener_name) if "SSL" in protocol else None
    if "SASL" not in protocol:
        return ClientChannels(tls, None, client_id)
    from barnabas.security.sasl.mechanisms import MECHANISMS

    mechanism, user = broker_login_of(config, listener_name)
    return ClientChannels(tls, MECHANISMS[mechanism].login(user), client_id)


def broker_logins_of(config: ConfigValues) -> list[BrokerLogin]:
    """Return the logins of this broker at other brokers, one a listener with SASL. Raises ConfigError."""
    protocols = protocol_map_of(config)
    return [broker_login_of(config, name) for name in _listeners_of_brokers(config) if "SASL" in protocols[name]]


def broker_login_of(config: ConfigValues, listener_name: str) -> BrokerLogin:
    """Return the login of this broker at one listener.

    Raises ConfigError: the settings have no login, or one that the listener does not accept.
    """
    from barnabas.security.sasl.jaas import InvalidJaas
    from barnabas.security.sasl.login_context import user_of_login_context
    from barnabas.security.sasl.mechanisms import MECHANISMS
    from barnabas.security.sasl.sasl_config import SaslConfig

    mechanism = InterBrokerConfig.from_kafka_config(config.of_listener(listener_name)).mechanism
    sasl = SaslConfig.of(config, listener_name)
    usable = [name for name, each in MECHANISMS.items() if each.is_for_brokers]
    if mechanism not in usable:
        raise ConfigError(f"{_MECHANISM}={mechanism}: brokers log in to each other by {', '.join(usable)}", _MECHANISM)
    if mechanism not in sasl.enabled_mechanisms:
        raise ConfigError(
            f"{_MECHANISM} must be included in sasl.enabled.mechanisms when SASL is used for inter-broker "
            f"communication: {mechanism} is not among {','.join(sasl.enabled_mechanisms)} of listener {listener_name}",
            _MECHANISM,
        )
    name = f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    login = sasl.logins.get(mechanism)
    if login is None:
        raise ConfigError(f"Brokers log in to listener {listener_name}: set {name}, with username and password", name)
    try:
        return BrokerLogin(mechanism, user_of_login_context(mechanism, login))
    except InvalidJaas as error:
        raise ConfigError(f"{name}: {error}", name) from None  # the cause's frames hold the text


def _principals_of(config: ConfigValues) -> Mapping[str, str]:
    return {name: _principal_of(config, name) for name in _listeners_of_brokers(config)}


def _principal_of(config: ConfigValues, listener_name: str) -> str:
    """Return the principal of this broker at a listener.

    Raises ConfigError: there is no login, or no rule makes a name of the subject of this broker's certificate.
    """
    protocol = protocol_map_of(config)[listener_name]
    if protocol == "PLAINTEXT":
        return ANONYMOUS
    from barnabas.security.principal import USER, Principal

    if "SASL" in protocol:
        return str(Principal(USER, broker_login_of(config, listener_name).user.name))
    from barnabas.security.tls.distinguished_name import InvalidRule, NoMatchingRule, PrincipalMapper
    from barnabas.security.tls.key_stores import load_key_store

    tls = tls_config_of(config, listener_name)
    # As the server: where it asks for no certificate, the broker's own client presents none.
    if tls.client_auth == "none" or (key_store := load_key_store(tls.keystore)) is None:
        return ANONYMOUS
    try:
        name = PrincipalMapper(tls.principal_mapping_rules).name_of(key_store.certificate.subject)
    except (InvalidRule, NoMatchingRule) as error:
        rules = "ssl.principal.mapping.rules"
        raise ConfigError(f"{rules}: this broker's own certificate has no principal: {error}", rules) from error
    return str(Principal(USER, name))


def _listeners_of_brokers(config: ConfigValues) -> set[str]:
    return {inter_broker_listener_name_of(config), controller_listener_name_of(config)}


def _tls_of(config: ConfigValues, listener_name: str) -> TlsClient:
    from barnabas.security.tls.tls_config import TlsConfig
    from barnabas.security.tls.tls_contexts import TlsClient

    of_listener = config.of_listener(listener_name)
    identification = InterBrokerConfig.from_kafka_config(of_listener).endpoint_identification
    tls = TlsConfig.of(of_listener)
    _check_trust(tls, listener_name)
    return TlsClient(tls, identification)


def _check_trust(tls: TlsConfig, listener_name: str) -> None:
    """Check that a broker with these settings trusts another one with the same ones, whatever the names are.

    Without the check, brokers would reject each other again and again. Kafka: SslFactory.SslEngineValidator. Raises
    ConfigError: the brokers' certificates are not signed by an authority that the brokers trust.
    """
    from barnabas.security.tls.key_stores import load_key_store, load_trust_store
    from barnabas.security.tls.tls_contexts import client_context, refusal_between, server_context

    key_store, trust_store = load_key_store(tls.keystore), load_trust_store(tls.truststore)
    if key_store is None:
        return  # the listener says that it needs one
    refusal = refusal_between(
        client_context(tls, key_store, trust_store, endpoint_identification=""),
        server_context(tls, key_store, trust_store),
    )
    if refusal is None:
        return
    if trust_store is not None and any(word in refusal for word in ("expired", "not yet valid", "CRL")):
        text = (
            f"Brokers connect to each other at listener {listener_name} by TLS, and refuse the certificate: {refusal}"
        )
        raise ConfigError(text, "ssl.keystore.location")
    what = "no trust store is set" if trust_store is None else "the trust store has not their authority"
    raise ConfigError(
        f"Brokers connect to each other at listener {listener_name} by TLS, and would not trust each other's "
        f"certificates ({refusal}): {what}; set ssl.truststore.location or ssl.truststore.certificates to the "
        "authority of the brokers' certificates",
        "ssl.truststore.location",
    )


def create_missing_credentials(logins: Iterable[BrokerLogin], configs: ConfigZnodes) -> None:
    """Create the credentials that the logins by SCRAM need and the store lacks. One that is there stays as it is.

    The credentials of users are in the store, and are changed by requests to a broker. A broker whose own connections
    log in by SCRAM takes no requests before its controller has logged in. So the first broker of a cluster creates the
    credential of its own user, of the password in its settings, on the main thread and before the sockets are bound.
    Apache Kafka leaves it to the operator, with `kafka-configs --zookeeper` before the first start.
    """
    for mechanism, user in logins:
        from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS, StoredScramCredential

        scram = SCRAM_MECHANISMS.get(mechanism)
        if scram is None or user.is_token:
            continue
        settings = configs.entity(ConfigEntityType.USER, sanitize(user.name))
        if mechanism in settings:
            continue
        credential = StoredScramCredential.of_password(scram, user.password.reveal())
        configs.change(ConfigEntityType.USER, sanitize(user.name), {**settings, mechanism: credential.to_text()})
        logger.info("Created the %s credential of user %s, as whom brokers log in to each other", mechanism, user.name)
