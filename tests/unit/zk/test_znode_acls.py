"""The access control lists of znodes are those of Apache Kafka's ZkData.defaultAcls."""

from __future__ import annotations

import pytest
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from barnabas.zk.kafka_zk_client import PERSISTENT_PATHS
from barnabas.zk.zookeeper.zookeeper_requests import acls_of


@pytest.mark.parametrize("path", ["/brokers/ids/0", "/controller", "/config", "/config/topics/t", "/consumers/group"])
def test_every_client_reads_what_is_no_secret(path: str) -> None:
    assert acls_of(path, is_secure=True) == [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


@pytest.mark.parametrize(
    "path",
    [
        "/config/users",
        "/config/users/alice",
        "/config/users/a/clients/b",
        "/config/brokers/0",
        "/delegation_token/tokens/x",
    ],
)
def test_secrets_are_for_their_creator(path: str) -> None:
    assert acls_of(path, is_secure=True) == CREATOR_ALL_ACL


def test_without_acls_all_is_open_and_old_consumers_write_with_them() -> None:
    assert all(acls_of(path, is_secure=False) == OPEN_ACL_UNSAFE for path in PERSISTENT_PATHS)
    assert [path for path in PERSISTENT_PATHS if acls_of(path, is_secure=True) == OPEN_ACL_UNSAFE] == ["/consumers"]
