"""The command `barnabas`, run inside a test's process against a broker."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner, Result

from barnabas.cli.main import barnabas

Run = Callable[..., Result]
"""Takes the words of a command, and perhaps its `stdin`."""


def run_against(bootstrap_servers: str, *group: str) -> Run:
    """Return what runs commands, those of one group of them, against a broker."""

    def run(*arguments: str, stdin: str = "") -> Result:
        environment = {"BARNABAS_BOOTSTRAP_SERVER": bootstrap_servers}
        return CliRunner().invoke(barnabas, (*group, *arguments), input=stdin, env=environment)

    return run
