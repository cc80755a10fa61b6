"""An oracle in a process of its own: a message's bytes go in on a line, and come out as it writes them again.

Used by the differential tests for kio 0.6.2 and for Apache Kafka, neither of which can live in the tests' interpreter.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from barnabas.protocol.messages.message import Message


def kind_of(message: type[Message]) -> str:
    """`request` or `response`."""
    return "request" if message.__name__.endswith("Request") else "response"


class LineOracle:
    """Starts `command`, asks it, and ends it with the `with` block. Remembers which API versions it knew."""

    def __init__(self, command: Sequence[str]) -> None:
        self.known: set[tuple[int, int]] = set()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def encode_again(self, message: type[Message], version: int, body: bytes) -> bytes | None:
        """What the oracle writes after reading `body`; None when it doesn't know this version."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{int(message.api_key)} {version} {kind_of(message)} {body.hex()}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        assert not answer.startswith("error"), f"{message.__name__} v{version}: {answer}"
        if answer == "unknown":
            return None
        self.known.add((int(message.api_key), version))
        return bytes.fromhex(answer)
