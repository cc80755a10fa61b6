"""The authorizer of a broker, made of its settings, with the lists in the store.

Called by BrokerServer on the main thread, between the opening of the store and the binding of sockets: no request is
answered before all lists are loaded. Kafka: the part of KafkaServer.startup about the authorizer.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from barnabas.broker.foundations import Foundations
from barnabas.broker.inter_broker_security import broker_login_of
from barnabas.broker.listener_channels import tls_config_of
from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import ConfigType, parse_value
from barnabas.config.config_values import ConfigValues
from barnabas.config.listeners import inter_broker_listener_name_of, protocol_map_of
from barnabas.config.setting import Settings, computed, setting
from barnabas.metadata.acl_admin import AclAdmin
from barnabas.security.acl.acl_authorizer import AclAuthorizer, parse_super_users
from barnabas.security.principal import USER, Principal
from barnabas.transport.authenticator import ANONYMOUS
from barnabas.zk.kafka_zk_client import KafkaZkClient

logger = logging.getLogger(__name__)

_SUPER_USERS: Final = "super.users"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


def _super_users(config: ConfigValues) -> frozenset[str]:
    try:
        return parse_super_users(config.originals.get(_SUPER_USERS))
    except ValueError as error:
        raise ConfigError(f"Invalid value for configuration {_SUPER_USERS}: {error}", _SUPER_USERS) from error


def _allow_if_none(config: ConfigValues) -> bool:
    return parse_value(_ALLOW_EVERYONE, ConfigType.BOOLEAN, config.originals.get(_ALLOW_EVERYONE, "false")) is True


@dataclass(frozen=True, slots=True)
class AuthorizerConfig(Settings):
    """The settings of the authorizer. class_name: empty without one."""

    class_name: str = setting("authorizer.class.name")
    super_users: frozenset[str] = computed(_super_users)
    allow_if_none: bool = computed(_allow_if_none)


@dataclass(frozen=True, slots=True)
class Authorization:
    """The authorizer, and the keeper of its lists."""

    authorizer: AclAuthorizer
    acls: AclAdmin


def start_authorization(foundations: Foundations, zk_client: KafkaZkClient) -> Authorization | None:
    """Make the authorizer, load its lists and follow their changes; None if the settings ask for none.

    Raises ConfigError: a setting of the authorizer is wrong. Raises ZnodeFormatError: a list cannot be understood.
    """
    settings = AuthorizerConfig.from_kafka_config(foundations.static)
    if not settings.class_name:
        return None
    authorizer = AclAuthorizer(settings.super_users, allow_if_none=settings.allow_if_none)
    acls = AclAdmin(zk_client, authorizer, foundations.scheduler, foundations.clock)
    acls.start()
    foundations.lifecycle.on_stop("access control lists", acls.stop)
    _warn_of_powerless_broker(foundations.static, settings.super_users)
    return Authorization(authorizer, acls)


def _warn_of_powerless_broker(config: ConfigValues, super_users: frozenset[str]) -> None:
    """Log that this broker may be refused by brokers, and by itself: its controller reaches it as any client does."""
    name = inter_broker_listener_name_of(config)
    principal = _principal_of_brokers(config, name)
    if principal is not None and principal not in super_users:
        logger.warning(
            "The controller reaches this broker as %s by listener %s. Unless access control lists allow it "
            "ClusterAction on the cluster, the broker cannot start: name it in %s, and let only brokers reach the "
            "listener",
            principal,
            name,
            _SUPER_USERS,
        )


def _principal_of_brokers(config: ConfigValues, listener_name: str) -> str | None:
    """Return the principal of brokers that connect to a listener. None: it is a certificate's, which differ."""
    protocol = protocol_map_of(config)[listener_name]
    if "SASL" in protocol:
        return str(Principal(USER, broker_login_of(config, listener_name).user.name))
    if protocol == "SSL" and tls_config_of(config, listener_name).client_auth != "none":
        return None
    return ANONYMOUS
