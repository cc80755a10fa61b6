"""docs/command-line.md, made from the commands' own help: a heading each, its words, examples and options."""

from __future__ import annotations

import inspect
import re

import click

from barnabas.cli.main import COMMANDS, barnabas

INTRODUCTION = """\
# Command line

Made from the help of the commands by `make docs`. `barnabas` is the same as `python -m barnabas`; every command has
`--help`. Commands that talk to a broker take `-b/--bootstrap-server HOST:PORT` or the variable
`BARNABAS_BOOTSTRAP_SERVER`; without either, `localhost:9092`. An error is one line on stderr. The exit status is 1 when
the broker rejected a request or could not be reached, and 2 when the arguments or settings were wrong.
Lists are tables on a terminal, and tab-separated lines in a pipe. Bash completes commands and options after
`eval "$(_BARNABAS_COMPLETE=bash_source barnabas)"` (also `zsh_source`, `fish_source`).

A broker prints one line when it is ready:

    barnabas ready: PLAINTEXT://127.0.0.1:43211 broker=0 cluster=L_mA9kXVSe-l2ul3NSvB2w data=/var/lib/barnabas

[configuration.md](configuration.md) lists its settings;
[adopting-a-kafka-data-dir.md](adopting-a-kafka-data-dir.md) says more about `log adopt`.
"""

IN_EVERY_COMMAND = {"bootstrap_servers", "timeout_seconds"}
EXAMPLES = "\b\n"


def command_line_page() -> str:
    """The page."""
    context = click.Context(barnabas, info_name="barnabas")
    sections = []
    for name in sorted(COMMANDS):
        command = barnabas.get_command(context, name)
        assert command is not None
        sections += _sections(command, f"barnabas {name}", "##")
    return INTRODUCTION + "".join(sections)


def _sections(command: click.Command, path: str, heading: str) -> list[str]:
    title = path.removeprefix("barnabas ")
    found = [f"\n{heading} {title}\n\n{_words(command)}{_options(command, path)}"]
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found += _sections(command.commands[name], f"{path} {name}", "###")
    return found


def _words(command: click.Command) -> str:
    """The help up to a form feed, where click ends it too: paragraphs as they are, examples as code."""
    paragraphs = []
    for paragraph in inspect.cleandoc(command.help or "").partition("\f")[0].rstrip().split("\n\n"):
        if paragraph.startswith(EXAMPLES):
            lines = paragraph.removeprefix(EXAMPLES).splitlines()
            paragraphs.append("\n".join(f"    {line.strip()}" for line in lines))
        else:
            paragraphs.append(paragraph.strip().replace("*", r"\*"))
    return "\n\n".join(paragraphs) + "\n"


def _options(command: click.Command, path: str) -> str:
    if isinstance(command, click.Group):
        return ""
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    options = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name not in IN_EVERY_COMMAND
        if (record := parameter.get_help_record(context)) is not None
    ]
    rows = [f"| `{_cell(names)}` | {_cell(what)} |" for names, what in options]
    table = ["", "| option | what it does |", "|---|---|", *rows] if rows else []
    return "\n".join([f"\nUsage: `{path} {usage}`", *table]) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|").replace("<", r"\<")
