"""The parent of several brokers: it starts them, starts one again that has died, and stops all in order.

Made by `cli.serve` for `--processes`; runs on the main thread, which waits for the next event. Each broker has a thread
`broker-<id>`, which reads what its process prints, waits for its end, and puts both into the queue of events; signal
handlers and the store put a `Stop` there. Threads share the queue alone, so no lock is needed.

A broker is a process of `barnabas serve`, in a session of its own, so that ctrl-C reaches the parent only. It stops
when its standard input ends: when the parent closes that, or has ended, however that happened. A signal instead could
be the second one, which ends a broker at once: systemd sends SIGTERM to the brokers as well as to their parent.

    start    all at once; if one ends before all are ready, the others are stopped, and the exit status is 1
    death    the broker is started again, after a second at first; the wait doubles while it does not stay up
    stop     one after another, the controller last: each gives its leaderships to those that remain
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import barnabas
from barnabas.runtime.clock import Clock

logger = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS: Final = 1.0
_LONGEST_WAIT_SECONDS: Final = 60.0
_READY_PREFIX: Final = "barnabas ready: "


class Ready(NamedTuple):
    """A broker answers requests. addresses: of its listeners. facts: the `name=value` of its ready line."""

    broker_id: int
    addresses: str
    facts: Mapping[str, str]


class Ended(NamedTuple):
    """The process of a broker has ended. status: negative for a signal's number."""

    broker_id: int
    status: int


class Stop(NamedTuple):
    """All brokers shall stop. status: the exit status then."""

    reason: str
    status: int = 0


Event: TypeAlias = Ready | Ended | Stop


class BrokerProcesses:
    """The processes of the brokers: how they are started, and told to stop. commands: by broker id."""

    def __init__(self, commands: Sequence[Sequence[str]], events: queue.SimpleQueue[Event]) -> None:
        self._commands = commands
        self._events = events
        self._running: dict[int, subprocess.Popen[str]] = {}

    def start(self, broker_id: int) -> None:
        """Start a broker that does not run. Raises OSError: the interpreter cannot be started."""
        # The package is found where this process has found it.
        root = str(Path(barnabas.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            self._commands[broker_id],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",  # a path in the ready line may be no text
            start_new_session=True,
        )
        self._running[broker_id] = process
        threading.Thread(target=self._watch, args=(broker_id, process), name=f"broker-{broker_id}", daemon=True).start()

    def stop(self, broker_id: int) -> None:
        """Have a broker stop, by the end of its standard input; nothing happens if it has ended."""
        stdin = self._running[broker_id].stdin
        assert stdin is not None
        stdin.close()

    def _watch(self, broker_id: int, process: subprocess.Popen[str]) -> None:
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(_READY_PREFIX):
                    self._events.put(ready_of(broker_id, line))
            self._events.put(Ended(broker_id, process.wait()))


def ready_of(broker_id: int, line: str) -> Ready:
    """Read the line that a broker prints when it is ready, without the paths of its data, which may have spaces."""
    words = line.removeprefix(_READY_PREFIX).split(" data=")[0].split()
    return Ready(broker_id, words[0], dict(word.split("=", 1) for word in words[1:]))


class Supervisor:
    """The states of the brokers, and what each event does.

    next_event: waits for an event, at most so many seconds (None: for ever), and returns None if none came. controller:
    returns the id of the controller, or None before one is elected.
    """

    def __init__(
        self,
        count: int,
        start: Callable[[int], None],
        stop: Callable[[int], None],
        next_event: Callable[[float | None], Event | None],
        controller: Callable[[], int | None],
        clock: Clock,
    ) -> None:
        self._start_process = start
        self._stop_process = stop
        self._next_event = next_event
        self._controller = controller
        self._clock = clock
        self._count = count
        self._running: dict[int, float] = {}
        """When each broker was started, in seconds."""
        self._ready: dict[int, Ready] = {}
        self._waits = [_FIRST_WAIT_SECONDS] * count
        self._due: dict[int, float] = {}
        """When each broker that has died is started again, in seconds."""

    def run(self, on_ready: Callable[[Sequence[Ready]], None]) -> int:
        """Start all brokers and keep them running until a `Stop`. Return the exit status.

        on_ready: called once all brokers are ready, with their lines in the order of their ids.
        """
        is_announced = False
        for broker_id in range(self._count):
            self._start(broker_id)
        while True:
            match self._next_event(self._seconds_until_restart()):
                case None:
                    self._start_due()
                case Stop(reason, status):
                    logger.info("stopping: %s", reason)
                    return self._stop_all() or status
                case Ended(broker_id, status) if not is_announced:
                    del self._running[broker_id]
                    logger.error("broker %d %s before all brokers were ready: stopping", broker_id, how(status))
                    self._stop_all()
                    return 1
                case Ended(broker_id, status):
                    self._expect_restart(broker_id, status)
                case Ready(broker_id) as ready:
                    if is_announced:
                        logger.info("broker %d is ready again", broker_id)
                    self._ready[broker_id] = ready
                    if not is_announced and len(self._ready) == self._count:
                        is_announced = True
                        on_ready([self._ready[each] for each in range(self._count)])

    # -- starts

    def _start(self, broker_id: int) -> None:
        self._start_process(broker_id)
        self._running[broker_id] = self._now()

    def _expect_restart(self, broker_id: int, status: int) -> None:
        """Plan the next start of a broker that has died. One that was up for long begins with the first wait again."""
        if self._now() - self._running.pop(broker_id) >= _LONGEST_WAIT_SECONDS:
            self._waits[broker_id] = _FIRST_WAIT_SECONDS
        self._plan_start(broker_id, how(status))

    def _plan_start(self, broker_id: int, what: str) -> None:
        wait = self._waits[broker_id]
        self._waits[broker_id] = min(2 * wait, _LONGEST_WAIT_SECONDS)
        self._due[broker_id] = self._now() + wait
        logger.error("broker %d %s: it is started again in %.0f s", broker_id, what, wait)

    def _seconds_until_restart(self) -> float | None:
        return max(min(self._due.values()) - self._now(), 0) if self._due else None

    def _start_due(self) -> None:
        now = self._now()
        for broker_id in [each for each, due in self._due.items() if due <= now]:
            del self._due[broker_id]
            try:
                self._start(broker_id)
            except OSError as error:  # no memory, or no more processes
                self._plan_start(broker_id, f"could not be started ({error})")

    # -- the stop

    def _stop_all(self) -> int:
        """Stop the brokers that run, one after another. Return the exit status: 1 if one did not stop cleanly.

        The controller is the last: no other has to be elected, and it moves the leaderships of those before.
        """
        worst = 0
        controller = self._controller()
        for broker_id in sorted(self._running, key=lambda each: (each == controller, -each)):
            if broker_id in self._running:
                self._stop_process(broker_id)
            while broker_id in self._running:
                event = self._next_event(None)
                if isinstance(event, Ended):
                    del self._running[event.broker_id]
                    if event.status:
                        logger.error("broker %d %s", event.broker_id, how(event.status))
                        worst = 1
        return worst

    def _now(self) -> float:
        return self._clock.nanoseconds() / 1e9


def how(status: int) -> str:
    """Return how a process has ended, as words behind its name."""
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
