"""Seeded histories of requests to a transaction coordinator, to the partitions of its transactions and to a group.

Used by `test_same_transaction_histories` and `record_transaction_histories`; `transaction_history_player` plays them.
Pure. A history names actors, not producer ids: what an actor has is what each broker gave it.

Four producers: `a` and `b` have the same transactional id, so that each fences the other; `c` has another one; `d` has
none and is idempotent only. They write to two partitions of one topic, and commit offsets for one group, of which one
consumer may be a member.

Versions are those that Apache Kafka 3.9 and 4 serve alike. Those of the feature transaction.version 2 are left out:
EndTxn v5, TxnOffsetCommit v5, Produce v12. A broker on which the feature is finalized treats earlier versions as one
without it does.

A transaction whose timeout passes is the one thing that depends on a clock. A step "expire" waits until the coordinator
has aborted it. The timeout is 1 ms where nothing happens between the beginning and that step, else the history
`depends_on_time`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from tests.compatibility.history_player import Step

TRANSACTIONAL_IDS: Final = {"a": "t", "b": "t", "c": "u", "d": None}
"""By actor: what comes behind the player's prefix."""
TRANSACTIONAL: Final = ("a", "b", "c")
PARTITIONS: Final = 2
MISSING_PARTITION: Final = 7
LONG_MS, SHORT_MS, SHORTEST_MS = 600_000, 3000, 1
VERSIONS: Final = {
    "init": (0, 5),
    "add": (0, 3),
    "add_batch": (4, 5),
    "produce": (3, 11),
    "add_offsets": (0, 4),
    "commit_in_transaction": (0, 4),
    "end": (0, 4),
    "marker": (1, 1),  # Kafka 4 has no earlier one
    "describe": (0, 0),
    "list": (0, 1),
    "describe_producers": (0, 0),
    "find_coordinator": (1, 5),
    "fetch": (4, 16),
    "list_offsets": (2, 7),
    "fetch_offsets": (1, 9),
    "commit": (2, 8),
}
"""The first and the last version of each kind of step that is sent."""
WRONG: Final = ("stale epoch", "future epoch", "producer", "transactional id", "empty id")
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "CompleteAbort", "Dead", "NoSuchState")


def make_history(seed: int, length: int) -> list[Step]:
    """Return a history of about `length` steps."""
    chance = random.Random(seed)
    actors = chance.choice([["a"], ["a", "b"], ["a", "c"], ["a", "b", "c"], ["a", "b", "c", "d"]])
    steps: list[Step] = []
    if chance.random() < 0.8:  # most of what can go wrong needs a producer first
        steps += [_step(chance, "init", actor, expected="none", timeout=LONG_MS) for actor in actors]
    if chance.random() < 0.3:
        steps.append(Step("join"))
    while len(steps) < length:
        steps += _next_steps(chance, chance.choice(actors))
    return [*steps, *_last_look(actors)]


def depends_on_time(history: Sequence[Step]) -> bool:
    """Return whether a slow machine may play the history otherwise: a timeout may pass too early."""
    return any(step.options.get("timeout") == SHORT_MS for step in history)


def _last_look(actors: Sequence[str]) -> list[Step]:
    """Steps that end what may be open, and read everything."""
    ends = [Step("end", actor, 2, {"wrong": "", "commit": True}) for actor in actors if actor in TRANSACTIONAL]
    reads = [Step("fetch", "", 12, {"partition": index, "committed": True, "offset": 0}) for index in range(PARTITIONS)]
    return [*ends, *reads, Step("fetch_offsets", "", 7, {"stable": True}), Step("describe")]


def _step(chance: random.Random, kind: str, actor: str = "", **options: Any) -> Step:
    """Return a step of one of the versions of its kind."""
    return Step(kind, actor, chance.randint(*VERSIONS[kind]), options)


def _wrong(chance: random.Random, probability: float) -> str:
    return chance.choice(WRONG) if chance.random() < probability else ""


def _next_steps(chance: random.Random, actor: str) -> list[Step]:
    draw = chance.random()
    if draw < 0.20:
        return _whole_transaction(chance, actor)
    if draw < 0.24 and actor in TRANSACTIONAL:
        return _overdue_transaction(chance, actor)
    if draw < 0.55:
        return [_request_of_transaction(chance, actor)]
    if draw < 0.72:
        return [_produce(chance, actor)]
    if draw < 0.78:
        return [_of_group(chance, actor)]
    return [_read(chance)]


def _whole_transaction(chance: random.Random, actor: str) -> list[Step]:
    """What a producer does that makes no mistake; other steps may come in between, by other actors."""
    if actor not in TRANSACTIONAL:
        return [_produce(chance, actor)]
    partitions = chance.choice([[0], [1], [0, 1]])
    steps = [_step(chance, "add", actor, partitions=partitions, wrong="")]
    steps += [_right_produce(chance, actor, partition) for partition in partitions]
    if chance.random() < 0.4:
        steps.append(_step(chance, "add_offsets", actor, wrong=""))
        steps.append(_commit_in_transaction(chance, actor, mistakes=0.0))
    if chance.random() < 0.3:
        steps.append(_read(chance))
    if chance.random() < 0.9:
        steps.append(_step(chance, "end", actor, wrong="", commit=chance.random() < 0.6))
    return [*steps, _read(chance)]


def _overdue_transaction(chance: random.Random, actor: str) -> list[Step]:
    """A transaction whose timeout passes, what its producer tries afterwards, and a new beginning."""
    keeps = chance.random() < 0.1
    timeout_ms = SHORT_MS if keeps else SHORTEST_MS
    steps = [_step(chance, "init", actor, expected="none", timeout=timeout_ms)]
    if not keeps and chance.random() < 0.3:
        steps.append(_step(chance, "add_offsets", actor, wrong=""))
    else:
        steps.append(_step(chance, "add", actor, partitions=[0, 1], wrong=""))
        if keeps:
            steps.append(_right_produce(chance, actor, 0))
    steps.append(Step("expire", actor))
    tries = [
        _step(chance, "end", actor, wrong="", commit=chance.random() < 0.5),
        _step(chance, "add", actor, partitions=[0], wrong=""),
        _right_produce(chance, actor, 0),
        _step(chance, "add_offsets", actor, wrong=""),
        _commit_in_transaction(chance, actor, mistakes=0.0),
        _read(chance),
    ]
    steps += chance.sample(tries, 2)
    again = _step(chance, "init", actor, expected=chance.choice(["none", "own"]), timeout=LONG_MS)
    return [*steps, again, _step(chance, "init", actor, expected="none", timeout=LONG_MS)]


def _request_of_transaction(chance: random.Random, actor: str) -> Step:
    draw = chance.random()
    if draw < 0.25:
        expected = chance.choices(
            ["none", "own", "stale epoch", "future epoch", "producer", "half"], [8, 6, 1, 1, 1, 0.5]
        )
        timeout_ms = chance.choices([LONG_MS, 0, -1, 900_001], [30, 1, 0.5, 1])[0]
        return _step(chance, "init", actor, expected=expected[0], timeout=timeout_ms)
    if draw < 0.50:
        partitions = chance.choice([[0], [1], [0, 1], [0, 1], [0, MISSING_PARTITION], []])
        return _step(chance, "add", actor, partitions=partitions, wrong=_wrong(chance, 0.3))
    if draw < 0.60:
        partitions = chance.choice([[0], [1], [0, 1], [0, MISSING_PARTITION]])
        options = {"also": chance.choice(["", "", *TRANSACTIONAL]), "verify": chance.random() < 0.6}
        return _step(chance, "add_batch", actor, partitions=partitions, wrong=_wrong(chance, 0.2), **options)
    if draw < 0.70:
        return _step(chance, "add_offsets", actor, wrong=_wrong(chance, 0.25))
    if draw < 0.92:
        return _step(chance, "end", actor, wrong=_wrong(chance, 0.2), commit=chance.random() < 0.6)
    wrong = chance.choice(["", "", "stale epoch"])
    partitions = chance.choice([[0], [1], [0, 1], [0, MISSING_PARTITION]])
    return _step(
        chance,
        "marker",
        actor,
        wrong=wrong,
        commit=chance.random() < 0.5,
        partitions=partitions,
        coordinator_epoch=0,
    )


def _right_produce(chance: random.Random, actor: str, partition: int) -> Step:
    usual = {"wrong": "", "sequence": "next", "transactional": True, "names_id": True, "count": chance.randint(1, 3)}
    return _step(chance, "produce", actor, partition=partition, **usual)


def _produce(chance: random.Random, actor: str) -> Step:
    is_transactional = actor in TRANSACTIONAL
    if chance.random() < 0.07:
        is_transactional = not is_transactional
    # The coordinator is not asked about a plain batch. One with an epoch from the future is stored, and fences the
    # markers of the producer's transactions: Kafka's coordinator gives them up, and waits for ever.
    mistakes = ["stale epoch", "future epoch", "producer"] if is_transactional else ["stale epoch"]
    return _step(
        chance,
        "produce",
        actor,
        partition=chance.choices([0, 1, MISSING_PARTITION], [10, 10, 1])[0],
        wrong=chance.choice(mistakes) if chance.random() < 0.15 else "",
        sequence=chance.choices(["next", "again", "gap", "first"], [10, 2, 1, 1])[0],
        transactional=is_transactional,
        names_id=is_transactional if chance.random() < 0.95 else not is_transactional,
        count=chance.randint(1, 3),
    )


def _of_group(chance: random.Random, actor: str) -> Step:
    draw = chance.random()
    if draw < 0.55 and actor in TRANSACTIONAL:
        return _commit_in_transaction(chance, actor, mistakes=0.3)
    if draw < 0.75:
        return _step(chance, "commit", offset=chance.randrange(100), partition=chance.randrange(PARTITIONS))
    return Step(chance.choice(["join", "join", "leave"]))


def _commit_in_transaction(chance: random.Random, actor: str, *, mistakes: float) -> Step:
    as_whom = ["none", "member"] if not mistakes else ["none", "member", "generation", "unknown member", "no member id"]
    return _step(
        chance,
        "commit_in_transaction",
        actor,
        wrong=_wrong(chance, mistakes),
        consumer=chance.choice(as_whom),
        partitions=chance.choice([[0], [1], [0, 1], [0, MISSING_PARTITION]]),
        offset=chance.randrange(100),
        is_long=chance.random() < mistakes / 10,
    )


def _read(chance: random.Random) -> Step:
    draw, partition = chance.random(), chance.randrange(PARTITIONS)
    if draw < 0.30:
        return _step(
            chance, "fetch", partition=partition, committed=chance.random() < 0.8, offset=chance.choice([0, 0, 3])
        )
    if draw < 0.45:
        timestamp = chance.choice(["latest", "latest", "earliest", "middle"])
        return _step(chance, "list_offsets", partition=partition, committed=chance.random() < 0.7, timestamp=timestamp)
    if draw < 0.60:
        return _step(chance, "fetch_offsets", stable=chance.random() < 0.6)
    if draw < 0.75:
        return _step(chance, "describe")
    if draw < 0.88:
        return _step(chance, "describe_producers")
    if draw < 0.97:
        states = chance.choice([[], [], [chance.choice(STATES)], chance.sample(STATES, 2)])
        producer = chance.choice(["", "", *TRANSACTIONAL])
        return _step(chance, "list", states=states, producer=producer, duration=chance.choice([-1, -1, 0, 3_600_000]))
    return _step(chance, "find_coordinator", transactional_id=chance.choice(["t", "nobody"]))
