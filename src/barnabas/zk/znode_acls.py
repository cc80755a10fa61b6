"""The access control lists of znodes, by path: those of Apache Kafka.

Used by `zk.zookeeper_requests` for every znode that is created. A pure function.

With `zookeeper.set.acl=true` a znode belongs to the users of the session that creates it (by login, or by the
certificate of a TLS connection), and every client may read it, unless it has secrets: passwords of users and key
stores, tokens. ZooKeeper refuses to create such a znode for a session without a user. `/consumers` stays open, since
old consumers wrote there. Lists are set when a znode is created, and never changed: znodes of an older cluster are
given theirs by Kafka's zookeeper-security-migration.

Kafka: ZkData.defaultAcls.
"""

from __future__ import annotations

from typing import Final

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from barnabas.zk.config_zk_data import ConfigEntityType, ConfigEntityTypeZNode
from barnabas.zk.token_zk_data import DelegationTokensZNode

SENSITIVE_PATHS: Final = (
    ConfigEntityTypeZNode.path(ConfigEntityType.USER),
    ConfigEntityTypeZNode.path(ConfigEntityType.BROKER),
    DelegationTokensZNode.path,
)
"""Znodes whose path begins with one of these are for the brokers alone."""
_OPEN_PATH: Final = "/consumers"


def acls_of(path: str, *, is_secure: bool) -> list[ACL]:
    """Return the access control list of a new znode. path: without the chroot."""
    if not is_secure or path == _OPEN_PATH:
        return list(OPEN_ACL_UNSAFE)
    if path.startswith(SENSITIVE_PATHS):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
