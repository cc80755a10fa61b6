"""`barnabas acls`: adds, lists and removes entries of access control lists. Runs on the main thread.

The options are those of Kafka's tool, with the same meaning. Kafka: AclCommand (kafka-acls.sh).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from barnabas.cli.client_options import Connect, Option, admin_options, fail, option_stack
from barnabas.cli.tables import print_table
from barnabas.security.acl.acl_binding import (
    ANY_HOST,
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
    parse_principal,
)
from barnabas.security.acl.acl_codes import (
    SUPPORTED_OPERATIONS,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)

CLUSTER: Final = "kafka-cluster"
OF_PRODUCERS: Final = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
OF_TRANSACTIONS: Final = (AclOperation.WRITE, AclOperation.DESCRIBE)
OF_CONSUMERS: Final = (AclOperation.READ, AclOperation.DESCRIBE)

Wanted = dict[ResourcePatternFilter, set[AccessControlEntry]]
"""The entries that the options ask for, by the resources they are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that name resources and entries, as given."""

    topic: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    transactional_id: tuple[str, ...] = ()
    delegation_token: tuple[str, ...] = ()
    user_principal: tuple[str, ...] = ()
    cluster: bool = False
    resource_pattern_type: str = "literal"
    allow_principal: tuple[str, ...] = ()
    deny_principal: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    deny_host: tuple[str, ...] = ()
    operation: tuple[str, ...] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False


_resource_options = option_stack(
    click.option("--topic", metavar="NAME", multiple=True, help="A topic, or * for all."),
    click.option("--group", metavar="ID", multiple=True, help="A consumer group, or * for all."),
    click.option("--transactional-id", metavar="ID", multiple=True, help="A transactional id, or * for all."),
    click.option("--delegation-token", metavar="ID", multiple=True, help="A delegation token, or * for all."),
    click.option("--user-principal", metavar="TYPE:NAME", multiple=True, help="A user for whom tokens are made."),
    click.option("--cluster", is_flag=True, help="The cluster."),
)
_entry_options = option_stack(
    click.option("--allow-principal", metavar="TYPE:NAME", multiple=True, help="Allow this principal; User:* is all."),
    click.option("--deny-principal", metavar="TYPE:NAME", multiple=True, help="Deny this principal."),
    click.option("--allow-host", metavar="ADDRESS", multiple=True, help="Allow from here only. [default: *]"),
    click.option("--deny-host", metavar="ADDRESS", multiple=True, help="Deny from here only. [default: *]"),
    click.option("--operation", metavar="NAME", multiple=True, help="What to allow or deny. [default: All]"),
    click.option("--producer", is_flag=True, help="Write, Describe and Create of --topic."),
    click.option("--consumer", is_flag=True, help="Read and Describe of --topic, Read of --group."),
    click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite of the cluster, too."),
)


def _pattern_option(*choices: str) -> Option:
    return click.option(
        "--resource-pattern-type",
        type=click.Choice(choices, case_sensitive=False),
        default="literal",
        show_default=True,
        help="How names stand for resources.",
    )


@click.group()
def acls() -> None:
    """Say which principals may do what to topics, groups and the cluster.

    The broker needs authorizer.class.name. What no entry allows is denied; an entry that denies wins.
    """


@acls.command()
@_resource_options
@_pattern_option("literal", "prefixed")
@_entry_options
@admin_options
def add(connect: Connect, **given: Any) -> None:
    """Add entries, and print them.

    \b
        barnabas acls add --allow-principal User:alice --producer --topic orders
        barnabas acls add --deny-principal User:* --deny-host 10.0.0.9 --operation Read --topic '*'

    \f
    Raises click.UsageError: no principal is named.
    """
    wanted = wanted_entries(Options(**given))
    if not any(wanted.values()):
        raise click.UsageError("Name a principal: --allow-principal or --deny-principal")
    bindings = [
        AclBinding(ResourcePattern(selection.resource_type, selection.name or "", selection.pattern_type), entry)
        for selection, entries in wanted.items()
        for entry in sorted(entries)
    ]
    with connect() as admin:
        results = admin.create_acls(bindings)
    _print(binding for binding, error in results.items() if error is None)
    for binding, error in results.items():
        if error is not None:
            click.echo(f"{binding.pattern}: {error.message} ({error.code.name})", err=True)
    if any(results.values()):
        fail("not every entry was added")


@acls.command("list")
@_resource_options
@_pattern_option("any", "match", "literal", "prefixed")
@click.option("--principal", "principals", metavar="TYPE:NAME", multiple=True, help="Only entries of this principal.")
@admin_options
def list_acls(connect: Connect, principals: tuple[str, ...], **given: Any) -> None:
    """Show entries: all, or those about these resources.

    \b
        barnabas acls list --topic orders --resource-pattern-type match
    """
    options = Options(**given)
    patterns = named_resources(options) or [ResourcePatternFilter()]
    entries = [AccessControlEntryFilter(_principal(each)) for each in principals] or [AccessControlEntryFilter()]
    filters = [AclBindingFilter(pattern, entry) for pattern in patterns for entry in entries]
    with connect() as admin:
        found = {binding for selection in filters for binding in admin.describe_acls(selection)}
    _print(sorted(found))


@acls.command()
@_resource_options
@_pattern_option("any", "match", "literal", "prefixed")
@_entry_options
@click.option("--force", is_flag=True, help="Do not ask.")
@admin_options
def remove(connect: Connect, force: bool, **given: Any) -> None:
    """Remove entries, and print them. Without a principal: all entries of these resources."""
    wanted = wanted_entries(Options(**given))
    filters: list[AclBindingFilter] = []
    for selection, entries in wanted.items():
        chosen = [AccessControlEntryFilter(*each) for each in sorted(entries)] or [AccessControlEntryFilter()]
        filters += [AclBindingFilter(selection, each) for each in chosen]
    if not force:
        click.confirm(f"Remove what {len(filters)} filters select?", abort=True, err=True)
    with connect() as admin:
        results = admin.delete_acls(filters)
    _print(binding for result in results.values() for binding in result.acls)
    errors = [error for result in results.values() for error in (result.error, *result.failures.values()) if error]
    for error in errors:
        click.echo(f"{error.message} ({error.code.name})", err=True)
    if errors:
        fail("not every entry was removed")


# -- the meaning of the options


def wanted_entries(options: Options) -> Wanted:
    """Return the entries that the options ask for, by resource; no entries without a principal.

    Raises click.UsageError: the options contradict one another.
    """
    _check(options)
    resources = named_resources(options)
    if not resources:
        raise click.UsageError("Name a resource: --topic, --group, --transactional-id, --cluster, ...")
    wanted: Wanted = {}

    def add_entries(kind: ResourceType, operations: Iterable[AclOperation]) -> None:
        for each in resources:
            if each.resource_type is kind:
                wanted.setdefault(each, set()).update(_entries(options, operations))

    if options.producer:
        add_entries(ResourceType.TOPIC, OF_PRODUCERS)
        add_entries(ResourceType.TRANSACTIONAL_ID, OF_TRANSACTIONS)
        if options.idempotent:
            cluster = ResourcePatternFilter(ResourceType.CLUSTER, CLUSTER, PatternType.LITERAL)
            wanted.setdefault(cluster, set()).update(_entries(options, [AclOperation.IDEMPOTENT_WRITE]))
    if options.consumer:
        add_entries(ResourceType.TOPIC, OF_CONSUMERS)
        add_entries(ResourceType.GROUP, [AclOperation.READ])
    if not options.producer and not options.consumer:
        operations = [_operation(each) for each in options.operation] or [AclOperation.ALL]
        for each in resources:
            wanted.setdefault(each, set()).update(_entries(options, operations))
    _check_operations(wanted)
    return wanted


def named_resources(options: Options) -> list[ResourcePatternFilter]:
    """Return the resources that the options name; none if they name none."""
    pattern_type = _pattern_type(options)
    names: Sequence[tuple[ResourceType, tuple[str, ...]]] = (
        (ResourceType.TOPIC, options.topic),
        (ResourceType.GROUP, options.group),
        (ResourceType.TRANSACTIONAL_ID, options.transactional_id),
        (ResourceType.DELEGATION_TOKEN, options.delegation_token),
        (ResourceType.USER, options.user_principal),
    )
    found = [
        # As in Kafka's tool, a transactional id may begin or end with a space.
        ResourcePatternFilter(kind, name if kind is ResourceType.TRANSACTIONAL_ID else name.strip(), pattern_type)
        for kind, given in names
        for name in given
    ]
    if options.cluster:
        found.append(ResourcePatternFilter(ResourceType.CLUSTER, CLUSTER, PatternType.LITERAL))
    return list(dict.fromkeys(found))


def _check(options: Options) -> None:
    if options.idempotent and not options.producer:
        raise click.UsageError("--idempotent needs --producer")
    if options.producer and not options.topic:
        raise click.UsageError("--producer needs --topic")
    if options.consumer and not (options.topic and options.group):
        raise click.UsageError("--consumer needs --topic and --group")
    if options.consumer and not options.producer and (options.cluster or options.transactional_id):
        raise click.UsageError("--consumer takes neither --cluster nor --transactional-id")
    if (options.producer or options.consumer) and (options.operation or options.deny_principal or options.deny_host):
        raise click.UsageError("--producer and --consumer take neither --operation, --deny-principal nor --deny-host")
    for hosts, principals, what in (
        (options.allow_host, options.allow_principal, "allow"),
        (options.deny_host, options.deny_principal, "deny"),
    ):
        if hosts and not principals:
            raise click.UsageError(f"--{what}-host needs --{what}-principal")


def _check_operations(wanted: Wanted) -> None:
    """Check that the operations exist for the resources. Raises click.UsageError: the entry would never apply."""
    for resource, entries in wanted.items():
        supported = (*SUPPORTED_OPERATIONS[resource.resource_type], AclOperation.ALL)
        for entry in entries:
            if entry.operation not in supported:
                kind, known = resource.resource_type.title, ", ".join(each.title for each in supported)
                raise click.UsageError(f"--operation {entry.operation.title}: the operations of {kind} are {known}")


def _entries(options: Options, operations: Iterable[AclOperation]) -> set[AccessControlEntry]:
    sides = (
        (options.allow_principal, options.allow_host, AclPermissionType.ALLOW),
        (options.deny_principal, options.deny_host, AclPermissionType.DENY),
    )
    wanted = list(operations)
    return {
        AccessControlEntry(_principal(principal), host.strip(), operation, permission)
        for principals, hosts, permission in sides
        for principal in principals
        for host in hosts or (ANY_HOST,)
        for operation in wanted
    }


def _pattern_type(options: Options) -> PatternType:
    return PatternType.of_text(options.resource_pattern_type)


def _principal(text: str) -> str:
    try:
        return parse_principal(text.strip())
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _operation(text: str) -> AclOperation:
    operation = AclOperation.of_text(text.strip())
    if operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        known = ", ".join(each.title for each in AclOperation if each not in (AclOperation.UNKNOWN, AclOperation.ANY))
        raise click.UsageError(f"Unknown operation {text}; the operations are {known}")
    return operation


def _print(found: Iterable[AclBinding]) -> None:
    rows = [
        (
            pattern.resource_type.title,
            pattern.name,
            pattern.pattern_type.title,
            entry.principal,
            entry.host,
            entry.operation.title,
            entry.permission_type.title,
        )
        for pattern, entry in found
    ]
    print_table(("resource", "name", "pattern", "principal", "host", "operation", "permission"), rows)
