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

from barnabas.config.server_defaults import LONE_BROKER_DEFAULTS
from tests.support.server_process import ServerFailed, ServerProcess

READY = re.compile(rb"(\w+)://(?:\[[^]]+\]|[^:\s]*):(\d+)")
START_SECONDS = 300
"""Longer than any start on a machine that is far too busy; a broker that ends is noticed at once."""


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
        self.more_listeners: tuple[str, ...] = ()
        """Besides PLAINTEXT, as `--listen` takes them."""
        self.config_file: Path | None = None
        """A properties file, which names the listeners then."""
        self.ports: dict[str, int] = {}
        """Where each listener was bound; `http`: the console, with `metrics.listen`."""
        self._properties = dict(properties or {})
        if "zookeeper.connect" in self._properties:
            # Most tests with a ZooKeeper have one broker; a test of a cluster says otherwise.
            self._properties = {**LONE_BROKER_DEFAULTS, **self._properties}
        self._python = python

    def start(self) -> None:
        """Start it and return when it has printed the address it listens on."""
        overrides = [word for key, value in self._properties.items() for word in ("--override", f"{key}={value}")]
        place = [*self._data_place(), *self._listeners()]
        seen = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.launch([self._python, "-m", "barnabas", "serve", "--until-stdin-closes", *place, *overrides])
        deadline = time.monotonic() + START_SECONDS
        while not (ports := self._ports_printed_after(seen)):
            self.fail_if_ended()
            if time.monotonic() > deadline:
                raise ServerFailed(f"no ready line within {START_SECONDS} s:\n{self.log_text()}")
            time.sleep(0.005)
        self.ports = ports
        self.port = ports.get("PLAINTEXT", 0)

    def _listeners(self) -> list[str]:
        if self.config_file is not None:
            return ["--config", str(self.config_file)]
        listeners = (f"PLAINTEXT://{self.host}:{self._wanted_port}", *self.more_listeners)
        return [word for listener in listeners for word in ("--listen", listener)]

    def _data_place(self) -> list[str]:
        if self.log_dirs:
            return ["--override", f"log.dirs={','.join(map(str, self.log_dirs))}"]
        return ["--data-dir", str(self.data_dir)]

    def _ports_printed_after(self, position: int) -> dict[str, int]:
        with self.log_file.open("rb") as log:
            log.seek(position)
            for line in log:
                if b"barnabas ready: " in line and line.endswith(b"\n"):
                    addresses = line.partition(b" data=")[0]
                    return {name.decode(): int(port) for name, port in READY.findall(addresses)}
        return {}
