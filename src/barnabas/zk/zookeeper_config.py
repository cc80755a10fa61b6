"""The settings of the connection to ZooKeeper.

Read by `broker` when it opens the store. Immutable. Kafka: ZkConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.metadata_store import uses_zookeeper
from barnabas.config.secret import Secret
from barnabas.config.setting import Settings, computed, setting
from barnabas.security.sasl.jaas import InvalidJaas
from barnabas.zk.digest_login import ZookeeperUser, user_of_login_context
from barnabas.zk.zookeeper_tls_config import ZookeeperTlsConfig

_LOGIN = "zookeeper.sasl.jaas.config"


def _connect(config: ConfigValues) -> str:
    return (config.optional_string("zookeeper.connect") or "") if uses_zookeeper(config) else ""


def _connection_timeout_ms(config: ConfigValues) -> int:
    is_given = config.value("zookeeper.connection.timeout.ms") is not None
    return config.integer("zookeeper.connection.timeout.ms" if is_given else "zookeeper.session.timeout.ms")


@dataclass(frozen=True, slots=True)
class ZookeeperConfig(Settings):
    """Where ZooKeeper is (`host:port,.../chroot`; empty: the embedded store is used), and how long to wait for it.

    has_acls: whether znodes are created with access control lists. login: in Java's notation.
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
    def servers(self) -> str:
        """The servers, `host:port,host:port`."""
        return self.connect.partition("/")[0]

    @property
    def chroot(self) -> str:
        """The path under which the cluster's znodes are, without a slash at its end; empty for the root."""
        _, slash, path = self.connect.partition("/")
        return (slash + path).rstrip("/")

    @property
    def user(self) -> ZookeeperUser | None:
        """The user as whom the broker logs in, None without a login. Raises ConfigError: the login is malformed."""
        if self.login is None:
            return None
        try:
            return user_of_login_context(self.login.reveal())
        except InvalidJaas as error:
            raise ConfigError(f"{_LOGIN}: {error}", _LOGIN) from None
