"""The settings of the connection to ZooKeeper, and of its TLS, which are ZooKeeper's and not those of listeners.

Read by `broker` when it opens the store. Immutable. Kafka: ZkConfigs. ZooKeeper: ClientX509Util.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.cross_checks import uses_zookeeper
from barnabas.config.secret import Secret
from barnabas.config.setting import Settings, computed, setting
from barnabas.security.tls.tls_config import KeyStoreConfig, TlsConfig, TrustStoreConfig, text_if_given

if TYPE_CHECKING:
    from barnabas.security.tls.tls_contexts import TlsClient
    from barnabas.zk.zookeeper.digest_login import ZookeeperUser

_LOGIN: Final = "zookeeper.sasl.jaas.config"
_PEM: Final = "PEM"
_PKCS12: Final = "PKCS12"
_SOCKET: Final = "unix:"


class ZookeeperTlsConfig(Settings):
    """The settings of TLS to ZooKeeper. endpoint_identification: `https`, or empty to trust any name.

    What differs from `security.tls.tls_config`: the type of a store follows from its file's name, the password of a PEM
    key store is that of the key, and `zookeeper.ssl.protocol` is the only version of TLS unless
    `zookeeper.ssl.enabled.protocols` names others.
    """

    is_enabled: bool = setting("zookeeper.ssl.client.enable")
    keystore_location: str | None = setting("zookeeper.ssl.keystore.location", text_if_given)
    keystore_password: Secret | None = setting("zookeeper.ssl.keystore.password", Secret.of)
    keystore_type: str | None = setting("zookeeper.ssl.keystore.type", text_if_given)
    truststore_location: str | None = setting("zookeeper.ssl.truststore.location", text_if_given)
    truststore_password: Secret | None = setting("zookeeper.ssl.truststore.password", Secret.of)
    truststore_type: str | None = setting("zookeeper.ssl.truststore.type", text_if_given)
    protocol: str = setting("zookeeper.ssl.protocol")
    enabled_protocols: tuple[str, ...] = setting("zookeeper.ssl.enabled.protocols", lambda value: value or ())
    cipher_suites: tuple[str, ...] = setting("zookeeper.ssl.cipher.suites", lambda value: value or ())
    endpoint_identification: str = setting("zookeeper.ssl.endpoint.identification.algorithm", lambda value: value or "")

    @classmethod
    def of(cls, config: ConfigValues) -> ZookeeperTlsConfig:
        """Read the settings."""
        return cls.from_kafka_config(config)

    def new_client(self) -> TlsClient | None:
        """Return the TLS of the connections, whose files are read now; None in plaintext.

        Raises ConfigError: a store is missing or cannot be used, or a setting is wrong.
        """
        if not self.is_enabled:
            return None
        from barnabas.security.tls.tls_contexts import TlsClient  # noqa: PLC0415 - few connections have it

        try:
            return TlsClient(self._tls, self.endpoint_identification)
        except ConfigError as error:
            raise ConfigError(_in_zookeepers_names(error.message), error.name and f"zookeeper.{error.name}") from error

    @property
    def _tls(self) -> TlsConfig:
        keys = _tls_store_type(self.keystore_type, self.keystore_location)
        trusted = _tls_store_type(self.truststore_type, self.truststore_location)
        return TlsConfig(
            enabled_protocols=self.enabled_protocols or (self.protocol,),
            cipher_suites=self.cipher_suites,
            keystore=KeyStoreConfig(
                type=keys,
                location=self.keystore_location,
                password=None if keys == _PEM else self.keystore_password,
                key_password=self.keystore_password if keys == _PEM else None,
            ),
            truststore=TrustStoreConfig(
                type=trusted,
                location=self.truststore_location,
                password=None if trusted == _PEM else self.truststore_password,
            ),
        )


def _tls_store_type(given: str | None, location: str | None) -> str:
    """Return the type of a key store or trust store. Java's own format is found out, and refused, when it is read."""
    if given is not None:
        return given.upper()
    return _PEM if location is not None and location.lower().endswith(".pem") else _PKCS12


def _in_zookeepers_names(message: str) -> str:
    """Return the message of an error with the names that these settings have here."""
    message = re.sub(r"(?<![\w.])ssl\.key\.password", "zookeeper.ssl.keystore.password", message)
    return re.sub(r"(?<![\w.])ssl\.", "zookeeper.ssl.", message)


def _connect(config: ConfigValues) -> str:
    return (config.optional_string("zookeeper.connect") or "") if uses_zookeeper(config) else ""


def _connection_timeout_ms(config: ConfigValues) -> int:
    is_given = config.value("zookeeper.connection.timeout.ms") is not None
    return config.integer("zookeeper.connection.timeout.ms" if is_given else "zookeeper.session.timeout.ms")


class ZookeeperConfig(Settings):
    """Where ZooKeeper is (`host:port,.../chroot`; empty: the embedded store is used), and how long to wait for it.

    `unix:PATH` is the socket of the store that several brokers of one machine share (`serve --processes`). has_acls:
    whether znodes are created with access control lists. login: in Java's notation.
    """

    connect: str = computed(_connect, "zookeeper.connect", "metadata.store")
    session_timeout_ms: int = setting("zookeeper.session.timeout.ms")
    connection_timeout_ms: int = computed(
        _connection_timeout_ms, "zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms"
    )
    max_in_flight: int = setting("zookeeper.max.in.flight.requests")
    has_acls: bool = setting("zookeeper.set.acl")
    login: Secret | None = setting(_LOGIN, Secret.of)
    tls: ZookeeperTlsConfig = computed(ZookeeperTlsConfig.of, *ZookeeperTlsConfig.names())

    @property
    def socket_path(self) -> str | None:
        """The path of the socket of a store on this machine, None for servers that have hosts and ports."""
        return self.connect.removeprefix(_SOCKET) if self.connect.startswith(_SOCKET) else None

    @property
    def servers(self) -> str:
        """The servers, `host:port,host:port`, or the socket."""
        return self.connect if self.socket_path is not None else self.connect.partition("/")[0]

    @property
    def chroot(self) -> str:
        """The path under which the cluster's znodes are, without a slash at its end; empty for the root."""
        if self.socket_path is not None:
            return ""
        _, slash, path = self.connect.partition("/")
        return (slash + path).rstrip("/")

    @property
    def user(self) -> ZookeeperUser | None:
        """The user as whom the broker logs in, None without a login. Raises ConfigError: the login is malformed."""
        if self.login is None:
            return None
        from barnabas.security.sasl.jaas import InvalidJaas  # noqa: PLC0415 - few connections have a login
        from barnabas.zk.zookeeper.digest_login import user_of_login_context  # noqa: PLC0415

        try:
            return user_of_login_context(self.login.reveal())
        except InvalidJaas as error:
            raise ConfigError(f"{_LOGIN}: {error}", _LOGIN) from None
