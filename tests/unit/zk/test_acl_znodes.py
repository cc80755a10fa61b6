"""The znodes of access control lists: Kafka's paths and texts, writes by version, notices."""

from __future__ import annotations

import pytest

from barnabas.security.acl.acl_binding import AccessControlEntry, ResourcePattern
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.acl_znodes import NO_ACLS, AclChangeZNode, ResourceZNode, VersionedAcls
from barnabas.zk.znodes.znode_json import ZnodeFormatError
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock

LITERAL = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t", PatternType.LITERAL)
PREFIXED = ResourcePattern(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)
READ = AccessControlEntry("User:CN=ä,O=b", "*", AclOperation.READ, AclPermissionType.ALLOW)
DENIED = AccessControlEntry("User:*", "10.0.0.1", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY)


@pytest.fixture
def zk_client() -> KafkaZkClient:
    client = KafkaZkClient(InlineStore(MockClock()).new_session(), MockClock())
    client.acls.make_sure_paths_exist()
    return client


def test_paths_and_texts_are_kafkas() -> None:
    assert ResourceZNode.path(LITERAL) == "/kafka-acl/TransactionalId/t"
    assert ResourceZNode.path(PREFIXED) == "/kafka-acl-extended/prefixed/Topic/orders-"
    text = (
        '{"acls":[{"principal":"User:*","permissionType":"Deny","operation":"DescribeConfigs","host":"10.0.0.1"},'
        '{"principal":"User:CN=ä,O=b","permissionType":"Allow","operation":"Read","host":"*"}],"version":1}'
    )
    assert ResourceZNode.encode([READ, DENIED]) == text.encode()
    assert ResourceZNode.decode(text.encode()) == {READ, DENIED}
    assert ResourceZNode.decode(b"") == frozenset()
    assert AclChangeZNode.encode(LITERAL) == b"TRANSACTIONAL_ID:t"
    notice = b'{"version":1,"resourceType":"TOPIC","name":"orders-","patternType":"PREFIXED"}'
    assert AclChangeZNode.encode(PREFIXED) == notice
    assert AclChangeZNode.decode(b"GROUP:a:b", PatternType.LITERAL) == (ResourceType.GROUP, "a:b", PatternType.LITERAL)
    assert AclChangeZNode.decode(notice, PatternType.PREFIXED) == PREFIXED


def test_all_parents_are_made_once(zk_client: KafkaZkClient) -> None:
    zk_client.acls.make_sure_paths_exist()
    children = zk_client.access.children
    types = ["Cluster", "DelegationToken", "Group", "Topic", "TransactionalId", "User"]
    assert children("/kafka-acl") == children("/kafka-acl-extended/prefixed") == types
    assert zk_client.access.exists("/kafka-acl-changes")
    assert zk_client.access.exists("/kafka-acl-extended-changes")


@pytest.mark.parametrize("pattern", [LITERAL, PREFIXED])
def test_a_write_needs_the_version_and_notifies(zk_client: KafkaZkClient, pattern: ResourcePattern) -> None:
    acls, notices = zk_client.acls, zk_client.acls.notices[pattern.pattern_type]
    assert acls.read(pattern) == NO_ACLS
    assert acls.write(pattern, frozenset(), None) == NO_ACLS
    assert acls.write(pattern, frozenset([READ]), 0) is None, "there is no znode yet"
    assert notices.names() == []
    first, both = frozenset([READ]), frozenset([READ, DENIED])
    assert acls.write(pattern, first, None) == VersionedAcls(first, 0)
    assert acls.write(pattern, both, None) is None, "it exists by now"
    assert acls.write(pattern, both, 0) == VersionedAcls(both, 1)
    assert acls.write(pattern, first, 0) is None
    assert acls.read(pattern) == VersionedAcls(both, 1)
    assert acls.read_all() == {pattern: VersionedAcls(both, 1)}
    assert acls.write(pattern, frozenset(), 0) is None
    assert acls.write(pattern, frozenset(), 1) == NO_ACLS
    assert acls.read_all() == {}
    written = [notices.read(each) for each in notices.names()]
    assert [AclChangeZNode.decode(each.data, pattern.pattern_type) for each in written if each] == [pattern] * 3


def test_an_unknown_type_of_resources_is_left_out(zk_client: KafkaZkClient) -> None:
    zk_client.access.create_recursive("/kafka-acl/Planet/mars", ResourceZNode.encode([READ]))
    zk_client.access.create_recursive("/kafka-acl/Topic/t", ResourceZNode.encode([READ]))
    assert [each.name for each in zk_client.acls.read_all()] == ["t"]


@pytest.mark.parametrize(
    "text",
    [
        '{"acls":[],"version":2}',
        '{"acls":{},"version":1}',
        '{"acls":["x"],"version":1}',
        '{"acls":[{"principal":"alice","permissionType":"Deny","operation":"Read","host":"*"}],"version":1}',
        '{"acls":[{"principal":"User:a","permissionType":"Forbid","operation":"Read","host":"*"}],"version":1}',
        '{"acls":[{"principal":"User:a","permissionType":"Deny","operation":"Fly","host":"*"}],"version":1}',
        '{"acls":[{"principal":"User:a","permissionType":"Deny","operation":"Read"}],"version":1}',
        "no JSON",
    ],
)
def test_a_list_that_is_not_understood_is_no_shorter_list(text: str) -> None:
    with pytest.raises(ZnodeFormatError):
        ResourceZNode.decode(text.encode())
