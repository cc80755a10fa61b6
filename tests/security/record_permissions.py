"""Records what Apache Kafka 3.9 lets a client do, for the test that has no Kafka; and the brokers of both.

    python -m tests.security.record_permissions

Writes `kafka-3.9-permissions.json`: for each profile of rights the verdict about each request of its sample, as error
codes, fields of authorized operations, and names that are seen. An answer of ours that differs ends the recording.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.security.permission_cases import (
    PROFILES,
    SETTINGS,
    Side,
    Verdict,
    common_versions,
    sample_of,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import free_port

RECORDED: Final = Path(__file__).with_name("kafka-3.9-permissions.json")
Words = str | list[object]


def in_words(verdict: Verdict | str) -> Words:
    """A verdict as JSON has it."""
    if isinstance(verdict, str):
        return verdict
    return [list(verdict.refusals), [list(each) for each in verdict.operations], list(verdict.seen)]


@contextmanager
def our_broker(directory: Path) -> Iterator[Side]:
    """Ours, running, with its topics."""
    ours = BarnabasProcess(directory / "ours", SETTINGS)
    ours.more_listeners = ("SASL_PLAINTEXT://127.0.0.1:0",)
    with ExitStack() as stack:
        stack.callback(ours.close)
        ours.start()
        side = Side(ours, ours.ports["SASL_PLAINTEXT"])
        stack.callback(side.close)
        yield side


@contextmanager
def apache_kafka(directory: Path) -> Iterator[Side]:
    """Apache Kafka 3.9, running, with the same topics."""
    port, sasl_port = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}"
    theirs = ApacheKafka(directory / "theirs", {**SETTINGS, "listeners": listeners})
    theirs.port = port
    with ExitStack() as stack:
        stack.callback(theirs.close)
        theirs.start()
        side = Side(theirs, sasl_port)
        stack.callback(side.close)
        yield side


@contextmanager
def both_sides(directory: Path) -> Iterator[tuple[Side, Side]]:
    """Ours, and Apache Kafka."""
    with apache_kafka(directory) as theirs, our_broker(directory) as ours:
        yield ours, theirs


def record() -> None:
    """Ask both brokers and write the file. Raises SystemExit: they differ."""
    profiles = []
    with tempfile.TemporaryDirectory() as place, both_sides(Path(place)) as (ours, theirs):
        versions = common_versions(ours.admin.supported_versions(), theirs.admin.supported_versions())
        for number, rights in enumerate(PROFILES):
            for side in (ours, theirs):
                side.grant(rights)
            verdicts = {}
            for case in sample_of(versions, number):
                found, expected = ours.ask(case), theirs.ask(case)
                if found != expected:
                    raise SystemExit(f"{case.name}, {[str(right) for right in rights]}: {found}, Kafka {expected}")
                verdicts[case.name] = in_words(expected)
            profiles.append({"rights": [str(right) for right in rights], "verdicts": verdicts})
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in profiles)
    served = json.dumps(versions, separators=(",", ":"))
    RECORDED.write_text(f'{{"versions": {served},\n"profiles": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    record()
