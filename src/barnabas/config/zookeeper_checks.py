"""Rules for the connection to ZooKeeper: what must be set for TLS, for a login, and for access control lists.

Called by `cross_checks`; pure functions. A broker with the embedded store connects to no ZooKeeper, so no rule applies.
Kafka: KafkaServer.initZkClient, KafkaConfig.zkTlsClientAuthEnabled. ZooKeeper: ClientX509Util.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.metadata_store import uses_zookeeper

_ENABLE: Final = "zookeeper.ssl.client.enable"
_SOCKET: Final = "zookeeper.clientCnxnSocket"
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_KEY_STORE: Final = "zookeeper.ssl.keystore.location"
_TRUST_STORE: Final = "zookeeper.ssl.truststore.location"
_NAMES: Final = "zookeeper.ssl.endpoint.identification.algorithm"
_NOT_LOOKED_UP: Final = ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")


def check_zookeeper(config: ConfigValues) -> None:
    """Check the settings of a broker that uses ZooKeeper. Raises ConfigError: they promise what would not be done."""
    if uses_zookeeper(config):
        _check_tls(config)
        _check_acls(config)


def _check_tls(config: ConfigValues) -> None:
    given = [name for name in (_SOCKET, _KEY_STORE, _TRUST_STORE) if config.text(name)]
    if not config.boolean(_ENABLE):
        # Kafka ignores them then, silently. A file that says false has decided on plaintext.
        if given and not config.is_set(_ENABLE):
            raise ConfigError(
                f"{', '.join(given)}: the connection to ZooKeeper is in plaintext unless {_ENABLE}=true is set. Set "
                f"it, or {_ENABLE}=false if the network between the brokers and ZooKeeper is trusted",
                given[0],
            )
        return
    socket_class = config.optional_string(_SOCKET)
    if socket_class and socket_class != _NETTY:
        raise ConfigError.invalid(_SOCKET, socket_class, f"{_ENABLE}=true needs {_NETTY}; other classes have no TLS")
    algorithm = config.optional_string(_NAMES)
    if algorithm and algorithm.upper() != "HTTPS":
        raise ConfigError.invalid(_NAMES, algorithm, "HTTPS verifies the name of ZooKeeper, an empty value does not")
    for name in _NOT_LOOKED_UP:
        if config.boolean(name):
            raise ConfigError(
                f"{name}=true: this version does not look up whether ZooKeeper's certificate is revoked. Leave the "
                "setting out, and trust an authority whose certificates are short-lived",
                name,
            )


def _check_acls(config: ConfigValues) -> None:
    """Check that znodes with access control lists will have an owner. Raises ConfigError: they would have none."""
    if not config.boolean("zookeeper.set.acl") or config.optional_string("zookeeper.sasl.jaas.config"):
        return
    if not (config.boolean(_ENABLE) and config.optional_string(_KEY_STORE)):
        raise ConfigError(
            f"zookeeper.set.acl=true needs a user of ZooKeeper, to whom the znodes belong: set "
            f"zookeeper.sasl.jaas.config, or {_ENABLE}=true with {_KEY_STORE}",
            "zookeeper.set.acl",
        )
