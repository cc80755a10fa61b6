"""A broker with something changed that no setting changes: a handler that blocks or burns, the time budgets.

    python -m benchmarks.adjusted_broker --work block --data-dir DIR [--switch-interval-ms 5] [--set NAME=VALUE ...]

A process of its own, started by `benchmarks.control_plane` and `benchmarks.mixed_load`. `--work` wraps one handler
method before the broker is built, so nothing in the broker knows of it; DescribeLogDirs, because every client may send
it and it is never run on a network thread: so benchmarks keep the data plane's handlers busy. Prints one line of JSON
with the bound ports by listener name, and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from barnabas.api.handlers.log_dirs import LogDirsApi
from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.network.connections import request_intake
from benchmarks.systems import SHARED

WORK_SECONDS = 0.020


def block() -> None:
    """Wait without Python: the handler is busy, the GIL is free."""
    time.sleep(WORK_SECONDS)


def burn() -> None:
    """Run Python for that long, of this thread's own CPU time, however often it has to hand the GIL over."""
    number = 0
    end = time.thread_time() + WORK_SECONDS
    while time.thread_time() < end:
        for _ in range(1000):
            number = (number * 31 + 7) % 1_000_003


def nothing() -> None:
    """An ordinary broker."""


WORK: dict[str, Callable[[], None]] = {"none": nothing, "block": block, "burn": burn}


def wrap_handler(work: Callable[[], None]) -> None:
    """Have every DescribeLogDirs do `work` before it is answered."""
    original = LogDirsApi.describe_log_dirs

    def describe_log_dirs(self: LogDirsApi, request: Any) -> None:
        work()
        original(self, request)

    LogDirsApi.describe_log_dirs = describe_log_dirs  # type: ignore[method-assign]


def main() -> None:
    """Run until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", choices=tuple(WORK), default="none")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--switch-interval-ms", type=float, help="instead of the broker's own")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    parser.add_argument("--turn-ms", type=float, help="what a turn may spend on requests run at once")
    parser.add_argument("--slow-ms", type=float, help="how long one request takes that sends the others to the queue")
    options = parser.parse_args()
    if options.turn_ms is not None:
        vars(request_intake)["TURN_NS"] = int(options.turn_ms * 1e6)
    if options.slow_ms is not None:
        vars(request_intake)["SLOW_REQUEST_NS"] = int(options.slow_ms * 1e6)
    wrap_handler(WORK[options.work])
    settings = SERVER_DEFAULTS | SHARED | {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": options.data_dir}
    settings |= dict(pair.split("=", 1) for pair in options.set)
    broker = BrokerServer(KafkaConfig.parse(settings, "the benchmark"))
    broker.startup()
    if options.switch_interval_ms is not None:
        sys.setswitchinterval(options.switch_interval_ms / 1000)
    print(json.dumps({end_point.listener_name: end_point.port for end_point in broker.bound_endpoints}), flush=True)
    sys.stdin.read()
    broker.shutdown()


if __name__ == "__main__":
    main()
