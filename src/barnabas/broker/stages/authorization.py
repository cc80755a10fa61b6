"""The authorizer of a broker, made of its settings, with the lists in the store.

Called by BrokerServer on the main thread, between the opening of the store and the binding of sockets: no request is
answered before all lists are loaded. A broker without an authorizer imports nothing of the lists. Kafka: the part of
KafkaServer.startup about the authorizer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.foundations import Foundations
from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import ConfigType, parse_value
from barnabas.config.config_values import ConfigValues
from barnabas.config.setting import Settings, computed, setting
from barnabas.zk.kafka_zk_client import KafkaZkClient

if TYPE_CHECKING:
    from barnabas.metadata.acl_admin import AclAdmin
    from barnabas.security.acl.acl_authorizer import AclAuthorizer

authorizer_logger = logging.getLogger("kafka.authorizer.logger")
if authorizer_logger.level == logging.NOTSET:
    authorizer_logger.setLevel(logging.INFO)  # as Kafka ships it: not with everything else at DEBUG

_SUPER_USERS: Final = "super.users"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


def _super_users(config: ConfigValues) -> frozenset[str]:
    text = config.originals.get(_SUPER_USERS)
    if not text:
        return frozenset()
    from barnabas.security.acl.acl_authorizer import parse_super_users

    try:
        return parse_super_users(text)
    except ValueError as error:
        raise ConfigError(f"Invalid value for configuration {_SUPER_USERS}: {error}", _SUPER_USERS) from error


def _allow_if_none(config: ConfigValues) -> bool:
    return parse_value(_ALLOW_EVERYONE, ConfigType.BOOLEAN, config.originals.get(_ALLOW_EVERYONE, "false")) is True


class AuthorizerConfig(Settings):
    """The settings of the authorizer. class_name: empty without one."""

    class_name: str = setting("authorizer.class.name")
    super_users: frozenset[str] = computed(_super_users)
    allow_if_none: bool = computed(_allow_if_none)


class Authorization(NamedTuple):
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
    from barnabas.metadata.acl_admin import AclAdmin
    from barnabas.security.acl.acl_authorizer import AclAuthorizer

    authorizer = AclAuthorizer(settings.super_users, allow_if_none=settings.allow_if_none)
    acls = AclAdmin(zk_client, authorizer, foundations.scheduler, foundations.clock)
    acls.start()
    foundations.lifecycle.on_stop("access control lists", acls.stop)
    return Authorization(authorizer, acls)
