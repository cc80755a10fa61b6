"""`barnabas configs`: show and change the settings of topics; show those of brokers.

Runs on the main thread. One setting a line, tab-separated, for a terminal as for a pipe.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import bootstrap_option, friendly_errors, timeout_option

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin, ConfigChange, ConfigResource

SOURCES = {1: "topic", 2: "broker, dynamic", 3: "all brokers, dynamic", 4: "broker", 5: "default"}
CHANGE = re.compile(r"(?P<name>[^=]+?)(?P<operation>[+-]?)=(?P<value>.*)", re.DOTALL)


@click.group()
def configs() -> None:
    """Show and change settings of topics and brokers."""


def _admin(bootstrap_servers: str, timeout_seconds: float) -> Admin:
    from barnabas.clients.admin import Admin

    timeout_ms = int(timeout_seconds * 1000)
    return Admin(bootstrap_servers, timeout_ms=timeout_ms, request_timeout_ms=timeout_ms)


def _resource(topic: str | None, broker: int | None) -> ConfigResource:
    from barnabas.clients.admin import ConfigResource

    if topic is not None and broker is None:
        return ConfigResource.topic(topic)
    if broker is not None and topic is None:
        return ConfigResource.broker(broker)
    raise click.UsageError("say whose settings: --topic NAME or --broker ID")


topic_option = click.option("-t", "--topic", metavar="NAME", help="A topic's settings.")
broker_option = click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="A broker's settings.")
validate_option = click.option("--validate-only", is_flag=True, help="Only say whether it could be done.")


@configs.command()
@click.argument("names", metavar="[SETTING...]", nargs=-1)
@topic_option
@broker_option
@bootstrap_option
@timeout_option
@click.option("--all", "show_all", is_flag=True, help="Those at their defaults too.")
def get(
    names: tuple[str, ...],
    topic: str | None,
    broker: int | None,
    bootstrap_servers: str,
    timeout_seconds: float,
    show_all: bool,
) -> None:
    """Show settings: the named ones, or those that were set."""
    from barnabas.protocol.config_codes import ConfigSource

    resource = _resource(topic, broker)
    own = {ConfigSource.TOPIC} if topic is not None else set(ConfigSource) - {ConfigSource.DEFAULT}
    with friendly_errors(bootstrap_servers), _admin(bootstrap_servers, timeout_seconds) as admin:
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
@topic_option
@broker_option
@bootstrap_option
@timeout_option
@validate_option
def set_(
    changes: tuple[str, ...],
    topic: str | None,
    broker: int | None,
    bootstrap_servers: str,
    timeout_seconds: float,
    validate_only: bool,
) -> None:
    """Change settings. SETTING+=ITEM adds to a list, SETTING-=ITEM takes out of one."""
    _change(topic, broker, [_parsed(text) for text in changes], bootstrap_servers, timeout_seconds, validate_only)


@configs.command()
@click.argument("names", metavar="SETTING...", nargs=-1, required=True)
@topic_option
@broker_option
@bootstrap_option
@timeout_option
@validate_option
def unset(
    names: tuple[str, ...],
    topic: str | None,
    broker: int | None,
    bootstrap_servers: str,
    timeout_seconds: float,
    validate_only: bool,
) -> None:
    """Give settings their defaults again."""
    from barnabas.clients.admin import ConfigChange, ConfigOperation

    changes = [ConfigChange(name, ConfigOperation.DELETE) for name in names]
    _change(topic, broker, changes, bootstrap_servers, timeout_seconds, validate_only)


def _parsed(text: str) -> ConfigChange:
    from barnabas.clients.admin import ConfigChange, ConfigOperation

    operations = {"": ConfigOperation.SET, "+": ConfigOperation.APPEND, "-": ConfigOperation.SUBTRACT}
    match = CHANGE.fullmatch(text)
    if match is None:
        raise click.UsageError(f"expected SETTING=VALUE, SETTING+=ITEM or SETTING-=ITEM, not {text!r}")
    return ConfigChange(match["name"], operations[match["operation"]], match["value"])


def _change(
    topic: str | None,
    broker: int | None,
    changes: list[ConfigChange],
    bootstrap_servers: str,
    timeout_seconds: float,
    validate_only: bool,
) -> None:
    resource = _resource(topic, broker)
    with friendly_errors(bootstrap_servers), _admin(bootstrap_servers, timeout_seconds) as admin:
        admin.incremental_alter_configs(resource, changes, validate_only=validate_only)
        whose = f"broker {resource.name}" if topic is None else resource.name
        click.echo(f"{whose} {'could be changed' if validate_only else 'changed'}")
