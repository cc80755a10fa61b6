"""The brokers that are measured: Barnabas in its modes, Apache Kafka 3.9 and 4, and optionally another version of
Barnabas, or a program given by its path."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_kafka_4 import ApacheKafka4
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import ServerProcess, free_port

REFERENCE = "apache-kafka"
KAFKA_4 = "apache-kafka-4"
PROTOTYPE = "prototype"
BEFORE = "barnabas-before"
"""The version of Barnabas in the directory given by `--before`."""

BARNABAS_MODES: Mapping[str, Mapping[str, str]] = {
    "barnabas": {},
    "barnabas-queue": {"inline.requests.enable": "false"},
    "barnabas-framing": {"record.validation": "framing"},
    "barnabas-header": {"record.validation": "header"},
}
"""The settings of each mode besides the defaults. `barnabas` is what users get: brief requests run at once, and every
record is checked (`record.validation=full`)."""

COMPILED_SUFFIX = "-compiled"
COMPILED_PLACE = Path(__file__).parents[1] / "build" / "compiled"
"""Where `make compiled` unpacks the wheel whose hot modules are extension modules."""
COMPILED_MODES = tuple(f"{name}{COMPILED_SUFFIX}" for name in BARNABAS_MODES)

NAMES = (REFERENCE, KAFKA_4, *BARNABAS_MODES, *COMPILED_MODES)
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


class PlacedBarnabas(BarnabasProcess):
    """A Barnabas broker from outside this working tree: the compiled wheel, or the `src` of another version."""

    def __init__(self, directory: Path, properties: Mapping[str, str], place: Path, *, port: int = 0) -> None:
        super().__init__(directory, properties, port=port)
        self._place = place

    def launch(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        """Start the broker with this place first on its import path. Raises FileNotFoundError without the package."""
        if not (self._place / "barnabas").is_dir():
            raise FileNotFoundError(f"{self._place} holds no package barnabas (for the compiled build: make compiled)")
        super().launch(command, {**os.environ, **(environment or {}), "PYTHONPATH": str(self._place)})


def default_systems() -> list[str]:
    """Return Apache Kafka, and Barnabas at two levels of validation, also compiled if the compiled build exists."""
    ours = ["barnabas", "barnabas-framing"]
    if COMPILED_PLACE.is_dir():
        ours += [f"{name}{COMPILED_SUFFIX}" for name in ours]
    return [REFERENCE, *ours]


def make_system(
    name: str, directory: Path, prototype: Path | None, extra: Mapping[str, str], before: Path | None = None
) -> ServerProcess:
    """Return the system `name`, not started, with its own directory under `directory` and the settings `extra`.

    prototype: the program of the system of that name. before: the directory that holds the other version's package.
    """
    place = directory / name
    if name == REFERENCE:
        return ApacheKafka(place, SHARED | dict(extra))
    if name == KAFKA_4:
        return ApacheKafka4(place, SHARED | dict(extra))
    if name == PROTOTYPE:
        if prototype is None:
            raise ValueError("the system `prototype` needs --prototype PATH")
        return Prototype(place, prototype)
    if name == BEFORE:
        if before is None:
            raise ValueError(f"the system `{BEFORE}` needs --before PATH")
        return PlacedBarnabas(place, SHARED | dict(extra), before.resolve())
    mode = name.removesuffix(COMPILED_SUFFIX)
    properties = SHARED | dict(BARNABAS_MODES[mode]) | dict(extra)
    if mode == name:
        return BarnabasProcess(place, properties)
    return PlacedBarnabas(place, properties, COMPILED_PLACE)
