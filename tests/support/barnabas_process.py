"""Our broker as the crash, restart and counterpart tests need it: one data dir, started, stopped and killed at will.

`barnabas.testing` is for users, who want one broker and nothing left behind; here the directory outlives the process
and the log is looked at. Both start `python -m barnabas serve`.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.server_process import ServerFailed, ServerProcess

READY = re.compile(rb"PLAINTEXT://[^:\s]+:(\d+)")
START_SECONDS = 30


class BarnabasProcess(ServerProcess):
    """A broker over `<directory>/data`; `properties` are its overrides. Without `port`, every start takes a new one."""

    name = "barnabas"

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        python: str = sys.executable,
        *,
        port: int = 0,
    ) -> None:
        super().__init__(directory)
        self.port = port
        self._wanted_port = port
        self.data_dir = directory / "data"
        self.log_dirs: tuple[Path, ...] = ()
        """Several log directories, instead of the one at `data_dir`."""
        self._properties = dict(properties or {})
        self._python = python

    def start(self) -> None:
        """Start it and return when it has printed the address it listens on."""
        overrides = [word for key, value in self._properties.items() for word in ("--override", f"{key}={value}")]
        place = [*self._data_place(), "--listen", f"PLAINTEXT://{self.host}:{self._wanted_port}"]
        seen = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.launch([self._python, "-m", "barnabas", "serve", "--until-stdin-closes", *place, *overrides])
        deadline = time.monotonic() + START_SECONDS
        while (port := self._port_printed_after(seen)) is None:
            self.fail_if_ended()
            if time.monotonic() > deadline:
                raise ServerFailed(f"no ready line within {START_SECONDS} s:\n{self.log_text()}")
            time.sleep(0.005)
        self.port = port

    def _data_place(self) -> list[str]:
        if self.log_dirs:
            return ["--override", f"log.dirs={','.join(map(str, self.log_dirs))}"]
        return ["--data-dir", str(self.data_dir)]

    def _port_printed_after(self, position: int) -> int | None:
        with self.log_file.open("rb") as log:
            log.seek(position)
            ports = [match.group(1) for line in log if b"ready" in line for match in READY.finditer(line)]
        return int(ports[0]) if ports and int(ports[0]) else None
