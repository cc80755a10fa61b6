"""Errors of the clients are one line on stderr and an exit status."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cli.client_options import EXIT_FAILED, EXIT_USAGE, check_place, friendly_errors
from barnabas.clients.errors import ClientTimeout, Disconnected, NotInMetadata, Unreachable
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.rpc.client_request import UnsupportedVersion
from barnabas.rpc.connection_failures import ConnectionFailures
from barnabas.rpc.connection_states import Node


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ApiError(ErrorCode.INVALID_PARTITIONS, "too few"), EXIT_FAILED, "too few (INVALID_PARTITIONS)"),
        (UnsupportedVersion("no DESCRIBE_CLIENT_QUOTAS"), EXIT_FAILED, "the broker cannot do this: no DESCRIBE_CLIENT"),
        (ClientTimeout("nobody there"), EXIT_FAILED, "no answer from here:1 in time: nobody there"),
        (Disconnected("gone"), EXIT_FAILED, "cannot talk to here:1: gone"),
        (ValueError("x is no number"), EXIT_USAGE, "x is no number"),
    ],
)
def test_one_line_and_a_status(capsys: pytest.CaptureFixture[str], error: Exception, status: int, line: str) -> None:
    with pytest.raises(SystemExit) as ended, friendly_errors("here:1"):
        raise error
    assert ended.value.code == status
    shown = capsys.readouterr().err
    assert shown.startswith(f"barnabas: {line}")
    assert shown.count("\n") == 1


def test_a_broker_that_cannot_be_reached_is_one_line_at_once_and_for_two_clients(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clients = [ConnectionFailures(), ConnectionFailures()]
    with friendly_errors("here:1"):
        for client in clients:
            client.begun(Node(-1, "here", 1), 0)
            client.failed(-1, "connection refused", 0)
    assert capsys.readouterr().err == "barnabas: cannot connect to broker here:1: connection refused. Trying again.\n"


class Producer:
    """A producer whose look-ups fail with these errors, one after the other."""

    def __init__(self, *errors: ClientTimeout) -> None:
        self.errors = list(errors)
        self.waits_ms: list[int] = []

    def partitions_for(self, _topic: str, timeout_ms: int) -> tuple[object, ...]:
        self.waits_ms.append(timeout_ms)
        if self.errors:
            raise self.errors.pop(0)
        return ("a partition",)


@pytest.mark.parametrize(
    ("errors", "timeout_ms", "waits_ms"),
    [
        ([], 60_000, [5_000]),
        ([ClientTimeout("slow")], 60_000, [5_000, 55_000]),
        ([ClientTimeout("slow")] * 2, 60_000, [5_000, 55_000]),
        ([ClientTimeout("slow")], 2_000, [2_000]),
        ([NotInMetadata("none")], 60_000, [5_000]),
        ([ClientTimeout("slow"), NotInMetadata("none")], 60_000, [5_000, 55_000]),
        ([Unreachable("nobody")], 60_000, [5_000]),
    ],
)
def test_a_slow_broker_gets_the_whole_timeout_and_a_missing_topic_does_not(
    errors: list[ClientTimeout], timeout_ms: int, waits_ms: list[int]
) -> None:
    producer: Any = Producer(*errors)
    if len(errors) < len(waits_ms):
        found: Any = check_place(producer, "t", timeout_ms)
        assert found == ("a partition",)
    elif isinstance(errors[-1], NotInMetadata):
        with pytest.raises(ApiError, match="there is no topic t: brokers have answered") as missing:
            check_place(producer, "t", timeout_ms)
        assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        with pytest.raises(type(errors[-1]), match=str(errors[-1])):
            check_place(producer, "t", timeout_ms)
    assert producer.waits_ms == waits_ms
