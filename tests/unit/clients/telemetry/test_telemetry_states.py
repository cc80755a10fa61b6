"""The table of telemetry's states: every state can end, and errors lead where KIP-714 says."""

from __future__ import annotations

import pytest

from barnabas.clients.telemetry.subscription import TRANSITIONS, Retry, TelemetryEvent, TelemetryState, retry_after
from barnabas.protocol.errors import ErrorCode


def test_every_state_has_a_row_and_can_be_closed_twice() -> None:
    assert set(TRANSITIONS) == set(TelemetryState)
    for row in TRANSITIONS.values():
        closing = row[TelemetryEvent.CLOSING]
        assert TRANSITIONS[closing][TelemetryEvent.CLOSING] is closing
        assert row[TelemetryEvent.ENDED] is TelemetryState.TERMINATED


def test_requests_are_answered_in_the_states_that_sending_leads_to() -> None:
    answers = {TelemetryEvent.FAILED, TelemetryEvent.REJECTED}
    in_flight = {row[TelemetryEvent.SENT] for row in TRANSITIONS.values() if TelemetryEvent.SENT in row}
    assert in_flight == {state for state, row in TRANSITIONS.items() if answers <= set(row)}
    assert not any(TelemetryEvent.SENT in TRANSITIONS[state] for state in in_flight)


def test_nothing_is_sent_after_the_end() -> None:
    assert set(TRANSITIONS[TelemetryState.TERMINATED].values()) == {TelemetryState.TERMINATED}
    assert TelemetryEvent.SENT not in TRANSITIONS[TelemetryState.TERMINATED]


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, Retry.AT_ONCE),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, Retry.AT_ONCE),
        (ErrorCode.TELEMETRY_TOO_LARGE, Retry.AFTER_INTERVAL),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, Retry.AFTER_INTERVAL),
        (ErrorCode.INVALID_REQUEST, Retry.NEVER),
        (ErrorCode.INVALID_RECORD, Retry.NEVER),
        (ErrorCode.UNSUPPORTED_VERSION, Retry.NEVER),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Retry.NEVER),
    ],
)
def test_what_an_error_means(error: ErrorCode, retry: Retry) -> None:
    assert retry_after(error) is retry
