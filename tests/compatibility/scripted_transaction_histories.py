"""Scripted histories of what producers, groups and markers must not do, by name: one for each kind of bad input.

Played to Apache Kafka and to ours, and recorded, like the random ones of `transaction_histories`.
"""

from __future__ import annotations

from typing import Any, Final

from tests.compatibility.history_player import Step
from tests.compatibility.transaction_histories import LONG_MS, MISSING_PARTITION, PARTITIONS, VERSIONS

BOTH: Final = list(range(PARTITIONS))
VERY_MANY: Final = 100_000
LARGEST_ID: Final = 32_767
"""The bytes of the longest string that a request can have."""


def _init(actor: str, expected: str = "none", version: int = 5, **options: Any) -> Step:
    return Step("init", actor, version, {"expected": expected, "timeout": LONG_MS, **options})


def _add(actor: str, wrong: str = "", version: int = 3, partitions: list[int] | str = BOTH) -> Step:
    return Step("add", actor, version, {"partitions": partitions, "wrong": wrong})


def _produce(actor: str, wrong: str = "", version: int = 11, **options: Any) -> Step:
    usual = {"partition": 0, "sequence": "next", "transactional": True, "names_id": True, "count": 2}
    return Step("produce", actor, version, usual | {"wrong": wrong} | options)


def _add_offsets(actor: str, wrong: str = "", version: int = 4) -> Step:
    return Step("add_offsets", actor, version, {"wrong": wrong})


def _commit(actor: str, wrong: str = "", version: int = 4, **options: Any) -> Step:
    usual = {"consumer": "none", "partitions": BOTH, "offset": 5, "is_long": False}
    return Step("commit_in_transaction", actor, version, usual | {"wrong": wrong} | options)


def _end(actor: str, wrong: str = "", version: int = 4, *, commit: bool = True) -> Step:
    return Step("end", actor, version, {"wrong": wrong, "commit": commit})


def _marker(actor: str, wrong: str = "", **options: Any) -> Step:
    usual = {"commit": True, "partitions": BOTH, "coordinator_epoch": 0}
    return Step("marker", actor, 1, usual | {"wrong": wrong} | options)


def _look() -> list[Step]:
    """What readers and administrators see afterwards: that nothing has changed."""
    fetches = [
        Step("fetch", "", 12, {"partition": partition, "committed": committed, "offset": 0})
        for partition in BOTH
        for committed in (False, True)
    ]
    return [
        *fetches,
        Step("list_offsets", "", 7, {"partition": 0, "committed": True, "timestamp": "latest"}),
        Step("fetch_offsets", "", 8, {"stable": True}),
        Step("describe"),
        Step("describe_producers"),
        Step("list", "", 1, {"states": [], "producer": "", "duration": -1}),
    ]


def _every_request(wrong: str) -> list[Step]:
    """Every request of a producer that has a transaction, with this mistake, in its first and last version."""
    steps = [_init("a"), _add("a", partitions=[0]), _produce("a"), _add_offsets("a"), _commit("a")]
    for position in (0, 1):
        steps += [
            _add("a", wrong, VERSIONS["add"][position]),
            _add_offsets("a", wrong, VERSIONS["add_offsets"][position]),
            _commit("a", wrong, VERSIONS["commit_in_transaction"][position]),
            _end("a", wrong, VERSIONS["end"][position]),
            _produce("a", wrong, VERSIONS["produce"][position]),
        ]
        for is_verification in (True, False):
            options = {"partitions": BOTH, "wrong": wrong, "also": "", "verify": is_verification}
            steps.append(Step("add_batch", "a", VERSIONS["add_batch"][position], options))
    expected = wrong if "id" not in wrong else "none"
    return [*steps, *_look(), _init("a", expected, 3), _init("a", expected, 4), _end("a"), *_look()]


SCRIPTED: Final[dict[str, list[Step]]] = {
    "an unknown transactional id": [_init("c"), *_every_request("transactional id")],
    "an empty transactional id": [
        *_every_request("empty id"),
        *(_init("a", version=version, transactional_id="") for version in (0, 5)),
    ],
    "a stale epoch": [_init("a"), *_every_request("stale epoch")],
    "a future epoch": _every_request("future epoch"),
    "another's producer id": [_init("c"), *_every_request("producer")],
    "a partition that does not exist": [
        _init("a"),
        _add("a", partitions=[0, MISSING_PARTITION]),
        _add("a", version=0, partitions=[MISSING_PARTITION]),
        Step("add_batch", "a", 5, {"partitions": [0, MISSING_PARTITION], "wrong": "", "also": "", "verify": True}),
        _produce("a", partition=MISSING_PARTITION),
        _produce("a"),
        _commit("a", partitions=[0, MISSING_PARTITION]),
        _marker("a", partitions=[MISSING_PARTITION]),
        *_look(),
    ],
    "partitions of topics of the brokers": [
        _init("a"),
        Step("add_internal", "a", 3, {}),
        Step("add_internal", "a", 0, {}),
        *_look(),
    ],
    "very many partitions": [
        _init("a"),
        _add("a", partitions=str(VERY_MANY)),
        *_look(),
        _add("a"),
        _produce("a"),
        _end("a"),
        *_look(),
    ],
    "a transactional id of 32 KiB": [
        _init("a", transactional_id=str(LARGEST_ID)),
        _init("a", transactional_id=str(LARGEST_ID)),
        *_look(),
    ],
    "an end twice": [
        _init("a"),
        _end("a"),
        _end("a", commit=False),
        _add("a"),
        _produce("a"),
        _end("a"),
        _end("a"),
        _end("a", version=0),
        _end("a", commit=False),
        *_look(),
    ],
    "a commit after an abort": [
        _init("a"),
        _add("a"),
        _produce("a"),
        _end("a", commit=False),
        _end("a"),
        _produce("a"),
        _end("a", commit=False),
        *_look(),
    ],
    "markers of what no transaction has": [
        _marker("a"),
        _init("a"),
        _marker("a"),
        _add("a"),
        _marker("a", "stale epoch"),
        _produce("a"),
        _produce("a", partition=1),
        _marker("a", partitions=[0], commit=False),
        _marker("a", partitions=[0]),
        *_look(),
        _produce("a"),
        _end("a"),
        *_look(),
    ],
    "offsets for a group that has moved on": [
        Step("join"),
        _init("a"),
        _add_offsets("a"),
        *(
            _commit("a", consumer=consumer, version=version)
            for consumer in ("member", "generation", "unknown member", "no member id", "none")
            for version in (3, 4)
        ),
        Step("join"),
        _commit("a", consumer="generation"),
        _commit("a", consumer="member", is_long=True),
        *_look(),
        _end("a", commit=False),
        Step("leave"),
        _add_offsets("a"),
        _commit("a", consumer="member"),
        _commit("a", offset=9),
        _end("a"),
        *_look(),
    ],
    "a predecessor's open transaction": [
        _init("a"),
        _add("a"),
        _produce("a"),
        _add_offsets("a"),
        _commit("a"),
        _init("b"),
        *_look(),
        *(step for version in (0, 3) for step in (_add("a", version=version), _end("a", version=version))),
        _produce("a"),
        _commit("a"),
        _add("b"),
        _produce("b"),
        _end("b"),
        *_look(),
    ],
}
