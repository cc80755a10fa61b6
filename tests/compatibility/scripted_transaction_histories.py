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


def init(actor: str, expected: str = "none", version: int = 5, **options: Any) -> Step:
    return Step("init", actor, version, {"expected": expected, "timeout": LONG_MS, **options})


def add(actor: str, wrong: str = "", version: int = 3, partitions: list[int] | str = BOTH) -> Step:
    return Step("add", actor, version, {"partitions": partitions, "wrong": wrong})


def produce(actor: str, wrong: str = "", version: int = 11, **options: Any) -> Step:
    usual = {"partition": 0, "sequence": "next", "transactional": True, "names_id": True, "count": 2}
    return Step("produce", actor, version, usual | {"wrong": wrong} | options)


def add_offsets(actor: str, wrong: str = "", version: int = 4) -> Step:
    return Step("add_offsets", actor, version, {"wrong": wrong})


def commit(actor: str, wrong: str = "", version: int = 4, **options: Any) -> Step:
    usual = {"consumer": "none", "partitions": BOTH, "offset": 5, "is_long": False}
    return Step("commit_in_transaction", actor, version, usual | {"wrong": wrong} | options)


def end(actor: str, wrong: str = "", version: int = 4, *, commit: bool = True) -> Step:
    return Step("end", actor, version, {"wrong": wrong, "commit": commit})


def marker(actor: str, wrong: str = "", **options: Any) -> Step:
    usual = {"commit": True, "partitions": BOTH, "coordinator_epoch": 0}
    return Step("marker", actor, 1, usual | {"wrong": wrong} | options)


def look() -> list[Step]:
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
    steps = [init("a"), add("a", partitions=[0]), produce("a"), add_offsets("a"), commit("a")]
    for position in (0, 1):
        steps += [
            add("a", wrong, VERSIONS["add"][position]),
            add_offsets("a", wrong, VERSIONS["add_offsets"][position]),
            commit("a", wrong, VERSIONS["commit_in_transaction"][position]),
            end("a", wrong, VERSIONS["end"][position]),
            produce("a", wrong, VERSIONS["produce"][position]),
        ]
        for is_verification in (True, False):
            options = {"partitions": BOTH, "wrong": wrong, "also": "", "verify": is_verification}
            steps.append(Step("add_batch", "a", VERSIONS["add_batch"][position], options))
    expected = wrong if "id" not in wrong else "none"
    return [*steps, *look(), init("a", expected, 3), init("a", expected, 4), end("a"), *look()]


SCRIPTED: Final[dict[str, list[Step]]] = {
    "an unknown transactional id": [init("c"), *_every_request("transactional id")],
    "an empty transactional id": [
        *_every_request("empty id"),
        *(init("a", version=version, transactional_id="") for version in (0, 5)),
    ],
    "a stale epoch": [init("a"), *_every_request("stale epoch")],
    "a future epoch": _every_request("future epoch"),
    "another's producer id": [init("c"), *_every_request("producer")],
    "a partition that does not exist": [
        init("a"),
        add("a", partitions=[0, MISSING_PARTITION]),
        add("a", version=0, partitions=[MISSING_PARTITION]),
        Step("add_batch", "a", 5, {"partitions": [0, MISSING_PARTITION], "wrong": "", "also": "", "verify": True}),
        produce("a", partition=MISSING_PARTITION),
        produce("a"),
        commit("a", partitions=[0, MISSING_PARTITION]),
        marker("a", partitions=[MISSING_PARTITION]),
        *look(),
    ],
    "partitions of topics of the brokers": [
        init("a"),
        Step("add_internal", "a", 3, {}),
        Step("add_internal", "a", 0, {}),
        *look(),
    ],
    "very many partitions": [
        init("a"),
        add("a", partitions=str(VERY_MANY)),
        *look(),
        add("a"),
        produce("a"),
        end("a"),
        *look(),
    ],
    "a transactional id of 32 KiB": [
        init("a", transactional_id=str(LARGEST_ID)),
        init("a", transactional_id=str(LARGEST_ID)),
        *look(),
    ],
    "an end twice": [
        init("a"),
        end("a"),
        end("a", commit=False),
        add("a"),
        produce("a"),
        end("a"),
        end("a"),
        end("a", version=0),
        end("a", commit=False),
        *look(),
    ],
    "a commit after an abort": [
        init("a"),
        add("a"),
        produce("a"),
        end("a", commit=False),
        end("a"),
        produce("a"),
        end("a", commit=False),
        *look(),
    ],
    "markers of what no transaction has": [
        marker("a"),
        init("a"),
        marker("a"),
        add("a"),
        marker("a", "stale epoch"),
        produce("a"),
        produce("a", partition=1),
        marker("a", partitions=[0], commit=False),
        marker("a", partitions=[0]),
        *look(),
        produce("a"),
        end("a"),
        *look(),
    ],
    "offsets for a group that has moved on": [
        Step("join"),
        init("a"),
        add_offsets("a"),
        *(
            commit("a", consumer=consumer, version=version)
            for consumer in ("member", "generation", "unknown member", "no member id", "none")
            for version in (3, 4)
        ),
        Step("join"),
        commit("a", consumer="generation"),
        commit("a", consumer="member", is_long=True),
        *look(),
        end("a", commit=False),
        Step("leave"),
        add_offsets("a"),
        commit("a", consumer="member"),
        commit("a", offset=9),
        end("a"),
        *look(),
    ],
    "a predecessor's open transaction": [
        init("a"),
        add("a"),
        produce("a"),
        add_offsets("a"),
        commit("a"),
        init("b"),
        *look(),
        *(step for version in (0, 3) for step in (add("a", version=version), end("a", version=version))),
        produce("a"),
        commit("a"),
        add("b"),
        produce("b"),
        end("b"),
        *look(),
    ],
}
