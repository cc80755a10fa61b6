"""`barnabas configs`: show and change the settings of topics and brokers, and the log levels of brokers.

Runs on the main thread. Prints one setting on each line, tab-separated, on a terminal and into a pipe.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import Connect, admin_options, option_stack
from barnabas.cli.option_types import NUMBER

if TYPE_CHECKING:
    from barnabas.clients.admin import ConfigChange, ConfigResource

SOURCES = {1: "topic", 2: "broker, dynamic", 3: "all brokers, dynamic", 4: "broker", 5: "default", 6: "logger"}
# The sign before `=` belongs to the operator, so the name is matched as short as possible.
CHANGE = re.compile(r"(?P<name>[^=]+?)(?P<operation>[+-]?)=(?P<value>.*)", re.DOTALL)


@click.group()
def configs() -> None:
    """Show and change settings of topics and brokers."""


_resource_options = option_stack(
    click.option("-t", "--topic", metavar="NAME", help="A topic's settings."),
    click.option("--broker", type=NUMBER, metavar="ID", help="A broker's settings."),
    click.option("--all-brokers", is_flag=True, help="Settings of all brokers that have no value of their own."),
    click.option("--loggers", type=NUMBER, metavar="ID", help="The log levels of a broker."),
)


def _resource(topic: str | None, broker: int | None, all_brokers: bool, loggers: int | None) -> ConfigResource:
    """Return the resource that the options name. Raises click.UsageError unless it is exactly one."""
    from barnabas.clients.admin import ConfigResource

    found = []
    if topic is not None:
        found.append(ConfigResource.topic(topic))
    if broker is not None:
        found.append(ConfigResource.broker(broker))
    if all_brokers:
        found.append(ConfigResource.all_brokers())
    if loggers is not None:
        found.append(ConfigResource.broker_loggers(loggers))
    if len(found) != 1:
        raise click.UsageError("say whose settings to use: --topic NAME, --broker ID, --all-brokers or --loggers ID")
    return found[0]


validate_option = click.option("--validate-only", is_flag=True, help="Check the change without making it.")


@configs.command()
@click.argument("names", metavar="[SETTING...]", nargs=-1)
@_resource_options
@admin_options
@click.option("--all", "show_all", is_flag=True, help="Show settings at their defaults too.")
def get(names: tuple[str, ...], connect: Connect, show_all: bool, **whose: Any) -> None:
    """Show settings, each with the source of its value: the named ones, or all that were set.

    \b
        barnabas configs get --topic flights retention.ms cleanup.policy
        barnabas configs get --broker 0

    \f
    Raises ValueError for a setting that does not exist.
    """
    from barnabas.protocol.codes import ConfigSource

    resource = _resource(**whose)
    # A topic's own settings are those of the topic alone: the broker's would be the same for every topic.
    own = {ConfigSource.TOPIC} if whose["topic"] is not None else set(ConfigSource) - {ConfigSource.DEFAULT}
    with connect() as admin:
        entries = admin.describe_configs(resource, names or None)
        unknown = [name for name in names if name not in entries]
        if unknown:
            raise ValueError(f"no such setting: {', '.join(unknown)}")
        for name in names or sorted(entries):
            entry = entries[name]
            if names or show_all or entry.source in own:
                value = "[hidden]" if entry.is_sensitive else entry.value or ""
                click.echo(f"{name}={value}\t{SOURCES.get(entry.source, 'unknown')}")


@configs.command("set")
@click.argument("changes", metavar="SETTING=VALUE...", nargs=-1, required=True)
@_resource_options
@admin_options
@validate_option
def set_(changes: tuple[str, ...], connect: Connect, validate_only: bool, **whose: Any) -> None:
    """Change settings, with immediate effect. SETTING+=ITEM adds to a list, SETTING-=ITEM removes from one.

    \b
        barnabas configs set --topic flights retention.ms=86400000 cleanup.policy+=compact
        barnabas configs set --all-brokers num.io.threads=16
        barnabas configs set --loggers 0 barnabas.network.processor=DEBUG
    """
    _change(_resource(**whose), [_parsed(text) for text in changes], connect, validate_only)


@configs.command()
@click.argument("names", metavar="SETTING...", nargs=-1, required=True)
@_resource_options
@admin_options
@validate_option
def unset(names: tuple[str, ...], connect: Connect, validate_only: bool, **whose: Any) -> None:
    """Remove settings, so that their defaults apply again.

    \b
        barnabas configs unset --topic flights retention.ms
    """
    from barnabas.clients.admin import ConfigChange, ConfigOperation

    changes = [ConfigChange(name, ConfigOperation.DELETE) for name in names]
    _change(_resource(**whose), changes, connect, validate_only)


def _parsed(text: str) -> ConfigChange:
    """Return the change that an argument asks for. Raises click.UsageError."""
    from barnabas.clients.admin import ConfigChange, ConfigOperation

    operations = {"": ConfigOperation.SET, "+": ConfigOperation.APPEND, "-": ConfigOperation.SUBTRACT}
    match = CHANGE.fullmatch(text)
    if match is None:
        raise click.UsageError(f"expected SETTING=VALUE, SETTING+=ITEM or SETTING-=ITEM, not {text!r}")
    return ConfigChange(match["name"], operations[match["operation"]], match["value"])


def _change(resource: ConfigResource, changes: list[ConfigChange], connect: Connect, validate_only: bool) -> None:
    with connect() as admin:
        admin.incremental_alter_configs(resource, changes, validate_only=validate_only)
        click.echo(f"{_shown(resource)} {'could be changed' if validate_only else 'changed'}")
        for change in changes:
            # Kafka accepts all its settings. Of those without an effect here, the user learns at once.
            if (why := _why_nothing_acts(resource, change.name)) is not None:
                click.echo(f"{change.name}: a Barnabas broker keeps it, and nothing acts on it: {why}", err=True)


def _why_nothing_acts(resource: ConfigResource, name: str) -> str | None:
    from barnabas.config.kept_settings import KEPT_TOPIC_KEYS, why_nothing_acts
    from barnabas.protocol.codes import ConfigResourceType

    if resource.type is ConfigResourceType.TOPIC:
        return KEPT_TOPIC_KEYS.get(name)
    return why_nothing_acts(name) if resource.type is ConfigResourceType.BROKER else None


def _shown(resource: ConfigResource) -> str:
    from barnabas.protocol.codes import ConfigResourceType

    kinds = {ConfigResourceType.BROKER: "broker ", ConfigResourceType.BROKER_LOGGER: "loggers of broker "}
    return kinds.get(resource.type, "") + resource.name if resource.name else "all brokers"
