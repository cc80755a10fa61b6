"""`barnabas quotas`: limits the rates of users, clients and addresses. Runs on the main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import Connect, admin_options, option_stack, parse_pairs

if TYPE_CHECKING:
    from barnabas.clients.admin import QuotaEntity


@click.group()
def quotas() -> None:
    """Limit the rates of users, clients and addresses.

    The names are Kafka's: producer_byte_rate and consumer_byte_rate (bytes a second, at each broker),
    request_percentage (of a thread's time), controller_mutation_rate (partitions created and deleted a second); for
    an address connection_creation_rate.
    """


_entity_options = option_stack(
    click.option("--user", metavar="NAME", help="This user."),
    click.option("--user-default", is_flag=True, help="All users without a quota of their own."),
    click.option("--client-id", metavar="NAME", help="This client id; together with a user, only that user's client."),
    click.option("--client-id-default", is_flag=True, help="All client ids without a quota of their own."),
    click.option("--ip", metavar="ADDRESS", help="This address or host name."),
    click.option("--ip-default", is_flag=True, help="All addresses without a quota of their own."),
)


def _entity(options: dict[str, Any]) -> QuotaEntity:
    """Return the entity that the options name. Raises click.UsageError."""
    from barnabas.clients.admin import DEFAULT, QuotaEntity

    names = []
    for kind in ("user", "client_id", "ip"):
        name, is_default = options.pop(kind), options.pop(f"{kind}_default")
        if name is not None and is_default:
            option = kind.replace("_", "-")
            raise click.UsageError(f"--{option} or --{option}-default, not both")
        names.append(DEFAULT if is_default else name)
    return QuotaEntity(*names)


@quotas.command()
@_entity_options
@admin_options
@click.option("--strict", is_flag=True, help="Leave out narrower entities, such as a user's clients.")
def get(connect: Connect, strict: bool, **options: Any) -> None:
    """Show quotas, each with its user, client id or address.

    \b
        barnabas quotas get
        barnabas quotas get --user anna
    """
    entity = _entity(options)
    with connect() as admin:
        found = admin.describe_client_quotas(entity, strict=strict)
    for whose, values in sorted(found.items(), key=lambda item: str(item[0])):
        shown = "\t".join(f"{name}={_number(value)}" for name, value in sorted(values.items()))
        click.echo(f"{whose}\t{shown}")


@quotas.command("set")
@click.argument("values", metavar="NAME=NUMBER...", nargs=-1, required=True)
@_entity_options
@admin_options
@click.option("--validate-only", is_flag=True, help="Check the change without making it.")
def set_(values: tuple[str, ...], connect: Connect, validate_only: bool, **options: Any) -> None:
    """Set quotas, with immediate effect.

    \b
        barnabas quotas set producer_byte_rate=1048576 --client-id import
        barnabas quotas set request_percentage=50 --user anna --client-id-default
        barnabas quotas set connection_creation_rate=10 --ip-default

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    wanted: dict[str, float | None] = {}
    for name, text in parse_pairs(values, "a quota").items():
        try:
            wanted[name] = float(text)
        except ValueError:
            raise click.UsageError(f"{name} takes a number, not {text!r}") from None
    _change(_entity(options), wanted, connect, validate_only)


@quotas.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@_entity_options
@admin_options
@click.option("--validate-only", is_flag=True, help="Check the change without making it.")
def unset(names: tuple[str, ...], connect: Connect, validate_only: bool, **options: Any) -> None:
    """Remove quotas.

    \b
        barnabas quotas unset producer_byte_rate consumer_byte_rate --client-id import
    """
    _change(_entity(options), dict.fromkeys(names), connect, validate_only)


def _change(entity: QuotaEntity, values: dict[str, float | None], connect: Connect, validate_only: bool) -> None:
    """Set quotas of the entity, and remove those whose value is None. Raises click.UsageError without an entity."""
    if not any(entity):
        raise click.UsageError("say whose quotas to change: --user, --client-id or --ip")
    with connect() as admin:
        admin.alter_client_quotas({entity: values}, validate_only=validate_only)
        click.echo(f"{entity} {'could be changed' if validate_only else 'changed'}")


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)
