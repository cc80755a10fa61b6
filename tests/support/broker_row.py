"""Several brokers of one machine as `barnabas serve --processes` runs them: their parent, and the brokers by their ids.

Used by tests and by `benchmarks.processes`, on the caller's thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.server_process import ServerFailed, ServerProcess, free_port

START_SECONDS = 120


class BrokerRow(ServerProcess):
    """The parent of `count` brokers over `<directory>/data`. port: of the first broker, the same at every start.

    environment: of all processes, in place of the caller's.
    """

    name = "brokers"

    def __init__(
        self,
        directory: Path,
        count: int,
        properties: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory)
        self.count = count
        self.port = _first_of_free_ports(count)
        self.data_dir = directory / "data"
        self._properties = dict(properties or {})
        self._environment = environment
        self._log_end = 0

    def start(self) -> None:
        """Start the brokers and return when all are ready. Raises ServerFailed: they are not."""
        overrides = [word for key, value in self._properties.items() for word in ("--override", f"{key}={value}")]
        place = ["--data-dir", str(self.data_dir), "--listen", f"PLAINTEXT://{self.host}:{self.port}"]
        options = ["--processes", str(self.count), "--until-stdin-closes", *place, *overrides]
        self._log_end = len(self.log_text())
        self.launch([sys.executable, "-m", "barnabas", "serve", *options], self._environment)
        deadline = time.monotonic() + START_SECONDS
        while not self.ready_line():
            self.fail_if_ended()
            if time.monotonic() > deadline:
                raise ServerFailed(f"no ready line within {START_SECONDS} s:\n{self.log_text()}")
            time.sleep(0.01)

    def ready_line(self) -> str:
        """The line of the latest start, without its end; empty until it is there."""
        lines = self.new_log_text().splitlines(keepends=True)
        return next((line.strip() for line in lines if line.startswith("barnabas ready: ") and line[-1] == "\n"), "")

    def new_log_text(self) -> str:
        """What was logged and printed since the latest start."""
        return self.log_text()[self._log_end :]

    def process_ids(self) -> dict[int, int]:
        """The processes of the brokers that run, by broker id; none when the parent has ended."""
        found = {}
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                parent = int(status.read_text().partition("PPid:")[2].split()[0])
                words = status.with_name("cmdline").read_text().split("\0")
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            named = [word.removeprefix("broker.id=") for word in words if word.startswith("broker.id=")]
            if parent == self.pid and named:
                found[int(named[0])] = int(status.parent.name)
        return found


def _first_of_free_ports(count: int) -> int:
    """A port that begins a row of free ones."""
    row = [free_port()]
    while len(row) < count:
        port = free_port()
        row = [*row, port] if port == row[-1] + 1 else [port]
    return row[0]
