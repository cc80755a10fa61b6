"""The `barnabas` command: a group that imports a sub-command only to run it, so that each command starts fast.

Entry point of the console script and of `python -m barnabas`. Runs on the main thread.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from barnabas import __version__, build
from barnabas.cli.stop_signals import watch_signals

_STDOUT_FD = 1

COMMANDS = {
    "acls": ("barnabas.cli.access.acls", "Say which principals may do what."),
    "certs": ("barnabas.cli.access.certs", "Make certificates for development."),
    "cluster": ("barnabas.cli.cluster.cluster", "Show brokers, and the APIs and features they support."),
    "configs": ("barnabas.cli.configs", "Show and change settings of topics and brokers."),
    "consume": ("barnabas.cli.records.consume", "Print records of a topic."),
    "demo": ("barnabas.cli.demo", "Run a whole pipeline: broker, records, Spark, a picture."),
    "groups": ("barnabas.cli.groups.groups", "Show groups and their lag; reset their offsets."),
    "log": ("barnabas.cli.log.log", "Show log directories and their files; adopt Kafka's."),
    "perf": ("barnabas.cli.perf.perf", "Measure rates and latencies, as Kafka's performance tools do."),
    "pipeline": ("barnabas.cli.pipeline", "Check and run pipelines on Spark, from YAML files."),
    "quotas": ("barnabas.cli.access.quotas", "Limit the rates of users, clients and addresses."),
    "reassign": ("barnabas.cli.topics.reassign", "Move partitions to other brokers."),
    "produce": ("barnabas.cli.records.produce", "Send lines as records to a topic."),
    "serve": ("barnabas.cli.serve", "Run a broker."),
    "tokens": ("barnabas.cli.access.tokens", "Create, renew, expire and show delegation tokens."),
    "topics": ("barnabas.cli.topics.topics", "Create, list, describe, alter, delete topics and records."),
    "users": ("barnabas.cli.access.users", "Add, list and delete users that log in by SCRAM."),
    "transactions": ("barnabas.cli.transactions", "Show transactions, and end those that hang."),
}
"""The module and the line of help of each command. The module's attribute of the same name is the command."""


class LazyGroup(click.Group):
    """A click group that imports a sub-command's module only to run it, or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names from the table."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module and return the command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module_name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module_name), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, without an import of any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


def _show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"barnabas {__version__} ({build()})")
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and the build, and exit.",
)
@click.pass_context
def barnabas(context: click.Context) -> None:
    """An event streaming broker that speaks Kafka's wire protocol."""
    # `serve` watches later: it prepares the process before the first thread.
    if context.invoked_subcommand != "serve":
        watch_signals()


def main() -> None:
    """Run the command line. An error of arguments, input or output is one line on stderr."""
    # Before anything opens a file: the lowest free numbers are those of the closed streams.
    _replace_closed_streams()
    status = None
    try:
        # Not standalone: click would print usage errors in its own form, of several lines, and end the process itself.
        status = barnabas.main(prog_name="barnabas", standalone_mode=False)
        # Flushed here, where an error still becomes an exit status. At Python's own end it would be a trace.
        _flush_output()
    except (click.ClickException, click.Abort, KeyboardInterrupt, OSError) as error:
        _end_with(error)
    sys.exit(status)


def _end_with(error: BaseException) -> NoReturn:
    """End the process with the exit status of an error, after a line on stderr where that says more."""
    from barnabas.cli.client_options import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, fail

    match error:
        case click.UsageError():
            # A group without a sub-command shows its help as an error, in newer versions of click.
            if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
                error.show()
                sys.exit(EXIT_USAGE)
            command = error.ctx.command_path if error.ctx is not None else "barnabas"
            fail(f"{' '.join(error.format_message().split())} (see {command} --help)", EXIT_USAGE)
        case click.ClickException():
            fail(error.format_message(), error.exit_code)
        case BrokenPipeError():
            # The reader of this output, such as head or less, has ended.
            _discard_output()
            sys.exit(EXIT_FAILED)
        case OSError():
            _discard_output()
            where = f"{error.filename}: " if error.filename is not None else "input or output failed: "
            fail(f"{where}{error.strerror or error}")
    sys.exit(EXIT_INTERRUPTED)


# -- the standard streams


def _replace_closed_streams() -> None:
    """Give each closed standard stream a descriptor, so that no socket or file of this process gets its number.

    A command that uses such a stream fails with OSError, as it would in any other program. Text for a closed stderr is
    discarded.
    """
    # `os.open` takes the lowest free number, so the order matters. Stdin is opened for writing and stdout for reading,
    # so that using them fails.
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _flush_output() -> None:
    """Write the rest of the buffer. Raises OSError."""
    sys.stdout.flush()


def _discard_output() -> None:
    """Drop the rest of the buffer, which the interpreter would try to write at its end, with an error."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, _STDOUT_FD)
    os.close(devnull)
