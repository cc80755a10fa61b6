"""Errors of the clients are one line on stderr and an exit status."""

from __future__ import annotations

import pytest

from barnabas.cli.client_options import EXIT_FAILED, EXIT_USAGE, friendly_errors
from barnabas.clients.errors import ClientTimeout, Disconnected
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.rpc.client_request import UnsupportedVersion
from barnabas.rpc.connection_failures import ConnectionFailures
from barnabas.rpc.node import Node


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
