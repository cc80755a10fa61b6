"""docs/member-states.md: the states of a consumer whose coordinator assigns, drawn from the client's table."""

from __future__ import annotations

from barnabas.clients.consumer.group.consumer.member_states import TRANSITIONS, MemberState


def member_states_page() -> str:
    """The diagram, and the table of all transitions."""
    rows = [(state, event, target) for state, row in TRANSITIONS.items() for event, target in row.items()]
    lines = [
        "# States of a consumer with `group_protocol=consumer`",
        "",
        "Made from the table in `barnabas.clients.consumer.group.consumer.member_states` by `make docs`. That module's",
        "docstring tells the story.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {MemberState.UNSUBSCRIBED.value}",
        *(
            f"    {state.value} --> {target.value}: {event.value}"
            for state, event, target in rows
            if state is not target
        ),
        "```",
        "",
        "| in | when | next |",
        "|---|---|---|",
        *(f"| {state.value} | {event.value} | {target.value} |" for state, event, target in rows),
    ]
    return "\n".join(lines) + "\n"
