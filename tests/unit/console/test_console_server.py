"""What the console logs of clients that go away, or do not read their answers."""

from __future__ import annotations

import errno
import logging
import sys
from io import BytesIO, StringIO

import pytest

from barnabas.console import console_server


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (TimeoutError("timed out"), logging.DEBUG),
        (OSError(errno.EHOSTUNREACH, "No route to host"), logging.DEBUG),
        (PermissionError(errno.EACCES, "/proc/self/io"), logging.ERROR),
        (ValueError("a gauge without a value"), logging.ERROR),
    ],
)
def test_only_a_page_that_fails_is_an_error(error: Exception, level: int, caplog: pytest.LogCaptureFixture) -> None:
    """The standard library prints the traceback of each to stderr."""
    caplog.set_level(logging.DEBUG)
    stderr = StringIO()
    answer = console_server._Answer(BytesIO(), BytesIO(), stderr, {"SERVER_PROTOCOL": "HTTP/1.0"}, multithread=False)
    try:
        raise error
    except type(error):
        answer.log_exception(sys.exc_info())
    assert [(record.levelno, bool(record.exc_info)) for record in caplog.records] == [(level, level == logging.ERROR)]
    assert stderr.getvalue() == ""
