"""The comparison of one history of transactions as two brokers answer it, and the differences that have a reason.

Used by `test_same_transaction_histories` and `record_transaction_histories`. Pure but for the brokers it is given.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.compatibility.history_player import Step, wait_for_coordinator
from tests.compatibility.transaction_history_player import READS, TransactionHistoryPlayer
from tests.support.raw_client import SECONDS, RawClient
from tests.support.server_process import ServerProcess

PROPERTIES: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}
SOME_OF_EVERY_PARTITION: Final = [f"transactional-{number}" for number in range(30)]
RECORDED: Final = Path(__file__).with_name("kafka-3.9-transaction-histories.json")
"""Histories with the answers that Apache Kafka 3.9 gave, for the test that has no Kafka."""
RECORDED_VERSION_2: Final = Path(__file__).with_name("kafka-4-transaction-version-2-histories.json")
"""Histories at transaction.version 2 with the answers that Apache Kafka 4 gave."""
READS_AGAIN_SECONDS: Final = 5.0
"""How long two live brokers may take until they answer a read alike: the group of 3.9 learns of a marker later."""


class Answered(NamedTuple):
    """A step, and what both brokers answered to it."""

    step: Step
    answer: str


class NamedDifference(NamedTuple):
    """What ours does otherwise, and why.

    explains: whether a step's answers, Kafka's and ours, are such a difference; the last argument is what came before.
    ends: the brokers know different things from there on, so the comparison of the history ends.
    """

    what: str
    why: str
    explains: Callable[[Step, str, str, Sequence[Answered]], bool]
    ends: bool = False


def _is_outside_of_transactions(step: Step) -> bool:
    return step.kind == "produce" and not step.options["transactional"]


def _has_lost_a_pending_commit(step: Step, kafka: str, ours: str, earlier: Sequence[Answered]) -> bool:
    was_refused = any(
        each.step.kind == "commit_in_transaction" and ("EPOCH" in each.answer or "TXN" in each.answer)
        for each in earlier
    )
    return step.kind == "fetch_offsets" and was_refused and "NONE -1" in kafka and kafka != ours


def _goes_on_after_an_abort(step: Step, kafka: str, ours: str, earlier: Sequence[Answered]) -> bool:
    if step.kind != "init" or step.options["expected"] != "own":
        return False
    # The request itself has the producer's transaction aborted, or its timeout had before.
    aborts = "CONCURRENT_TRANSACTIONS, then "
    was_overdue = any((each.step.kind, each.step.actor) == ("expire", step.actor) for each in earlier)
    own = ours.removeprefix(aborts)
    return (
        (kafka.startswith(aborts) or was_overdue)
        and kafka.startswith(aborts) == ours.startswith(aborts)
        and kafka.removeprefix(aborts).startswith("NONE ")
        and own in ("PRODUCER_FENCED none/-1", "INVALID_PRODUCER_EPOCH none/-1")
    )


NAMED_DIFFERENCES: Final = (
    NamedDifference(
        "A negative epoch gets an error with a name.",
        "Kafka 3.9 finds out while it builds the batch, and answers UNKNOWN_SERVER_ERROR; 4 may hang up.",
        lambda step, kafka, ours, earlier: (
            step.kind in ("marker", "commit_in_transaction")
            and step.options["wrong"] == "stale epoch"
            and ("UNKNOWN_SERVER_ERROR" in kafka or "closed" in kafka)
            and ("INVALID_REQUEST" in ours or "INVALID_PRODUCER_EPOCH" in ours)
        ),
    ),
    NamedDifference(
        "A producer whose transaction the coordinator has aborted is fenced, also when it names its id and epoch.",
        "As in Kafka 3.9. Kafka 4 remembers the epoch from before the abort, and lets the producer go on.",
        _goes_on_after_an_abort,
        ends=True,
    ),
    NamedDifference(
        "A write with a higher epoch than the producer's open transaction is verified anew, and refused.",
        "As in Kafka 4 (KIP-890 part 2). Kafka 3.9 stores it while any transaction of the producer is open.",
        lambda step, kafka, ours, earlier: (
            step.kind in ("produce", "commit_in_transaction")
            and step.options["wrong"] in ("future epoch", "producer")
            and "NONE" in kafka
            and ("INVALID_PRODUCER_EPOCH" in ours or "INVALID_PRODUCER_ID_MAPPING" in ours)
        ),
        ends=True,
    ),
    NamedDifference(
        "The coordinator decides about a batch with another's producer id, whatever epoch it has.",
        "As in Kafka 3.9. Kafka 4 compares the epoch with the log's before it asks the coordinator. Both refuse.",
        lambda step, kafka, ours, earlier: (
            step.kind == "produce"
            and step.options["wrong"] == "producer"
            and kafka.startswith("INVALID_PRODUCER_EPOCH ")
            and ours.startswith("INVALID_PRODUCER_ID_MAPPING ")
        ),
    ),
    NamedDifference(
        "A verification that was refused holds no batch outside of transactions back.",
        "In Kafka a producer that mixes both gets OUT_OF_ORDER_SEQUENCE_NUMBER. No client does, and each plain batch"
        " would pay for the question.",
        lambda step, kafka, ours, earlier: (
            _is_outside_of_transactions(step) and "OUT_OF_ORDER" in kafka and "NONE" in ours
        ),
        ends=True,
    ),
    NamedDifference(
        "A commit that was refused leaves the pending ones of the same producer id alone.",
        "Kafka 3.9 forgets them when an older epoch's commit fails, until the group is loaded anew: the marker of the"
        " transaction finds nothing.",
        _has_lost_a_pending_commit,
        ends=True,
    ),
)


class Comparison(NamedTuple):
    """answers: of Kafka, up to where the comparison ended. difference: the first without a name, in words, or ""."""

    answers: list[Answered]
    named: list[NamedDifference]
    difference: str


def named_difference(step: Step, kafka: str, ours: str, earlier: Sequence[Answered]) -> NamedDifference | None:
    """Return the named difference that explains two answers."""
    return next((each for each in NAMED_DIFFERENCES if each.explains(step, kafka, ours, earlier)), None)


def in_words(answers: Sequence[Answered], ours: str) -> str:
    """Return the steps with Kafka's answers, and what ours answers to the last of them."""
    return "\n".join([*(f"{each.step}\n    {each.answer}" for each in answers), f"  ours: {ours}"])


def start(server: ServerProcess) -> None:
    """Start a broker, and wait until both of its coordinators answer for every id."""
    server.start()
    wait_for_coordinator(server)
    with RawClient(server) as client:
        for transactional_id in SOME_OF_EVERY_PARTITION:
            client.await_transaction_coordinator(transactional_id)
            deadline = time.monotonic() + SECONDS
            request = InitProducerIdRequest(transactional_id, 60_000)
            while code := client.call(request, 4, InitProducerIdResponse).error_code:
                assert time.monotonic() < deadline, code
                time.sleep(0.05)


def compare(kafka: ServerProcess, ours: ServerProcess, history: Sequence[Step]) -> Comparison:
    """Play a history to both, step by step, under names that no other one has."""
    prefix = f"history-{uuid.uuid4().hex[:12]}"
    answers: list[Answered] = []
    named: list[NamedDifference] = []
    theirs, own = TransactionHistoryPlayer(kafka, prefix), TransactionHistoryPlayer(ours, prefix)
    try:
        for step in history:
            expected, found = theirs.play(step), own.play(step)
            deadline = time.monotonic() + READS_AGAIN_SECONDS
            while expected != found and step.kind in READS and time.monotonic() < deadline:
                time.sleep(0.05)
                expected, found = theirs.play(step), own.play(step)
            if expected != found:
                difference = named_difference(step, expected, found, answers)
                if difference is None:
                    return Comparison(answers, named, in_words([*answers, Answered(step, expected)], found))
                named.append(difference)
                if difference.ends:
                    break
            answers.append(Answered(step, expected))
    finally:
        theirs.close()
        own.close()
    return Comparison(answers, named, "")
