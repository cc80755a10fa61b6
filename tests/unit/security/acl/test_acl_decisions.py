"""The authorizer's decisions: compared with a naive model, written from Kafka's documentation, over random lists."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.api_keys import ApiKey
from barnabas.security.acl import acl_authorizer
from barnabas.security.acl.acl_authorizer import (
    LOGGER_NAME,
    AclAuthorizer,
    host_address,
    parse_super_users,
)
from barnabas.security.acl.acl_binding import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
)
from barnabas.security.acl.acl_codes import (
    RESOURCE_TYPES,
    AclOperation,
    AclPermissionType,
    Action,
    PatternType,
    ResourceType,
)

TOPIC, GROUP, LITERAL, PREFIXED = ResourceType.TOPIC, ResourceType.GROUP, PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
OPERATIONS = [each for each in AclOperation if each not in (AclOperation.UNKNOWN, AclOperation.ANY)]

NAMES = st.text("ab*", min_size=1, max_size=3)
PATTERNS = st.builds(
    ResourcePattern, st.sampled_from([TOPIC, GROUP]), st.just("*") | NAMES, st.sampled_from([LITERAL, PREFIXED])
)
ENTRIES = st.builds(
    AccessControlEntry,
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "*"]),
    st.sampled_from(OPERATIONS),
    st.sampled_from([ALLOW, DENY]),
)
BINDINGS = st.lists(st.builds(AclBinding, PATTERNS, ENTRIES), max_size=12)
SUFFICIENT = {
    DESCRIBE: {DESCRIBE, READ, WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS},
}


def authorizer_of(bindings: list[AclBinding], *, allow_if_none: bool = False, supers: str = "") -> AclAuthorizer:
    authorizer = AclAuthorizer(parse_super_users(supers), allow_if_none=allow_if_none)
    for pattern, entry in bindings:
        authorizer.replace(pattern, authorizer.snapshot.lists.get(pattern, frozenset()) | {entry})
    return authorizer


def client(principal: str = "User:alice", address: str = "10.0.0.1") -> Any:
    return SimpleNamespace(principal=principal, client_address=address)


def may(authorizer: AclAuthorizer, operation: AclOperation, name: str, who: Any = None) -> bool:
    return authorizer.authorize(who or client(), [Action(operation, TOPIC, name)], ApiKey.METADATA)[0]


def is_known(authorizer: AclAuthorizer, operation: AclOperation, name: str) -> bool:
    return authorizer.is_known_to_allow(client(), operation, TOPIC, name)


def model_allows(bindings: list[AclBinding], operation: AclOperation, name: str, *, allow_if_none: bool) -> bool:
    """Kafka's documentation, read literally, for alice at 10.0.0.1 and a topic."""

    def is_about(pattern: ResourcePattern) -> bool:
        if pattern.resource_type is not TOPIC:
            return False
        if pattern.pattern_type is PREFIXED:
            return name.startswith(pattern.name)
        return pattern.name == "*" or pattern.name == name

    entries = [entry for pattern, entry in bindings if is_about(pattern)]
    if not entries:
        return allow_if_none
    mine = [each for each in entries if each.principal != "User:bob" and each.host != "10.0.0.2"]
    if any(each.permission_type is DENY and each.operation in (operation, AclOperation.ALL) for each in mine):
        return False
    enough = SUFFICIENT.get(operation, {operation}) | {AclOperation.ALL}
    return any(each.permission_type is ALLOW and each.operation in enough for each in mine)


@settings(max_examples=400, deadline=None)
@given(BINDINGS, st.sampled_from(OPERATIONS[1:]), NAMES, st.booleans())
def test_decisions_are_those_of_the_documentation(
    bindings: list[AclBinding], operation: AclOperation, name: str, allow_if_none: bool
) -> None:
    authorizer = authorizer_of(bindings, allow_if_none=allow_if_none)
    expected = model_allows(bindings, operation, name, allow_if_none=allow_if_none)
    assert not is_known(authorizer, operation, name), "nothing was asked yet"
    assert [may(authorizer, operation, name) for _ in range(2)] == [expected] * 2, "decided, then from the cache"
    assert is_known(authorizer, operation, name) == expected
    strangers = client("User:alice", "10.0.0.3")
    assert not authorizer.is_known_to_allow(strangers, operation, TOPIC, name), "another host"


@settings(max_examples=300, deadline=None)
@given(BINDINGS, st.sampled_from(OPERATIONS[1:]))
def test_by_resource_type_means_that_some_name_is_allowed(bindings: list[AclBinding], operation: AclOperation) -> None:
    """Kafka's rule looks at entries of this operation and ALL alone, and takes `*` for allowed if `*` is not denied."""
    exact = [each for each in bindings if each.entry.operation in (operation, AclOperation.ALL)]
    patterns = [each.pattern for each in exact if each.pattern.resource_type is TOPIC]
    # Beyond every literal: a name in each prefix that no list names.
    names = [each.name + suffix for each in patterns for suffix in ("", "#")]
    expected = any(model_allows(exact, operation, name, allow_if_none=False) for name in names)
    mine = [each for each in exact if each.entry.principal != "User:bob" and each.entry.host != "10.0.0.2"]
    stars = {each.entry.permission_type for each in mine if each.pattern == ResourcePattern(TOPIC, "*", LITERAL)}
    expected = (expected or ALLOW in stars) and DENY not in stars
    authorizer = authorizer_of(bindings)
    answers = [authorizer.authorize_by_resource_type(client(), operation, TOPIC, ApiKey.METADATA) for _ in range(2)]
    assert answers == [expected] * 2


def test_nothing_is_allowed_without_lists_unless_the_setting_says_so() -> None:
    assert not may(authorizer_of([]), READ, "t")
    assert may(authorizer_of([], allow_if_none=True), READ, "t")
    denied = AclBinding(ResourcePattern(TOPIC, "*", LITERAL), AccessControlEntry("User:alice", "*", WRITE, DENY))
    generous = authorizer_of([denied], allow_if_none=True)
    assert not generous.authorize_by_resource_type(client(), WRITE, TOPIC, ApiKey.INIT_PRODUCER_ID)
    assert generous.authorize_by_resource_type(client("User:bob"), WRITE, TOPIC, ApiKey.INIT_PRODUCER_ID)
    assert generous.authorize_by_resource_type(client(), WRITE, GROUP, ApiKey.INIT_PRODUCER_ID)


def test_super_users_need_no_lists_and_are_not_denied() -> None:
    deny = AclBinding(ResourcePattern(TOPIC, "*", LITERAL), AccessControlEntry("User:*", "*", AclOperation.ALL, DENY))
    authorizer = authorizer_of([deny], supers="User:admin; User:CN=a,O=b")
    for principal in ("User:admin", "User:CN=a,O=b"):
        assert may(authorizer, WRITE, "t", client(principal))
        assert authorizer.is_known_to_allow(client(principal), WRITE, TOPIC, "t")
        assert authorizer.authorize_by_resource_type(client(principal), WRITE, TOPIC, ApiKey.METADATA)
    assert not may(authorizer, WRITE, "t", client("User:Admin"))


@pytest.mark.parametrize("text", ["alice", ":alice", "User:a;bob"])
def test_a_super_user_is_a_type_and_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="expected a string in format principalType:principalName but got"):
        parse_super_users(text)


def test_a_change_takes_effect_at_the_next_question() -> None:
    allow = AclBinding(ResourcePattern(TOPIC, "t", LITERAL), AccessControlEntry("User:alice", "*", READ, ALLOW))
    authorizer = authorizer_of([allow])
    assert may(authorizer, READ, "t")
    authorizer.replace(allow.pattern, frozenset())
    assert not is_known(authorizer, READ, "t")
    assert not may(authorizer, READ, "t")
    assert not is_known(authorizer, READ, "t")
    authorizer.replace_all({allow.pattern: frozenset([allow.entry])})
    assert may(authorizer, READ, "t")


def test_the_cache_of_decisions_is_bounded() -> None:
    allow = AclBinding(ResourcePattern(TOPIC, "t", PREFIXED), AccessControlEntry("User:alice", "*", READ, ALLOW))
    authorizer = authorizer_of([allow])
    snapshot = authorizer.snapshot
    for number in range(acl_authorizer.MAX_DECISIONS + 10):
        assert may(authorizer, READ, f"t{number}")
    assert len(snapshot._decisions) <= acl_authorizer.MAX_DECISIONS


def test_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Denied attempts at INFO, and nothing of what is allowed; at DEBUG both, with the reason. As in Kafka."""
    allow = AclBinding(ResourcePattern(TOPIC, "t", LITERAL), AccessControlEntry("User:alice", "*", READ, ALLOW))
    authorizer = authorizer_of([allow], supers="User:admin")
    actions = [Action(READ, TOPIC, "t"), Action(DESCRIBE, GROUP, "g", 3), Action(WRITE, TOPIC, "t", 1, True, False)]
    with caplog.at_level(logging.INFO, LOGGER_NAME):
        assert authorizer.authorize(client(), actions, ApiKey.FETCH) == [True, False, False]
        authorizer.authorize_by_resource_type(client(), WRITE, TOPIC, ApiKey.INIT_PRODUCER_ID)
    assert [each.getMessage() for each in caplog.records] == [
        (
            "Principal = User:alice is Denied Operation = Describe from host = 10.0.0.1 on resource = Group:LITERAL:g "
            "for request = FETCH with resourceRefCount = 3"
        ),
        (
            "Principal = User:alice is Denied Operation = Write from host = 10.0.0.1 on resource = Topic:UNKNOWN:NONE "
            "for request = INIT_PRODUCER_ID with resourceRefCount = 0"
        ),
    ]
    caplog.clear()
    assert is_known(authorizer, READ, "t")
    with caplog.at_level(logging.DEBUG, LOGGER_NAME):
        assert not is_known(authorizer, READ, "t"), "at DEBUG each permission is logged"
        authorizer.authorize(client(), actions[:2], ApiKey.FETCH)
        authorizer.authorize(client("User:admin"), actions[:1], ApiKey.FETCH)
    resource = "ResourcePattern(resourceType={}, name={}, patternType=LITERAL)"
    assert [each.getMessage() for each in caplog.records] == [
        (
            f"operation = READ on resource = {resource.format('TOPIC', 't')} from host = 10.0.0.1 is ALLOW "
            "based on acl = User:alice has ALLOW permission for operations: READ from hosts: *"
        ),
        (
            "Principal = User:alice is Allowed Operation = Read from host = 10.0.0.1 on resource = Topic:LITERAL:t "
            "for request = FETCH with resourceRefCount = 1"
        ),
        f"No acl found for resource {resource.format('GROUP', 'g')}, authorized = false",
        (
            "Principal = User:alice is Denied Operation = Describe from host = 10.0.0.1 on resource = Group:LITERAL:g "
            "for request = FETCH with resourceRefCount = 3"
        ),
        "principal = User:admin is a super user, allowing operation without checking acls.",
        (
            "Principal = User:admin is Allowed Operation = Read from host = 10.0.0.1 on resource = Topic:LITERAL:t "
            "for request = FETCH with resourceRefCount = 1"
        ),
    ]


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("[fe80::a%eth0]", "fe80:0:0:0:0:0:0:a"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
    ],
)
def test_hosts_are_written_as_java_writes_them(address: str, host: str) -> None:
    assert host_address(address) == host


FILTER_NAMES = st.none() | NAMES


@settings(max_examples=300, deadline=None)
@given(
    st.builds(AclBinding, PATTERNS, ENTRIES), FILTER_NAMES, st.sampled_from(PatternType), st.sampled_from(ResourceType)
)
def test_filters_of_patterns(
    binding: AclBinding, name: str | None, pattern_type: PatternType, resource_type: ResourceType
) -> None:
    pattern = binding.pattern
    selection = ResourcePatternFilter(resource_type, name, pattern_type)
    is_of_type = resource_type in (ResourceType.ANY, pattern.resource_type)
    is_of_pattern = pattern_type in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type)
    same = name is None or name == pattern.name
    if pattern_type is PatternType.MATCH and name is not None:
        same = name.startswith(pattern.name) if pattern.pattern_type is PREFIXED else pattern.name in ("*", name)
    assert selection.matches(pattern) == (is_of_type and is_of_pattern and same)
    assert AclBindingFilter(selection).matches(binding) == selection.matches(pattern)
    only = selection.only_patterns()
    assert all(selection.matches(each) for each in only)
    if only:
        assert selection.matches(pattern) <= (pattern in only), "what the filter selects is among those it names"


def test_filters_of_entries() -> None:
    entry = AccessControlEntry("User:alice", "*", READ, ALLOW)
    assert AccessControlEntryFilter().matches(entry)
    assert AccessControlEntryFilter("User:alice", "*", READ, ALLOW).matches(entry)
    for other in (
        AccessControlEntryFilter("User:*"),
        AccessControlEntryFilter(host="10.0.0.1"),
        AccessControlEntryFilter(operation=AclOperation.ALL),
        AccessControlEntryFilter(permission_type=DENY),
    ):
        assert not other.matches(entry), "a filter selects by the text, and not by the meaning, of an entry"


def test_titles_are_kafkas() -> None:
    titles = ["Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User"]
    assert [each.title for each in RESOURCE_TYPES] == titles
    for text in ("IdempotentWrite", "IDEMPOTENT_WRITE", "idempotentwrite"):
        assert AclOperation.of_text(text) is AclOperation.IDEMPOTENT_WRITE
    assert AclOperation.of_text("Fly") is AclOperation.UNKNOWN
    assert (ResourceType.of_code(7), ResourceType.of_code(8)) == (ResourceType.USER, ResourceType.UNKNOWN)
