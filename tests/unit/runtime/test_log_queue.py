"""Logging that drops instead of waiting."""

import io
import logging
import threading

from barnabas.runtime.log_queue import LogQueue

PATIENCE_SECONDS = 10


class BlockedStream(io.StringIO):
    """A stream whose reader comes when told."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = threading.Event()
        self.may_write = threading.Event()

    def write(self, text: str) -> int:
        self.writing.set()
        assert self.may_write.wait(PATIENCE_SECONDS)
        return super().write(text)


def logger_for(queue: LogQueue) -> logging.Logger:
    logger = logging.Logger("test.logger")  # noqa: LOG001 apart from the process's loggers
    logger.addHandler(queue)
    return logger


def test_lines_arrive_in_order_with_their_thread() -> None:
    stream = io.StringIO()
    queue = LogQueue(stream)
    logger = logger_for(queue)
    logger.warning("before the %s", "start")
    queue.start()
    logger.info("after it")
    queue.stop()
    first, second = stream.getvalue().splitlines()
    assert first.endswith("WARNING [MainThread] before the start (test.logger)")
    assert second.endswith("INFO [MainThread] after it (test.logger)")
    assert queue.dropped == 0


def test_a_blocked_stream_costs_lines_and_never_blocks_the_logger() -> None:
    stream = BlockedStream()
    queue = LogQueue(stream, capacity_lines=2)
    logger = logger_for(queue)
    queue.start()
    logger.info("in the writer's hands")
    assert stream.writing.wait(PATIENCE_SECONDS)
    for number in range(5):
        logger.info("line %d", number)
    assert queue.dropped == 3
    stream.may_write.set()
    queue.stop(PATIENCE_SECONDS)
    text = stream.getvalue()
    assert "line 1" in text
    assert "line 2" not in text
    assert text.count("3 log lines dropped") == 1


def test_a_closed_stream_does_not_end_the_writer() -> None:
    stream = io.StringIO()
    queue = LogQueue(stream)
    stream.close()
    queue.start()
    logger_for(queue).info("into the void")
    queue.stop(PATIENCE_SECONDS)
    assert queue.dropped == 1


def test_exceptions_are_formatted_on_the_callers_thread() -> None:
    stream = io.StringIO()
    queue = LogQueue(stream)
    queue.start()
    try:
        raise ValueError("with a trace")
    except ValueError:
        logger_for(queue).exception("caught")
    queue.stop()
    assert "ValueError: with a trace" in stream.getvalue()
