"""`barnabas acls` and the admin client's access control lists, on a broker with the authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.clients.admin import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.testing import BrokerProcess, broker
from tests.support.command_line import Run, run_against

ALICE = "--allow-principal=User:alice"
EVERYTHING = AclBindingFilter()


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer", super_users="User:ANONYMOUS"
    ) as process:
        yield process


@pytest.fixture
def admin(running: BrokerProcess) -> Iterator[Admin]:
    with Admin(running.bootstrap_servers) as client:
        client.delete_acls([EVERYTHING])
        yield client


@pytest.fixture
def run(running: BrokerProcess, admin: Admin) -> Run:
    return run_against(running.bootstrap_servers, "acls")


def entries(admin: Admin) -> list[str]:
    """Every entry in the store, in a few words."""
    return [
        f"{pattern.resource_type.title}:{pattern.name}:{pattern.pattern_type.name} {entry.permission_type.title} "
        f"{entry.operation.title} {entry.principal} {entry.host}"
        for pattern, entry in admin.describe_acls(EVERYTHING)
    ]


def test_a_producer_and_a_consumer(run: Run, admin: Admin) -> None:
    made = run("add", ALICE, "--producer", "--idempotent", "--topic=t", "--transactional-id=x")
    assert made.exit_code == 0, made.output
    assert "\tresource Topic\tname t\tpattern Literal\tprincipal User:alice\thost *\toperation Write" in made.stdout
    producer = [
        *(f"Topic:t:LITERAL Allow {each} User:alice *" for each in ("Write", "Create", "Describe")),
        "Cluster:kafka-cluster:LITERAL Allow IdempotentWrite User:alice *",
        *(f"TransactionalId:x:LITERAL Allow {each} User:alice *" for each in ("Write", "Describe")),
    ]
    assert entries(admin) == producer
    run("add", ALICE, "--consumer", "--topic=t", "--group=g-", "--resource-pattern-type=prefixed")
    assert set(entries(admin)) - set(producer) == {
        "Topic:t:PREFIXED Allow Read User:alice *",
        "Topic:t:PREFIXED Allow Describe User:alice *",
        "Group:g-:PREFIXED Allow Read User:alice *",
    }
    assert len(run("list", "--topic=table", "--resource-pattern-type=match").stdout.splitlines()) == 2
    assert run("list", "--topic=table").stdout == ""
    assert len(run("list", "--principal=User:alice").stdout.splitlines()) == 9
    assert run("list", "--principal=User:bob").stdout == ""


def test_every_kind_of_entry_and_its_removal(run: Run, admin: Admin) -> None:
    resources = ("--topic=*", "--group=g", "--delegation-token=d", "--user-principal=User:u", "--cluster")
    sides = (ALICE, "--allow-host=10.0.0.1", "--allow-host=10.0.0.2", "--deny-principal=User:*")
    assert run("add", *resources, *sides, "--operation=all").exit_code == 0
    assert len(entries(admin)) == len(resources) * 3
    assert "Topic:*:LITERAL Deny All User:* *" in entries(admin)
    assert "User:User:u:LITERAL Allow All User:alice 10.0.0.2" in entries(admin)
    unsure = run("remove", "--cluster")
    assert unsure.exit_code == 1
    assert len(entries(admin)) == len(resources) * 3
    assert run("remove", "--force", *resources, ALICE, "--allow-host=10.0.0.1", "--operation=All").exit_code == 0
    assert len(entries(admin)) == len(resources) * 2
    gone = run("remove", "--force", *resources[1:])
    assert len(gone.stdout.splitlines()) == (len(resources) - 1) * 2
    assert run("add", "--topic=t", ALICE).exit_code == 0
    assert entries(admin)[0] == "Topic:*:LITERAL Deny All User:* *"
    assert "Topic:t:LITERAL Allow All User:alice *" in entries(admin)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", ALICE], "Name a resource"),
        (["add", "--topic=t"], "Name a principal"),
        (["add", "--topic=t", "--allow-principal=alice"], "principalType:principalName"),
        (["add", "--topic=t", ALICE, "--operation=Fly"], "Unknown operation Fly"),
        (["add", "--group=g", ALICE, "--producer"], "--producer needs --topic"),
        (["add", "--topic=t", ALICE, "--consumer"], "--consumer needs --topic and --group"),
        (["add", "--topic=t", ALICE, "--idempotent"], "--idempotent needs --producer"),
        (["add", "--topic=t", ALICE, "--producer", "--operation=Read"], "take neither --operation"),
        (["add", "--topic=t", "--allow-host=h"], "--allow-host needs --allow-principal"),
        (["add", "--topic=t", ALICE, "--resource-pattern-type=any"], "resource-pattern-type"),
        (["remove", "--force"], "Name a resource"),
    ],
)
def test_contradictions_are_refused_before_anything_is_sent(
    run: Run, admin: Admin, arguments: list[str], message: str
) -> None:
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert message in refused.stderr
    assert entries(admin) == []


def test_typed_results(run: Run, admin: Admin) -> None:
    entry = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
    right = AclBinding(ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL), entry)
    wrong = AclBinding(ResourcePattern(ResourceType.CLUSTER, "c", PatternType.LITERAL), entry)
    results = admin.create_acls([right, wrong, right])
    assert results[right] is None
    error = results[wrong]
    assert error is not None
    assert error.code == ErrorCode.INVALID_REQUEST
    assert "kafka-cluster" in error.message
    assert admin.describe_acls(AclBindingFilter(entry=AccessControlEntryFilter("User:alice"))) == [right]
    missing = AclBindingFilter(ResourcePatternFilter(ResourceType.GROUP))
    deleted = admin.delete_acls([missing, EVERYTHING])
    assert deleted[missing] == (None, (), {})
    assert deleted[EVERYTHING] == (None, (right,), {})
    refused = run("add", ALICE, "--topic=t", "--topic=a/b")
    assert refused.exit_code == 1
    assert "Failed to create ACL (INVALID_REQUEST)" in refused.stderr
    assert len(entries(admin)) == 1
