"""`barnabas topics alter` and `elect-leaders`: adds partitions, changes leaders. Runs on the main thread."""

from __future__ import annotations

import click

from barnabas.cli.client_options import EXIT_FAILED, Connect, admin_options, partitions_of
from barnabas.cli.option_types import COUNT, NUMBER


@click.command()
@click.argument("name")
@admin_options
@click.option("--partitions", type=COUNT, required=True, help="The new total number of partitions.")
@click.option(
    "--assign",
    metavar="ID[,ID...]",
    multiple=True,
    help="The brokers of a new partition, the preferred leader first. Once for each new partition, or not at all.",
)
@click.option("--validate-only", is_flag=True, help="Check the change without making it.")
def alter(name: str, connect: Connect, partitions: int, assign: tuple[str, ...], validate_only: bool) -> None:
    """Add partitions to a topic. The number of partitions can never be lowered.

    Records stay in their partitions, but new records of a key may go to another partition than before.

    \b
        barnabas topics alter flights --partitions 8
        barnabas topics alter flights --partitions 3 --assign 1,2 --validate-only
    """
    from barnabas.clients.admin import NewPartitions

    assignments = [parse_broker_ids(text, "--assign") for text in assign]
    with connect() as admin:
        admin.create_partitions({name: NewPartitions(partitions, assignments)}, validate_only=validate_only)
        click.echo(f"{name} {'could have' if validate_only else 'has'} {partitions} partitions")


@click.command("elect-leaders")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@admin_options
@click.option("--partition", "indexes", type=NUMBER, multiple=True, help="Only this partition (repeatable).")
@click.option(
    "--unclean",
    is_flag=True,
    help="Where no in-sync replica is alive, elect one that is out of sync: records may be lost.",
)
@click.pass_context
def elect_leaders(
    context: click.Context, names: tuple[str, ...], connect: Connect, indexes: tuple[int, ...], unclean: bool
) -> None:
    """Make the first replica of each partition its leader again, of these topics or of all.

    Prints the partitions whose leader changed. The exit status is 1 when an election failed.

    \b
        barnabas topics elect-leaders
        barnabas topics elect-leaders flights --partition 3 --unclean

    \f
    Raises click.UsageError for options that do not go together, or a wrong value.
    """
    from barnabas.clients.admin import ElectionType

    if not names and (indexes or unclean):
        raise click.UsageError("--partition and --unclean need the name of a topic")
    with connect() as admin:
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        results = admin.elect_leaders(election, partitions_of(admin, names, indexes) if names else None)
    for place, error in sorted(results.items()):
        if error is None:
            click.echo(f"{place.topic}\tpartition {place.partition}\tleader elected")
        else:
            click.echo(f"barnabas: {place.topic}-{place.partition}: {error.message} ({error.code.name})", err=True)
    if not results:
        click.echo("no election was needed")
    if any(results.values()):
        context.exit(EXIT_FAILED)


def parse_broker_ids(text: str, option: str) -> list[int]:
    """Return `1,2,3` as numbers. Raises click.UsageError for any other text."""
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise click.UsageError(f"{option} takes broker ids separated by commas, not {text!r}")
    return [int(word) for word in words]
