"""`--command-config FILE`: settings of the clients, such as those of TLS and SASL, for every command with a broker.

The file is in Kafka's format, so one file serves these commands and Kafka's own tools. `bootstrap_option` adds the
option; its content waits in click's context until the command makes its client. Used on the main thread; no lock.
"""

from __future__ import annotations

from typing import Any

import click

from barnabas.config.config_error import nearest_hint
from barnabas.config.properties_file import load_properties

_META = "barnabas.command_config"


def _remember(context: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    if path is not None:
        try:
            context.meta[_META] = load_properties(path)
        except (OSError, ValueError) as error:
            raise click.BadParameter(str(error)) from error


command_config_option = click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    expose_value=False,
    callback=_remember,
    envvar="BARNABAS_COMMAND_CONFIG",
    help="A properties file with settings of the client, such as security.protocol. Other options win over it.",
)


def command_settings(config_class: type[Any]) -> dict[str, Any]:
    """Return the settings of the command's file that this kind of client has; none without a file.

    Raises ValueError for a setting that no client has, and for a value of the wrong type.
    """
    context = click.get_current_context(silent=True)
    properties = {} if context is None else context.meta.get(_META, {})
    if not properties:
        return {}
    from barnabas.clients.consumer import ConsumerConfig
    from barnabas.clients.producer import ProducerConfig
    from barnabas.clients.settings.notation import settings_of

    known = {each.kafka_name: each for each in settings_of(config_class)}
    of_others = {each.kafka_name for other in (ProducerConfig, ConsumerConfig) for each in settings_of(other)}
    settings = {}
    for name, text in properties.items():
        if name in known:
            settings[known[name].name] = parsed_value(name, known[name].type, text, "--command-config")
        elif name not in of_others:
            # Never the value: it may be a password under a misspelt name.
            raise ValueError(f"--command-config: clients have no setting {name!r}{nearest_hint(name, known)}")
    return settings


def parsed_value(name: str, kind: str, text: str, option: str) -> object:
    """Return the value of a setting by the annotation of its field. Raises ValueError; `option` is named in it."""
    if "None" in kind and text == "none" and "str" not in kind:
        return None
    if "bool" in kind:
        if text not in {"true", "false"}:
            raise ValueError(f"{option}: {name} takes true or false, not {text!r}")
        return text == "true"
    if "int" in kind:
        try:
            return int(text)
        except ValueError:
            if "Literal" in kind:
                return text
            raise ValueError(f"{option}: {name} takes a whole number, not {text!r}") from None
    if "float" in kind:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{option}: {name} takes a number, not {text!r}") from None
    return [each.strip() for each in text.split(",")] if kind.startswith("Sequence") else text
