"""Random histories of transactions get the same answers from Apache Kafka 3.9 and 4 as from ours, step by step.

`make test` plays to ours what was played to Apache Kafka when the histories were recorded
(`python -m tests.compatibility.record_transaction_histories`); `make test-all` plays hundreds to both at once. A
difference between live brokers counts if it is there every time; it is one of NAMED_DIFFERENCES, or the test fails.

Kafka 4 finalizes transaction.version 2 at the format. It treats requests of versions before that feature's as a broker
without the feature does (docs/decisions/0038). So it answers both kinds of histories: those of `transaction_histories`,
as 3.9 does, and those of producers that follow the feature (`transaction_version_2_histories`).
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.compatibility.history_player import Step
from tests.compatibility.transaction_comparison import (
    PROPERTIES,
    RECORDED,
    RECORDED_VERSION_2,
    Answered,
    Comparison,
    compare,
    in_words,
    named_difference,
    start,
)
from tests.compatibility.transaction_histories import make_history
from tests.compatibility.transaction_history_player import READS, TransactionHistoryPlayer
from tests.compatibility.transaction_version_2_histories import make_version_2_history
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.apache_kafka_4 import ApacheKafka4, need_apache_kafka_4
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import SECONDS

FIRST_SEED = int(os.environ.get("BARNABAS_TRANSACTION_HISTORIES_SEED", "1000"))
HISTORIES = int(os.environ.get("BARNABAS_TRANSACTION_HISTORIES", "300"))
STEPS: Final = 24
ATTEMPTS: Final = 4
MOST_TOLD: Final = 5
"""The campaign stops when so many histories differ."""


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("need", "kafka_class", "make"),
    [
        (need_apache_kafka, ApacheKafka, make_history),
        (need_apache_kafka_4, ApacheKafka4, make_history),
        (need_apache_kafka_4, ApacheKafka4, make_version_2_history),
    ],
    ids=["apache-kafka", "apache-kafka-4", "apache-kafka-4-transaction-version-2"],
)
def test_same_answers(
    need: Callable[[], None], kafka_class: type[ApacheKafka], make: Callable[[int, int], list[Step]], tmp_path: Path
) -> None:
    need()
    kafka, ours = kafka_class(tmp_path / "kafka", PROPERTIES), BarnabasProcess(tmp_path / "ours", PROPERTIES)
    named: Counter[str] = Counter()
    differences: list[str] = []
    try:
        start(kafka)
        start(ours)
        for seed in range(FIRST_SEED, FIRST_SEED + HISTORIES):
            compared = _compare_often(kafka, ours, make(seed, STEPS))
            named.update(each.what for each in compared.named)
            if compared.difference:
                differences.append(f"seed {seed}\n{compared.difference}")
            if len(differences) == MOST_TOLD:
                break
    finally:
        kafka.close()
        ours.close()
    print(f"{HISTORIES} histories; differences: {dict(named)}")  # noqa: T201
    assert not differences, "\n\n".join(differences)


def _compare_often(kafka: ApacheKafka, ours: BarnabasProcess, history: list[Step]) -> Comparison:
    for _ in range(ATTEMPTS - 1):
        compared = compare(kafka, ours, history)
        if not compared.difference:
            return compared
    return compare(kafka, ours, history)


@pytest.mark.parametrize("file", [RECORDED, RECORDED_VERSION_2], ids=["apache-kafka", "transaction-version-2"])
def test_recorded_answers(file: Path, tmp_path: Path) -> None:
    """Ours alone, against what Kafka answered. A read is repeated until its answer is Kafka's."""
    recorded = json.loads(file.read_text())
    assert len(recorded["histories"]) >= 30
    ours = BarnabasProcess(tmp_path / "ours", PROPERTIES)
    try:
        start(ours)
        for number, history in enumerate(recorded["histories"]):
            player = TransactionHistoryPlayer(ours, f"recorded-{number}")
            answers: list[Answered] = []
            for kind, actor, version, options, expected in history:
                step = Step(kind, actor, version, options)
                found = player.play(step)
                deadline = time.monotonic() + SECONDS
                while found != expected and kind in READS and time.monotonic() < deadline:
                    time.sleep(0.05)
                    found = player.play(step)
                if found != expected and named_difference(step, expected, found, answers) is None:
                    told = in_words([*answers, Answered(step, expected)], found)
                    pytest.fail(f"history {number}\n{told}", pytrace=False)
                answers.append(Answered(step, expected))
            player.close()
    finally:
        ours.close()
