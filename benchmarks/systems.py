"""The brokers that are measured: ours in its modes, Apache Kafka 3.9, and optionally a program given by its path."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import ServerProcess, free_port

REFERENCE = "apache-kafka"
PROTOTYPE = "prototype"

BARNABAS_MODES: Mapping[str, Mapping[str, str]] = {
    "barnabas": {},
    "barnabas-queue": {"inline.requests.enable": "false"},
    "barnabas-header": {"record.validation": "header"},
    "barnabas-full": {"record.validation": "full"},
}
"""Name -> what it sets besides the defaults. `barnabas` is what users get: brief requests at once, framing checked."""

NAMES = (REFERENCE, *BARNABAS_MODES)
SHARED = {"message.max.bytes": "10485760", "auto.create.topics.enable": "true", "num.partitions": "1"}


class Prototype(ServerProcess):
    """A single-file broker, `python PATH PORT`; for comparing against an experiment outside the repository."""

    name = PROTOTYPE

    def __init__(self, directory: Path, program: Path) -> None:
        super().__init__(directory)
        self._program = program.resolve()

    def start(self) -> None:
        """Start it and wait for its port."""
        self.port = free_port()
        self.launch([sys.executable, str(self._program), str(self.port)])
        self.wait_for_port(10)


def make_system(name: str, directory: Path, prototype: Path | None, extra: Mapping[str, str]) -> ServerProcess:
    """The system `name`, not started, in a directory of its own under `directory`; `extra` goes to every broker."""
    place = directory / name
    if name == REFERENCE:
        return ApacheKafka(place, SHARED | dict(extra))
    if name == PROTOTYPE:
        if prototype is None:
            raise ValueError("the system `prototype` needs --prototype PATH")
        return Prototype(place, prototype)
    return BarnabasProcess(place, SHARED | dict(BARNABAS_MODES[name]) | dict(extra))
