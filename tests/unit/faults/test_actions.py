"""What an action refuses."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.faults.fault_plan import ACTIONS, MAX_DELAY_MS, Delay, Error
from barnabas.protocol.errors import ErrorCode


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", 6, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_error_by_name_number_or_code(code: Any) -> None:
    assert Error(code).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("NOT_LEADER", "Kafka has no error 'NOT_LEADER'; did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        ("not_leader_or_follower", "did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        (9999, "Kafka has no error code 9999"),
        (None, "Kafka has no error code None"),
        ("NONE", "NONE is no error"),
        (0, "NONE is no error"),
    ],
)
def test_an_error_that_kafka_does_not_have(code: Any, complaint: str) -> None:
    with pytest.raises(ValueError) as raised:
        Error(code)
    assert complaint in str(raised.value)


@pytest.mark.parametrize("time_ms", [0, -1, MAX_DELAY_MS + 1, 0.5, True, "500"])
def test_a_delay_is_from_1_ms_to_a_day(time_ms: Any) -> None:
    with pytest.raises(ValueError, match=f"a delay takes from 1 to 86400000 whole milliseconds, not {time_ms!r}"):
        Delay(time_ms)


@pytest.mark.parametrize("action", ACTIONS)
def test_when_is_before_or_after(action: Any) -> None:
    first = {Delay: (5,), Error: ("UNKNOWN_SERVER_ERROR",)}.get(action, ())
    assert [action(*first).when, action(*first, "after").when] == ["before", "after"]
    with pytest.raises(ValueError, match="`when` is 'before' or 'after', not 'during'"):
        action(*first, "during")
