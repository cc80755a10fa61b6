"""The client libraries whose consumers sit the exams, ours among them: how each is started, and what it can do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.groups import member_builds
from tests.support.maven import counterparts_needed


class Library(NamedTuple):
    """One client library."""

    name: str
    command: Callable[[], list[str]]
    """Raises CounterpartMissing."""
    is_static: bool = True
    """Knows group.instance.id (KIP-345)."""
    is_cooperative: bool = True
    """Has the assignor cooperative-sticky (KIP-429)."""
    speaks_consumer_protocol: bool = False
    """Knows KIP-848."""


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.groups.members.{module}"]


CONFLUENT_KAFKA = Library("confluent-kafka", _python("confluent_kafka_member"), speaks_consumer_protocol=True)
KAFKA_PYTHON = Library("kafka-python", _python("kafka_python_member"))
AIOKAFKA = Library("aiokafka", _python("aiokafka_member"), is_cooperative=False)
KAFKAJS = Library("kafkajs", member_builds.kafkajs_member, is_static=False, is_cooperative=False)
FRANZ_GO = Library("franz-go", member_builds.franz_go_member, speaks_consumer_protocol=True)
JAVA = Library("java", member_builds.java_member, speaks_consumer_protocol=True)
BARNABAS = Library("barnabas", _python("barnabas_member"), speaks_consumer_protocol=True)

LIBRARIES = (CONFLUENT_KAFKA, KAFKA_PYTHON, AIOKAFKA, KAFKAJS, FRANZ_GO, JAVA, BARNABAS)
CONSUMER_SPEAKERS = tuple(library for library in LIBRARIES if library.speaks_consumer_protocol)


def need_libraries(libraries: Iterable[Library]) -> None:
    """Build what is to be built; skip the test, or fail it under CI, where that cannot be."""
    with counterparts_needed():
        for library in libraries:
            library.command()
