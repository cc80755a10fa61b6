"""Kafka Streams' word count (WordCount.java) as a process: started, stopped, killed. Used by test_streams.py.

Kafka Streams comes by Maven. A thread reads the states that the process prints.
"""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Final

from tests.support.maven import fetch_jars, find_java

POMS: Final = {release: Path(__file__).with_name(f"kafka-streams-{release}.xml") for release in ("3.9", "4")}
AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once_v2"
"""Settings of `processing.guarantee`."""
_PROGRAM: Final = Path(__file__).with_name("WordCount.java")
_FLAGS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_PATIENCE_SECONDS: Final = 90
_STOP_SECONDS: Final = 60


class StreamsFailed(Exception):
    """The application ended, or did not come to run; the message ends with its log."""


class StreamsApplication:
    """One instance. `directory` keeps its state and its log."""

    def __init__(
        self, release: str, directory: Path, arguments: tuple[str, str, str, str], guarantee: str = AT_LEAST_ONCE
    ) -> None:
        """arguments: bootstrap servers, application id, input topic, output topic."""
        self._directory = directory
        self._state_changed = threading.Condition()
        self._states: list[str] = []
        directory.mkdir(parents=True, exist_ok=True)
        jars = fetch_jars(POMS[release])
        command = [find_java(), *_FLAGS, "-cp", f"{jars}/*", str(_PROGRAM)]
        command += [*arguments, str(directory / "state"), guarantee]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._reader = threading.Thread(target=self._read_states, name=f"states-of-{directory.name}", daemon=True)
        self._reader.start()

    def await_running(self) -> None:
        """Return when it is in state RUNNING now, having been assigned its tasks."""
        with self._state_changed:
            came = self._state_changed.wait_for(
                lambda: (self._states and self._states[-1] == "RUNNING") or self._process.poll() is not None,
                _PATIENCE_SECONDS,
            )
            if not came or self._process.poll() is not None:
                raise StreamsFailed(f"went through {self._states}:\n{self._log.read_text(errors='replace')[-4000:]}")

    def stop(self) -> None:
        """Let it finish what it has begun, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(_STOP_SECONDS)
        self._reader.join()
        if status != 0 or self._states[-1] != "NOT_RUNNING":
            raise StreamsFailed(f"ended in {self._states}:\n{self._log.read_text(errors='replace')[-4000:]}")

    def kill(self) -> None:
        """End it as a crash would. Idempotent, also after `stop`."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    @property
    def _log(self) -> Path:
        return self._directory / "application.log"

    def _read_states(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._state_changed:
                self._states.append(line.decode().strip())
                self._state_changed.notify_all()
        with self._state_changed:
            self._state_changed.notify_all()
