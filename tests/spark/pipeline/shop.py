"""A pipeline of one source, one transform and one sink, with its topics, its records and what must come of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO

from barnabas.clients.producer import Producer

SHOP = """\
name: shop
brokers: {brokers}
trigger: {trigger}
spark: {{cores: 1, settings: {spark_settings}}}
sources:
  orders:
    topic: {source}
    schema: id BIGINT, amount DOUBLE
    {bad}
    options: {{startingOffsets: earliest, maxOffsetsPerTrigger: 40}}
transforms:
  large: {transform}
sinks:
  out: {{from: large, topic: {target}, key: string(id % 3)}}
"""

LARGE = '{sql: "SELECT id, amount * 2 AS double FROM orders WHERE amount >= 10"}'


class Shop:
    """A pipeline file with its topics."""

    def __init__(self, directory: Path, bootstrap_servers: str, new_topic: Callable[[int], str]) -> None:
        self._path = directory / "shop.yaml"
        self.bootstrap_servers = bootstrap_servers
        self.source, self.target, self.bad = new_topic(2), new_topic(2), new_topic(1)

    def write(
        self,
        *,
        trigger: str = "available-now",
        dead_letters: bool = True,
        transform: str = LARGE,
        spark_settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._path.write_text(
            SHOP.format(
                brokers=self.bootstrap_servers,
                trigger=trigger,
                transform=transform,
                source=self.source,
                target=self.target,
                bad=f"dead_letters: {self.bad}" if dead_letters else "",
                spark_settings=json.dumps(dict(spark_settings)),
            )
        )

    def produce(self, values: list[bytes], partition: int | None = None) -> None:
        with Producer(self.bootstrap_servers) as producer:
            for future in [producer.send(self.source, value, partition=partition) for value in values]:
                future.result()

    def planned_batches(self) -> int:
        """The number of micro-batches that were planned, of which Spark keeps only the last ones."""
        offsets = self._path.parent / "checkpoints" / "shop" / "queries" / "out" / "offsets"
        found = offsets.iterdir() if offsets.is_dir() else ()
        return max((int(each.name) + 1 for each in found if each.name.isdigit()), default=0)

    def start(
        self,
        command: str,
        *arguments: str,
        out: int | IO[str] = subprocess.PIPE,
        err: int | IO[str] = subprocess.PIPE,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command of `barnabas pipeline` in a session, and a process group, of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "barnabas", "pipeline", command, os.fspath(self._path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
            env=environment,
            start_new_session=True,
        )

    @contextmanager
    def started(self, command: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        process = self.start(command, *arguments)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def said(self, command: str, *arguments: str, status: int = 0) -> str:
        with self.started(command, *arguments) as process:
            out, err = process.communicate()
            assert process.returncode == status, out + err
            return out + err


def orders(numbers: range) -> list[bytes]:
    return [json.dumps({"id": number, "amount": number}).encode() for number in numbers]


def expected(numbers: range) -> list[bytes]:
    return sorted(
        (f'{{"id":{number},"double":{number * 2}.0}}'.encode() for number in numbers if number >= 10), key=repr
    )
