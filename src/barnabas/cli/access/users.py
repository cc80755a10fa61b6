"""`barnabas users`: adds, lists and deletes users that log in by SCRAM. Runs on the main thread.

Kafka: ConfigCommand (kafka-configs.sh --entity-type users --add-config 'SCRAM-SHA-512=[password=...]').
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TextIO

import click

from barnabas.cli.client_options import Connect, admin_options
from barnabas.cli.tables import print_table

if TYPE_CHECKING:
    from barnabas.clients.admin import ScramMechanism

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(_MECHANISMS),
    multiple=True,
    help="The mechanism of the credential; may be given twice.  [default: SCRAM-SHA-512]",
)


@click.group()
def users() -> None:
    """Add, list and delete users that log in by SCRAM.

    The first user is added over the broker's PLAINTEXT listener on its own machine.
    """


@users.command()
@click.argument("name")
@mechanism_option
@click.option("--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True)
@click.option(
    "--password-file", type=click.File(), help="The file whose first line is the password; - is the standard input."
)
@admin_options
def add(
    name: str, mechanisms: tuple[str, ...], iterations: int, password_file: TextIO | None, connect: Connect
) -> None:
    """Add the user NAME, or give it a new password. The password is asked for, or read from a file.

    \b
        barnabas users add alice

    \f
    Raises click.UsageError: the password is empty.
    """
    from barnabas.clients.admin import ScramAlteration

    if password_file is None:
        password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = password_file.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("The password is empty")
    chosen = _chosen(mechanisms)
    with connect() as admin:
        admin.alter_user_scram_credentials([ScramAlteration(name, each, password, iterations) for each in chosen])
    click.echo(f"The user {name} can log in by {', '.join(mechanisms or _MECHANISMS[1:])}")


@users.command("list")
@admin_options
def list_users(connect: Connect) -> None:
    """List the users, and the mechanisms and iterations of their credentials."""
    with connect() as admin:
        found = admin.describe_user_scram_credentials()
    rows = [
        (user, each.mechanism.name.replace("_", "-"), str(each.iterations))
        for user, credentials in sorted(found.items())
        for each in credentials
    ]
    print_table(("user", "mechanism", "iterations"), rows)


@users.command()
@click.argument("name")
@mechanism_option
@admin_options
def delete(name: str, mechanisms: tuple[str, ...], connect: Connect) -> None:
    """Delete the credentials of the user NAME: all, or those of some mechanisms. Open connections live on.

    \f
    Raises click.ClickException: the user has none.
    """
    from barnabas.clients.admin import ScramAlteration

    with connect() as admin:
        if mechanisms:
            chosen = _chosen(mechanisms)
        else:
            chosen = [each.mechanism for each in admin.describe_user_scram_credentials([name]).get(name, ())]
        if not chosen:
            raise click.ClickException(f"The user {name} has no SCRAM credentials")
        admin.alter_user_scram_credentials([ScramAlteration(name, each, None) for each in chosen])
    click.echo(f"The user {name} can no longer log in by {', '.join(_shown(each) for each in chosen)}")


def _chosen(mechanisms: tuple[str, ...]) -> list[ScramMechanism]:
    from barnabas.clients.admin import ScramMechanism

    return [ScramMechanism[each.replace("-", "_")] for each in dict.fromkeys(mechanisms or _MECHANISMS[1:])]


def _shown(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")
