"""`barnabas tokens`: creates, renews, expires and shows delegation tokens. Runs on the main thread.

Kafka: DelegationTokenCommand (kafka-delegation-tokens.sh).
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.client_options import Connect, admin_options
from barnabas.cli.option_types import OFFSET, utc_time
from barnabas.cli.tables import print_table

if TYPE_CHECKING:
    from barnabas.clients.admin import DelegationToken

_BROKERS_CHOICE: Final = -1
"""A period or lifetime that the broker is to choose."""
_AT_ONCE: Final = -1


@click.group()
def tokens() -> None:
    """Let programs log in as a user by a token, without the user's password.

    A client asks for a token over a connection with a password or a certificate (SASL, or TLS with a client
    certificate). Programs then log in with SCRAM: the token's id is the user name, its HMAC the password.
    """


@tokens.command()
@click.option("--owner", metavar="TYPE:NAME", help="Log in as this principal, such as User:alice, and not as yours.")
@click.option(
    "--renewer",
    "renewers",
    metavar="TYPE:NAME",
    multiple=True,
    help="This principal may also renew and expire the token.",
)
@click.option("--max-lifetime-ms", type=OFFSET, default=None, help="No renewal goes beyond it. [default: the broker's]")
@admin_options
def create(owner: str | None, renewers: tuple[str, ...], max_lifetime_ms: int | None, connect: Connect) -> None:
    """Create a token, and print its id and its HMAC. Whoever has the HMAC can log in: keep it secret.

    \b
        barnabas tokens create --renewer User:scheduler
    """
    lifetime_ms = _BROKERS_CHOICE if max_lifetime_ms is None else max_lifetime_ms
    with connect() as admin:
        token = admin.create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=lifetime_ms)
    _print([token])


@tokens.command()
@click.option("--owner", "owners", metavar="TYPE:NAME", multiple=True, help="Only tokens that this principal has.")
@admin_options
def describe(owners: tuple[str, ...], connect: Connect) -> None:
    """Show tokens with their HMACs: yours, and others that you may describe."""
    with connect() as admin:
        found = admin.describe_delegation_tokens(owners or None)
    _print(found)


@tokens.command()
@click.argument("hmac")
@click.option("--period-ms", type=OFFSET, default=None, help="For how long from now. [default: the broker's period]")
@admin_options
def renew(hmac: str, period_ms: int | None, connect: Connect) -> None:
    """Let a token live for another period."""
    secret = _decoded(hmac)
    period = _BROKERS_CHOICE if period_ms is None else period_ms
    with connect() as admin:
        _print_expiry(admin.renew_delegation_token(secret, period))


@tokens.command()
@click.argument("hmac")
@click.option("--period-ms", type=OFFSET, default=None, help="After how long from now. [default: at once]")
@admin_options
def expire(hmac: str, period_ms: int | None, connect: Connect) -> None:
    """End a token: nobody logs in by it any more. Open connections close when it would have ended otherwise."""
    secret = _decoded(hmac)
    period = _AT_ONCE if period_ms is None else period_ms
    with connect() as admin:
        _print_expiry(admin.expire_delegation_token(secret, period))


def _print_expiry(timestamp_ms: int) -> None:
    click.echo(f"The token expires at {utc_time(timestamp_ms)}")


def _decoded(hmac: str) -> bytes:
    """Return the bytes of an HMAC as printed. Raises click.UsageError, without the value, which is a secret."""
    try:
        return base64.b64decode(hmac, validate=True)
    except (binascii.Error, ValueError):
        raise click.UsageError("HMAC takes the base64 text that `barnabas tokens create` printed") from None


def _print(found: list[DelegationToken]) -> None:
    rows = [
        (
            token.information.token_id,
            token.password,
            token.information.owner,
            token.information.requester,
            ",".join(token.information.renewers) or "-",
            utc_time(token.information.issue_timestamp_ms),
            utc_time(token.information.expiry_timestamp_ms),
            utc_time(token.information.max_timestamp_ms),
        )
        for token in found
    ]
    print_table(("token id", "hmac", "owner", "requester", "renewers", "issued", "expires", "ends"), rows)
