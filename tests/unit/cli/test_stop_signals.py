"""A signal reaches its handler whichever thread the kernel delivers it to, and whatever the main thread waits in."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.thread_signals import await_rest, other_threads, signal_thread

_CHILD = """
import os, queue, select, signal, socket, sys, threading, time
from barnabas.cli.stop_signals import on_first, watch_signals

# A shell lets the commands that it runs in the background ignore SIGINT, and so all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
watch_signals()
left, right = socket.socketpair()
lock = threading.Lock()
lock.acquire()
for wait in (lambda: time.sleep(1000), lambda: left.recv(1), lock.acquire, lambda: os.read(os.pipe()[0], 1),
             lambda: select.select([left], [], [])):
    threading.Thread(target=wait, daemon=True).start()

def told(number):
    arm()
    print(signal.Signals(number).name, flush=True)

def arm():
    on_first([signal.SIGTERM, signal.SIGHUP], told)

arm()
try:
    print("waiting", flush=True)
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

WAITS = {
    "a pipe": "os.read(os.pipe()[0], 1)",
    "a lock": "lock.acquire()",
    "a queue": "queue.SimpleQueue().get()",
    "a socket": "right.recv(1)",
    "many files": "select.poll().poll()",
    "a thread": "threading.enumerate()[-1].join()",
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_signal_to_any_thread_is_handled_while_the_main_thread_waits(wait: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD.replace("{wait}", WAITS[wait])], stdout=subprocess.PIPE, text=True
    )
    with child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "waiting\n"
            threads = other_threads(child.pid)
            assert len(threads) >= 6
            for thread in (*threads, child.pid):
                for number in (signal.SIGTERM, signal.SIGHUP):
                    await_rest(child.pid)
                    signal_thread(child.pid, thread, number)
                    assert child.stdout.readline() == f"{number.name}\n"
            await_rest(child.pid)
            signal_thread(child.pid, threads[-1], signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
        finally:
            child.kill()
