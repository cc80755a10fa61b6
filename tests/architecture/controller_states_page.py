"""docs/controller-states.md: the states of a partition and of a replica, drawn from the controller's tables."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from barnabas.controller.state_tables import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionState,
    PartitionTransition,
    ReplicaState,
    ReplicaTransition,
)

_HEAD = """# The controller's states of partitions and replicas

Drawn from `controller/state_tables.py` by `make docs`. Only the controller has
these states, in its memory; what brokers and ZooKeeper know of a partition is its leader, its in-sync replicas and
their epochs. [replication.md](replication.md) tells what moves them. Both tables are Apache Kafka's.
"""


def controller_states_page() -> str:
    """The two pictures; what each state is, and what each transition takes."""
    partitions = _chapter("Partitions", PartitionState.NON_EXISTENT, PartitionState, PARTITION_TRANSITIONS)
    replicas = _chapter("Replicas", ReplicaState.NON_EXISTENT, ReplicaState, REPLICA_TRANSITIONS)
    return "\n".join([_HEAD, *partitions, "", *replicas]) + "\n"


def _chapter(
    title: str,
    first: enum.Enum,
    states: type[enum.Enum],
    table: Mapping[Any, PartitionTransition | ReplicaTransition | None],
) -> list[str]:
    found = {key: transition for key, transition in table.items() if transition is not None}
    meanings = _meanings(states)
    return [
        f"## {title}",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {first.value}",
        *(f"    {state.value} --> {target.value}" for state, target in found),
        "```",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| {state.value} | {meanings[state.name]} |" for state in states),
        "",
        "| in | asked to be | what it takes |",
        "|---|---|---|",
        *(
            f"| {state.value} | {target.value} | {'; '.join(effect.value for effect in transition.effects)} |"
            for (state, target), transition in found.items()
        ),
    ]


def _meanings(states: type[enum.Enum]) -> dict[str, str]:
    """The words of the docstring by the names of the states: its lines are `- NAME, NAME: words`."""
    text = " ".join((states.__doc__ or "").split())
    return {
        name: words.strip()
        for names, _, words in (line.partition(": ") for line in text.split(" - ")[1:])
        for name in names.split(", ")
    }
