"""A server in a child process: what the tests and benchmarks need of any broker, ours or a counterpart.

Its standard input is a pipe that nobody writes to: who watches it (ours does) ends with the tests, even killed ones.
`BarnabasProcess`, `ApacheKafka` and others subclass it. Not for use by two threads at once.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from barnabas.testing.server_ports import free_port

__all__ = ["ServerFailed", "ServerProcess", "free_port"]

NO_TOPICS_METADATA = bytes.fromhex("00000012 0003 0001 00000001 0004 74657374 00000000")


class ServerFailed(Exception):
    """A server did not start or stop as it should; the message ends with the tail of its log."""


class ServerProcess:
    """One server process, its directory and its log file (`<directory>/<name>.log`, appended to by each start)."""

    name = "server"
    host = "127.0.0.1"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients."""
        return f"{self.host}:{self.port}"

    @property
    def log_file(self) -> Path:
        """Where the process's standard output and error go."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise ServerFailed(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def log_text(self) -> str:
        """All that was logged so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def launch(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        """Start the process; its output is appended to the log file."""
        with self.log_file.open("ab") as log:
            self._process = self._spawn(command, log, environment)

    def _spawn(
        self, command: list[str], log: IO[bytes], environment: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory, env=environment
        )

    def start(self) -> None:
        """Start the server and return when it answers."""
        raise ServerFailed(f"{type(self).__name__} does not say how it starts")

    def stop(self, timeout_seconds: float = 60) -> int:
        """SIGTERM, then wait for the end; the exit status. A server that doesn't stop is killed and reported."""
        return self._end(signal.SIGTERM, timeout_seconds)

    def close(self) -> None:
        """Stop it if it still runs, and whatever runs with it."""
        if self.is_alive:
            self.stop()

    def kill(self) -> None:
        """SIGKILL, as a crash would end it."""
        self._end(signal.SIGKILL, 30)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal and return at once."""
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self, timeout_seconds: float) -> int:
        """Wait for the process to end by itself; its exit status."""
        if self._process is None:
            raise ServerFailed(f"{self.name} was never started")
        status = self._process.wait(timeout_seconds)
        self._close_input()
        return status

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _end(self, number: signal.Signals, timeout_seconds: float) -> int:
        process = self._process
        if process is None:
            return 0
        process.send_signal(number)
        self._close_input()
        try:
            return process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
            raise ServerFailed(f"{self.name} did not stop within {timeout_seconds} s:\n{self._tail()}") from None

    def _tail(self) -> str:
        return self.log_text()[-4000:]

    def fail_if_ended(self) -> None:
        """Raise when the process is gone, with the end of its log."""
        if not self.is_alive:
            raise ServerFailed(f"{self.name} ended:\n{self._tail()}")

    def wait_for_port(self, timeout_seconds: float) -> None:
        """Return when something accepts connections on the port."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            self.fail_if_ended()
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise ServerFailed(f"{self.name} accepts no connections after {timeout_seconds} s:\n{self._tail()}")

    def wait_for_brokers(self, timeout_seconds: float) -> None:
        """Return when the answer to a Metadata request (v1, for no topic) names a broker."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            self.fail_if_ended()
            with suppress(OSError), socket.create_connection((self.host, self.port), timeout=5) as probe:
                probe.sendall(NO_TOPICS_METADATA)
                answer = probe.recv(4096)
                if answer[8:12] > bytes(4):
                    return
            time.sleep(0.004)
        raise ServerFailed(f"{self.name} has no broker in its metadata after {timeout_seconds} s:\n{self._tail()}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Started inside the block, stopped after it."""
        self.start()
        try:
            yield
        finally:
            self.stop()


def left_in_session(session: int) -> list[str]:
    """Command lines of the processes of a session that do not end within half a minute.

    Spark's Python processes end when they notice that the JVM is gone, a moment after it.
    """
    deadline = time.monotonic() + 30
    while (running := _running_in_session(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return running


def _running_in_session(session: int) -> list[str]:
    """Command lines of the processes of a session that are not just waiting to be reaped."""
    listed = subprocess.run(["ps", "-eo", "sid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    fields = [line.split(None, 2) for line in listed.splitlines()]
    return [args for sid, state, args in fields if int(sid) == session and not state.startswith("Z")]
