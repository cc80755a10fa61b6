"""Two secured brokers, ours and Apache Kafka 3.9, and the steps of a tool on both: an operator's, or those of a user.

Used by test_security_tools.py. Each broker has a PLAINTEXT listener, whose clients are super users, and one with SASL.
Not for use by two threads at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_fixtures import SERVER_PROPERTIES, Server
from tests.support.server_process import free_port
from tests.tools.kafka_tools import LOGGING_OF_RELEASE_4, KafkaTools, ToolOutput, comparable_lines

PASSWORDS: Final = {"alice": "alice-knows-this", "bob": "bob-knows-this"}
_USERS: Final = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS: Final = SERVER_PROPERTIES | {
    "super.users": "User:ANONYMOUS",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "1",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_MODULE} {_USERS};",
    **{
        f"listener.name.sasl_plaintext.scram-sha-{bits}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        )
        for bits in (256, 512)
    },
    "delegation.token.secret.key": "the-secret-of-all-brokers",
}
_RESOURCE: Final = "for resource `ResourcePattern("
_VARYING: Final = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d\b"), "TIME"),
    (re.compile(r"[A-Za-z0-9_-]{22}(?=\s)"), "TOKEN-ID"),
    (re.compile(r"[A-Za-z0-9+/]{86}=="), "HMAC"),
    (re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}"), "TIME"),
    (re.compile(r"\b1\d{12}\b"), "MILLISECONDS"),
    (re.compile(r"Request .* is not authorized\."), "REQUEST is not authorized."),
    (re.compile(rf".*{LOGGING_OF_RELEASE_4}.*\n"), ""),
    (re.compile(r" {2,}"), "  "),
)
"""What differs from run to run: times, and the ids and HMACs of tokens, with the width of their columns. A refusal of
Kafka's quotes the object of the request in memory. The tools of 4 complain about their own logging, once a JVM."""


class SecuredServer(NamedTuple):
    """A running broker, and the address of its listener with SASL."""

    server: Server
    sasl: tuple[str, int]

    @property
    def sasl_address(self) -> str:
        return f"{self.sasl[0]}:{self.sasl[1]}"

    def error_of_login(self, user: str, password: str, mechanism: str, *, is_token: bool = False) -> ErrorCode:
        """How a login ends."""
        with SaslRawClient(self.server, address=self.sasl) as client:
            return ErrorCode(client.log_in(user, password, mechanism, is_token=is_token).error_code)


class SecuredPair(NamedTuple):
    """Both brokers."""

    ours: SecuredServer
    theirs: SecuredServer


@contextmanager
def secured_pair(directory: Path) -> Iterator[SecuredPair]:
    """Both, running."""
    ours = BarnabasProcess(directory / "ours", SETTINGS)
    ours.more_listeners = ("SASL_PLAINTEXT://127.0.0.1:0",)
    port, sasl_port = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
    theirs = ApacheKafka(directory / "theirs", {**SETTINGS, "listeners": listeners})
    theirs.port = port
    with ExitStack() as stack:
        stack.callback(ours.close)
        stack.callback(theirs.close)
        theirs.start()
        ours.start()
        yield SecuredPair(
            SecuredServer(ours, (ours.host, ours.ports["SASL_PLAINTEXT"])),
            SecuredServer(theirs, (theirs.host, sasl_port)),
        )


class SecuredSteps:
    """Runs a tool on both, and holds the outputs against each other."""

    def __init__(self, tools: KafkaTools, pair: SecuredPair) -> None:
        self.tools = tools
        self.pair = pair

    def run(self, tool: str, *arguments: str, user: str | None = None) -> list[ToolOutput]:
        """Run it on both, as an operator, or logged in by PLAIN; what each printed, ours first.

        Resources and the entries of each are compared in any order, since hash tables order them. Fails when they
        differ.
        """
        return self.run_each(tool, [arguments, arguments], user=user)

    def run_each(self, tool: str, arguments: Sequence[Sequence[str]], *, user: str | None = None) -> list[ToolOutput]:
        """The same with arguments of each broker's own, ours first: an HMAC that it has given."""
        outputs, lines = [], []
        for secured, own in zip(self.pair, arguments, strict=True):
            output = self.tools.run_as_given(tool, *self._place(secured, user), *own)
            outputs.append(output)
            lines.append(_in_order(self._comparable(output, secured)))
        command = f"{tool} {' '.join(arguments[0])} ({self.tools.release})"
        difference = "\n".join(difflib.unified_diff(lines[1], lines[0], "Apache Kafka", "ours", lineterm="", n=1))
        assert not difference, f"{command} prints:\n{difference}"
        assert outputs[0].status == outputs[1].status, command
        return outputs

    def _place(self, secured: SecuredServer, user: str | None) -> tuple[str, ...]:
        if user is None:
            return ("--bootstrap-server", secured.server.bootstrap_servers)
        file = self.tools.directory / f"{user}.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={_MODULE} username="{user}" password="{PASSWORDS[user]}";\n'
        )
        return ("--bootstrap-server", secured.sasl_address, "--command-config", str(file))

    @staticmethod
    def _comparable(output: ToolOutput, secured: SecuredServer) -> list[str]:
        text = output.text.replace(secured.sasl_address, "HOST:PORT")
        for varying, shown in _VARYING:
            text = varying.sub(shown, text)
        return [line.strip() for line in comparable_lines(ToolOutput(output.status, text, ""), secured.server)]


def _in_order(lines: Sequence[str]) -> list[str]:
    """The lines, each resource followed by its entries, both sorted. A line before the first resource stays first."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if _RESOURCE in line:
            blocks.append([])
        if line:
            blocks[-1].append(line)
    first, *others = ([*block[:1], *sorted(block[1:])] for block in blocks)
    return [line for block in (first, *sorted(others)) for line in block]
