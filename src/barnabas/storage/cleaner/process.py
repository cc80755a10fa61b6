"""The cleaner's process, which the broker starts when there is a log to clean.

It is `python -m barnabas.storage.cleaner.process`: reads requests from standard input, a line of JSON each, and
answers on standard output: `["done", result]`, or `["failed", kind, error number or null, text]`, for example
`["failed", "OSError", 28, "[Errno 28] No space left on device"]`. It works on files
only, and ends when its input ends, also in the middle of its work: after the broker has died, no cleaner may write into
its directories. The main thread works; a second one reads the input, so that it notices the end at once. The broker's
side is `child`. Kafka has no counterpart: there the cleaner works on threads.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from typing import Any, TextIO

from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.cleaner.messages import GroupRequest, MapRequest
from barnabas.storage.cleaner.work import CleanerWork

BUILD_MAP = "build-map"
CLEAN_GROUP = "clean-group"
DONE = "done"
FAILED = "failed"
OS_ERROR = "OSError"


def main() -> None:
    """Answer requests until the input ends."""
    # Ctrl-C goes to the whole terminal: the broker stops in its own order, and ends the cleaner.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # A line that any module prints must not come between the answers.
    sys.stdout = sys.stderr
    requests: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(sys.stdin, requests), name="cleaner-requests", daemon=True).start()
    work = CleanerWork(OperatingSystemFiles())
    while True:
        answer = answer_to(requests.get(), work)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def answer_to(request: list[Any], work: CleanerWork) -> list[Any]:
    """Do the work of one request and return its answer."""
    kind, plain = request
    try:
        if kind == BUILD_MAP:
            return [DONE, work.build_map(MapRequest.of(plain))]
        return [DONE, work.clean_group(GroupRequest.of(plain))]
    except OSError as error:
        return [FAILED, OS_ERROR, error.errno, str(error)]
    except Exception as error:  # noqa: BLE001 - whatever it is, the broker marks the log and goes on
        return [FAILED, type(error).__name__, None, f"{error}\n{traceback.format_exc()}"]


def _read_requests(source: TextIO, requests: queue.SimpleQueue[list[Any]]) -> None:
    for line in source:
        requests.put(json.loads(line))
    # At once, without waiting for the main thread: the broker is gone, and its directories may have a new owner.
    os._exit(0)


if __name__ == "__main__":
    main()
