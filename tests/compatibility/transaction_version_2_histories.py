"""Histories of producers at the level 2 of the feature transaction.version (KIP-890), for Apache Kafka 4 and ours.

Used by `test_same_transaction_histories` and `record_transaction_histories`; `transaction_history_player` plays them.
Pure. A random history is one of `transaction_histories` whose producers follow the feature: Produce v12 and
TxnOffsetCommit v5 add their partitions to the transaction, and EndTxn v5 gives the next epoch. Most requests that add
partitions beforehand are left out. The remaining ones, and a few requests of earlier versions, are those of a client
that does not know of the feature: its transactions and the others' follow one another under the same id.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from tests.compatibility.history_player import Step
from tests.compatibility.scripted_transaction_histories import add, commit, end, init, look, produce
from tests.compatibility.transaction_histories import MISSING_PARTITION, SHORTEST_MS, make_history

VERSION_2: Final = {"produce": 12, "commit_in_transaction": 5, "end": 5}
"""The version of each kind of request that has the meaning of transaction.version 2."""
ADDS: Final = frozenset({"add", "add_offsets"})
"""Steps that a producer at level 2 leaves out."""


def make_version_2_history(seed: int, length: int) -> list[Step]:
    """Return a history of `length` steps at most, with the producers and mistakes of `make_history`."""
    chance = random.Random(seed)
    keeps_adds, keeps_versions = chance.choice([(0.0, 0.0), (0.1, 0.0), (0.3, 0.1)])
    return list(_at_level_2(make_history(seed, length), chance, keeps_adds, keeps_versions))


def _at_level_2(history: list[Step], chance: random.Random, keeps_adds: float, keeps_versions: float) -> Iterator[Step]:
    followers = [*history[1:], None]
    is_overdue = False
    for step, follower in zip(history, followers, strict=True):
        is_overdue = step.kind == "expire" or (is_overdue and not _begins_anew(step))
        # A batch would begin the transaction that is to time out within 1 ms before or after its own append.
        is_to_expire = follower is not None and follower.kind == "expire"
        if step.kind in ADDS and not is_to_expire and chance.random() >= keeps_adds:
            continue
        # An abort of version 2 would give an overdue producer its next epoch, for transactions of 1 ms.
        is_fenced_end = is_overdue and step.kind == "end"
        if step.kind in VERSION_2 and not is_fenced_end and chance.random() >= keeps_versions:
            yield replace(step, version=VERSION_2[step.kind])
        else:
            yield step


def _begins_anew(step: Step) -> bool:
    return step.kind == "init" and step.options["expected"] == "none"


_produce = partial(produce, version=VERSION_2["produce"])
_commit = partial(commit, version=VERSION_2["commit_in_transaction"])
_end = partial(end, version=VERSION_2["end"])


def _every_request(wrong: str) -> list[Step]:
    """Every request with this mistake: without a transaction, in one, and behind one."""
    mistakes = [_commit("a", wrong), _produce("a", wrong), _end("a", wrong, commit=False), _end("a", wrong)]
    right = [_produce("a"), _commit("a", partitions=[0])]
    return [init("a"), *mistakes, *look(), *right, *mistakes, *look(), _end("a"), *mistakes, *look()]


SCRIPTED_VERSION_2: Final[dict[str, list[Step]]] = {
    "an unknown transactional id": [init("c"), *_every_request("transactional id")],
    "an empty transactional id": _every_request("empty id"),
    "a stale epoch": [init("a"), *_every_request("stale epoch")],
    "a future epoch": _every_request("future epoch"),
    "another's producer id": [init("c"), *_every_request("producer")],
    "an epoch for each transaction": [
        init("a"),
        _produce("a"),
        _produce("a", partition=1),
        _end("a"),
        _produce("a"),
        _produce("a"),
        _commit("a"),
        _end("a", commit=False),
        _commit("a", offset=9),
        _end("a"),
        *look(),
    ],
    "an end whose answer was lost": [
        init("a"),
        *(
            step
            for is_commit in (True, False)
            for step in (
                _produce("a"),
                _end("a", commit=is_commit),
                _end("a", "stale epoch", commit=is_commit),
                _end("a", "stale epoch", commit=not is_commit),
                _produce("a"),
                _end("a", "stale epoch", commit=is_commit),
                _end("a"),
            )
        ),
        *look(),
    ],
    "an end without a transaction": [
        init("a"),
        _end("a"),
        _end("a", commit=False),
        _end("a", "stale epoch", commit=False),
        _end("a", "stale epoch"),
        _end("a", commit=False),
        _produce("a"),
        _end("a"),
        *look(),
    ],
    "late batches and offsets": [
        init("a"),
        _produce("a"),
        _end("a"),
        _produce("a", "stale epoch"),
        _commit("a", "stale epoch"),
        _produce("a"),
        _produce("a", "stale epoch"),
        _commit("a", "stale epoch"),
        _produce("a", sequence="again"),
        *look(),
        _end("a", commit=False),
        _produce("a", "stale epoch", partition=1),
        *look(),
    ],
    "sequences that do not begin at 0": [
        init("a"),
        _produce("a", sequence="gap"),
        _produce("a"),
        _produce("a", sequence="gap"),
        _produce("a", sequence="gap", partition=1),
        _end("a"),
        _produce("a", sequence="gap"),
        _produce("a", sequence="gap", partition=1),
        _produce("a", partition=1),
        _end("a"),
        *look(),
    ],
    "a partition that does not exist": [
        init("a"),
        _produce("a", partition=MISSING_PARTITION),
        _end("a"),
        _commit("a", partitions=[0, MISSING_PARTITION]),
        _commit("a", partitions=[MISSING_PARTITION]),
        _end("a"),
        *look(),
    ],
    "offsets for a group that has moved on": [
        Step("join"),
        init("a"),
        *(_commit("a", consumer=who) for who in ("generation", "unknown member", "no member id")),
        _end("a"),
        _commit("a", consumer="member", offset=7),
        *look(),
        _end("a"),
        Step("leave"),
        _commit("a", consumer="member"),
        _commit("a", offset=9),
        _commit("a", is_long=True),
        _end("a", commit=False),
        *look(),
    ],
    "requests that name no transactional id": [
        init("a"),
        _produce("a", names_id=False),
        _produce("a", transactional=False),
        _produce("a", transactional=False, names_id=False),
        _produce("a"),
        _end("a"),
        *look(),
    ],
    "a predecessor's open transaction": [
        init("a"),
        _produce("a"),
        _commit("a"),
        init("b"),
        *look(),
        _produce("a"),
        _commit("a"),
        _end("a"),
        _produce("b"),
        _end("b"),
        _end("a", commit=False),
        *look(),
    ],
    "a client learns of the feature and forgets it": [
        init("a"),
        add("a"),
        produce("a"),
        end("a"),
        _produce("a"),
        produce("a", partition=1),
        add("a"),
        produce("a", partition=1),
        _end("a"),
        add("a"),
        produce("a"),
        _produce("a"),
        _end("a"),
        _produce("a"),
        end("a"),
        add("a"),
        produce("a"),
        end("a", commit=False),
        *look(),
    ],
    "a transaction that times out": [
        init("a", timeout=SHORTEST_MS),
        add("a"),
        Step("expire", "a"),
        _end("a"),
        _end("a", commit=False),
        *look(),
        init("a"),
        _produce("a"),
        _end("a"),
        *look(),
    ],
}
