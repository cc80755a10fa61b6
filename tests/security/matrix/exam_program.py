"""The exams of libraries for other languages: a program a library, which sits all its exams one after another.

Started and asked by test_matrix, on the test's thread. The program reads a login a line from its standard input, as
fields `name=value` separated by tabs, and answers in a line: `read=` with the values, or `failed=` with the reason. The
sources are beside those of the groups' members (tests/groups/members), and are built with them.
"""

from __future__ import annotations

import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.security.matrix.login import IN_TRANSACTION, PLAIN_VALUES, SECONDS, Login

_STOP_SECONDS = 60


class ExamProgram:
    """A running program, whose standard error goes to a file. `sit` is its Exam."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the program end, which it does when its input ends; kill it if it waits for a broker."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def sit(self, login: Login, topic: str) -> list[str]:
        """See Exam."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        fields = {
            "topic": topic,
            "in_transaction": ",".join(IN_TRANSACTION),
            "plain_values": ",".join(PLAIN_VALUES),
            "protocol": login.protocol,
            "mechanism": login.sasl_mechanism or "",
            "bootstrap": login.bootstrap,
            "user": login.user,
            "password": login.password,
            "is_by_token": str(login.is_by_token).lower(),
            "token_end_ms": str(int(login.token_end_s * 1000)),
            "trust_pem": login.trust_pem,
        }
        self._process.stdin.write("\t".join(f"{name}={value}" for name, value in fields.items()) + "\n")
        self._process.stdin.flush()
        # The answer is one short line, written at once: once there is something to read, all of it is.
        # `poll`, because the descriptors of a long test run have numbers that `select` does not take.
        poller = select.poll()
        poller.register(self._process.stdout, select.POLLIN)
        assert poller.poll(3 * SECONDS * 1000), f"no answer; it said {self._said()}"
        result, _, answer = self._process.stdout.readline().strip().partition("=")
        assert result == "read", f"{result}: {answer}; it said {self._said()}"
        return answer.split(",")

    def _said(self) -> str:
        return self._errors.read_text(errors="replace")[-4000:]
