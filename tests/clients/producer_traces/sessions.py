"""The scripted sessions: settings of the producer, what its user does, and what the broker answers.

A step is `send <partition> <key> <value>` ("-": none; a value `<name>*<size>` is filled up to so many bytes), or
`flush`. Every session ends with a close. Records wait for a flush (linger.ms), so that
batches do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from tests.clients.producer_traces.traced_broker import OK, Answer

DEFAULTS = {
    "linger.ms": "60000",
    "request.timeout.ms": "10000",
    "delivery.timeout.ms": "120000",
    "retry.backoff.ms": "50",
    "reconnect.backoff.ms": "20",
}
ONE_BY_ONE = {"batch.size": "200"}
"""Each record of `large` is a batch. (With batch.size=0, Kafka's producer still joins two small records.)"""

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Session(NamedTuple):
    """One session. `answers`: groups of answers to Produce, each given when all requests of its group have arrived."""

    name: str
    steps: Sequence[str]
    answers: Sequence[Sequence[Answer]] = ()
    settings: Mapping[str, str] = {}
    partitions: int = 1
    names_partitions: bool = True
    """Whether the partitions' numbers count, or only which records are together."""

    @property
    def all_settings(self) -> dict[str, str]:
        """The settings, by Kafka's names."""
        return {**DEFAULTS, **self.settings}


def sends(count: int, first: int = 0, partition: str = "0") -> list[str]:
    """Steps that send v0, v1 and so on."""
    return [f"send {partition} - v{number}" for number in range(first, first + count)]


def large(count: int, first: int = 0) -> list[str]:
    """Steps that send records of which two do not fit into a batch of ONE_BY_ONE."""
    return [f"send 0 - v{number}*150" for number in range(first, first + count)]


FIRST = ["send 0 - first", "flush"]
"""The first batch of our producer's epoch goes alone (decision 0023), so that sessions with several begin with it."""

KEYS = ["a", "b", "c", "alice", "bob", "carol", "0", "1", "2", "ключ", "x" * 40, "dave"]

SESSIONS = (
    Session("keys choose partitions", [f"send - {key} v{key[:5]}" for key in KEYS] + ["flush"], partitions=3),
    Session(
        "records without a key stay together", [*sends(6, partition="-"), "flush"], partitions=3, names_partitions=False
    ),
    Session("five in flight, numbered in order", [*FIRST, *large(7), "flush"], [[OK], [OK] * 5, [OK] * 2], ONE_BY_ONE),
    Session(
        "batches are filled to their size",
        [f"send 0 - v{n}*100" for n in range(40)] + ["flush"],
        (),
        {"batch.size": "1000"},
    ),
    Session("a leader that is none", [*sends(3), "flush"], [[NOT_LEADER]]),
    Session("five that no leader took", [*FIRST, *large(5), "flush"], [[OK], [NOT_LEADER] * 5], ONE_BY_ONE),
    Session(
        "the first of five is lost, the others come too early",
        [*FIRST, *large(5), "flush"],
        [[OK], [NOT_LEADER, *[OUT_OF_ORDER] * 4]],
        ONE_BY_ONE,
    ),
    Session(
        "a connection that ends with three in flight",
        [*FIRST, *large(3), "flush"],
        [[OK], ["disconnect"] * 3],
        ONE_BY_ONE,
    ),
    Session("errors that pass", [*sends(1), "flush"], [[ErrorCode.NOT_ENOUGH_REPLICAS], [ErrorCode.REQUEST_TIMED_OUT]]),
    Session(
        "a gap that no retry fills begins a new epoch",
        [*sends(1), "flush", *sends(1, 1), "flush", *sends(1, 2), "flush"],
        [[OK], [OUT_OF_ORDER]],
    ),
    Session(
        "a producer that the broker has forgotten",
        [*sends(1), "flush", *sends(1, 1), "flush", *sends(1, 2), "flush"],
        [[OK], [ErrorCode.UNKNOWN_PRODUCER_ID]],
    ),
    Session(
        "a duplicate counts as stored",
        [*sends(1), "flush", *sends(1, 1), "flush"],
        [[OK], [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]],
    ),
    Session(
        "a failure in front of others",
        [*FIRST, *large(3), "flush", *large(1, 3), "flush"],
        [[OK], [ErrorCode.TOPIC_AUTHORIZATION_FAILED, OUT_OF_ORDER, OUT_OF_ORDER]],
        ONE_BY_ONE,
    ),
    Session(
        "a batch that is too large is split",
        [*FIRST] + [f"send 0 - v{n}*300" for n in range(10)] + ["flush"],
        [[OK], [ErrorCode.MESSAGE_TOO_LARGE, OUT_OF_ORDER]],
        {"batch.size": "2000"},
    ),
    Session("acks=0", [*sends(2), "flush"], (), {"acks": "0"}),
    Session("acks=1", [*sends(2), "flush"], (), {"acks": "1"}),
    Session("acks=1, tried again", [*sends(2), "flush"], [[NOT_LEADER]], {"acks": "1"}),
    Session("acks=all without idempotence", [*sends(2), "flush"], (), {"enable.idempotence": "false"}),
    Session("no retries", [*sends(2), "flush"], [[NOT_LEADER]], {"retries": "0"}),
    Session(
        "one in flight keeps the order",
        [*FIRST, *large(3), "flush"],
        [[OK], [NOT_LEADER]],
        {**ONE_BY_ONE, "max.in.flight.requests.per.connection": "1", "enable.idempotence": "false"},
    ),
    Session("close sends what waits", sends(4)),
    *(
        Session(f"compressed with {codec}", [*sends(20), "flush"], (), {"compression.type": codec})
        for codec in ("gzip", "snappy", "lz4", "zstd")
    ),
)
