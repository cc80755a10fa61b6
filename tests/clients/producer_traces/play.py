"""Plays a session with a producer, ours or Apache Kafka's, and returns what the scripted broker was sent.

Called by test_producer_traces.py. Run as a program, it records Kafka's producer into recorded.json:

    python -m tests.clients.producer_traces.play
"""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from barnabas.clients.errors import ClientTimeout
from barnabas.clients.producer import Producer, ProducerConfig, RecordMetadata
from barnabas.protocol.errors import ApiError
from tests.clients.producer_traces.sessions import SESSIONS, Session
from tests.clients.producer_traces.traced_broker import TOPIC, TracedBroker
from tests.support.maven import fetch_jars, find_java

RECORDED = Path(__file__).with_name("recorded.json")
POM = Path(__file__).parent.parent.parent / "wire" / "kafka-clients-4.xml"
PROGRAM = Path(__file__).with_name("TraceProducer.java")


def result(session: Session, trace: list[Any], outcomes: list[str]) -> dict[str, Any]:
    """What is recorded of a session: the trace, and each record's offset or error."""
    if not session.names_partitions:
        for entry in trace:
            if entry[0] == "produce":
                names = sorted({batch[0] for batch in entry[3]})
                entry[3] = [[f"partition {names.index(batch[0])}", *batch[1:]] for batch in entry[3]]
    return {"trace": trace, "outcomes": outcomes}


# -- our producer


def play_ours(session: Session) -> dict[str, Any]:
    """Play a session with our producer."""
    with TracedBroker(session.partitions, session.answers) as broker:
        producer = Producer(broker.bootstrap_servers, our_config(session))
        futures: list[Future[RecordMetadata]] = []
        for step in session.steps:
            words = step.split(" ")
            if words[0] == "flush":
                producer.flush()
            else:
                _, partition, key, value = words
                futures.append(
                    producer.send(
                        TOPIC,
                        _value(value),
                        None if key == "-" else key.encode(),
                        partition=None if partition == "-" else int(partition),
                    )
                )
        producer.close()
        return result(session, broker.whole_trace(), [_outcome(future) for future in futures])


def our_config(session: Session) -> ProducerConfig:
    """The settings of a session, as ours take them."""
    values: dict[str, Any] = {}
    for name, text in session.all_settings.items():
        value: Any = {"true": True, "false": False}.get(text, text)
        values[name.replace(".", "_")] = int(text) if text.isdecimal() else value
    return ProducerConfig(**values)


def _value(word: str) -> bytes:
    text, _, size = word.partition("*")
    return text.ljust(int(size or 0), ".").encode()


def _outcome(future: Future[RecordMetadata]) -> str:
    error = future.exception(0)
    if error is None:
        return str(future.result().offset)
    if isinstance(error, ApiError):
        return error.code.name
    return "REQUEST_TIMED_OUT" if isinstance(error, ClientTimeout) else type(error).__name__


# -- Apache Kafka's producer


class JavaPlayer:
    """One JVM that plays sessions, one after the other. A context manager. Raises CounterpartMissing."""

    def __init__(self) -> None:
        command = [find_java(), "-Xmx256m", "-cp", f"{fetch_jars(POM)}/*", str(PROGRAM)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def play(self, session: Session) -> dict[str, Any]:
        """Play a session with Apache Kafka's producer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with TracedBroker(session.partitions, session.answers) as broker:
            settings = {"bootstrap.servers": broker.bootstrap_servers, **session.all_settings}
            lines = [f"set {name} {value}" for name, value in settings.items()]
            self._process.stdin.write("\n".join([*lines, "begin", *session.steps, "end", ""]))
            self._process.stdin.flush()
            outcomes = self._process.stdout.readline().split()
            return result(session, broker.whole_trace(), outcomes)


def main() -> None:
    """Record all sessions."""
    with JavaPlayer() as player:
        recorded = {session.name: player.play(session) for session in SESSIONS}
    lines = (f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in recorded.items())
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
