"""docs/transaction-states.md: the states of a transactional id, drawn from the coordinator's table."""

from __future__ import annotations

from barnabas.coordinator.transaction.transaction_metadata import PREVIOUS_STATES, TransactionState

_HEAD = """# The states of a transactional id

Drawn from `coordinator/transaction/transaction_metadata.py` by `make docs`. [transactions.md](transactions.md) tells
what happens in them.

```mermaid
stateDiagram-v2
"""


def transaction_states_page() -> str:
    """The page: a picture, and what each state is."""
    arrows = [
        f"    {previous.shown_name} --> {state.shown_name}"
        for state, previous_states in PREVIOUS_STATES.items()
        for previous in sorted(previous_states, key=lambda each: each.value)
    ]
    rows = [f"| {state.shown_name} | {state.value} | {_meaning(state)} |" for state in TransactionState]
    picture = "\n".join(["    [*] --> Empty", *arrows, "    Dead --> [*]"])
    table = "\n".join(["| state | in the log | meaning |", "|---|---|---|", *rows])
    return f"{_HEAD}{picture}\n```\n\n{table}\n"


def _meaning(state: TransactionState) -> str:
    """The words of the class's docstring: its lines are `- NAME, NAME: words`."""
    text = " ".join((TransactionState.__doc__ or "").split())
    for line in text.split(" - ")[1:]:
        names, _, words = line.partition(": ")
        if state.name in names.split(", "):
            return words
    raise LookupError(f"the docstring says nothing of {state.name}")
