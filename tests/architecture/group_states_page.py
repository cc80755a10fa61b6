"""docs/group-states.md: the states of a classic group, drawn from the coordinator's table."""

from __future__ import annotations

from barnabas.coordinator.group.classic.states import (
    COMMIT_REFUSALS,
    HEARTBEAT_ANSWERS,
    SYNC_REFUSALS,
    TRANSITIONS,
    ClassicState,
)


def group_states_page() -> str:
    """The diagram, what each transition takes, and what each state answers."""
    lines = [
        "# States of a classic group",
        "",
        "Made from the table in `barnabas.coordinator.group.classic.states` by `make docs`. What happens to a",
        "group is an event; the table says the state that follows, and what that takes. [groups.md](groups.md) tells",
        "the story.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {ClassicState.EMPTY.value}",
        *(
            f"    {state.value} --> {target.value}: {event.value}"
            for (state, event), (target, _) in TRANSITIONS.items()
            if state is not target
        ),
        "```",
        "",
        "| in | when | next | what it takes |",
        "|---|---|---|---|",
        *(
            f"| {state.value} | {event.value} | {target.value} | {'; '.join(effect.value for effect in effects)} |"
            for (state, event), (target, effects) in TRANSITIONS.items()
        ),
        "",
        "A member of the current generation is answered:",
        "",
        "| in | Heartbeat | SyncGroup | OffsetCommit |",
        "|---|---|---|---|",
        *(
            f"| {state.value} | {HEARTBEAT_ANSWERS[state].name} | {SYNC_REFUSALS[state].name} "
            f"| {COMMIT_REFUSALS[state].name} |"
            for state in ClassicState
        ),
        "",
        "NONE to a SyncGroup: its part of the assignment, once the leader's is stored.",
    ]
    return "\n".join(lines) + "\n"
