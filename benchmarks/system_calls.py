"""Counts the system calls of our broker per request: each of them gives the GIL up once, and takes it again.

    python -m benchmarks.system_calls [--cells p-100b p-16k f-16k] [--systems barnabas barnabas-compiled]

The broker runs under `strace -c` while the load generator runs, which slows both down but changes no count of a request
by itself; how many requests share a call (an `epoll_wait`, a `recv`) depends on the load. Calls of the memory allocator
and of locks give nothing up and are left out. Needs strace, and the right to attach to a child process.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.broker import Generator, load_topic
from benchmarks.cells import CELLS, Cell
from benchmarks.systems import NAMES, make_system
from tests.support.server_process import ServerProcess

WITHOUT_GIL = frozenset({"brk", "futex", "madvise", "mmap", "mprotect", "mremap", "munmap", "restart_syscall"})
SECONDS = 3.0
ATTACH_SECONDS = 1.0
SHARE_SHOWN = 0.005
DEFAULT_CELLS = ("p-100b", "p-16k", "p-10c", "f-16k", "f-1m")


def calls_per_request(server: ServerProcess, cell: Cell, directory: Path) -> dict[str, float]:
    """System call -> how often a request of the cell makes it."""
    summary = directory / "strace.txt"
    generator = Generator(server, cell.command, cell.name, SECONDS, *cell.arguments)
    tracer = subprocess.Popen(["strace", "-f", "-c", "-qq", "-o", str(summary), "-p", str(server.pid)])
    time.sleep(ATTACH_SECONDS)
    generator.go()
    requests = generator.result()["requests"]
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    counts = {}
    for line in summary.read_text().splitlines():
        words = line.split()
        # share, seconds, microseconds a call, calls, perhaps errors, name
        if len(words) >= 5 and words[3].isdigit() and words[-1] not in WITHOUT_GIL | {"total"}:
            counts[words[-1]] = int(words[3]) / requests
    return counts


def main() -> None:
    """Print a line a cell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", nargs="+", default=list(DEFAULT_CELLS), choices=[cell.name for cell in CELLS])
    parser.add_argument("--systems", nargs="+", default=["barnabas"], choices=NAMES[1:])
    options = parser.parse_args()
    if shutil.which("strace") is None:
        print("system calls are not counted: there is no strace")
        return
    print("| system | cell | calls a request that give the GIL up | which |\n|---|---|---|---|")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in options.systems:
            server = make_system(name, place, None, {})
            stack.enter_context(server.running())
            for cell in CELLS:
                if cell.name in options.cells:
                    load_topic(server, cell)
                    counts = calls_per_request(server, cell, place)
                    shown = sorted(counts.items(), key=lambda item: -item[1])
                    which = ", ".join(f"{call} {count:.2f}" for call, count in shown if count > SHARE_SHOWN)
                    print(f"| {name} | {cell.name} | {sum(counts.values()):.2f} | {which} |", flush=True)


if __name__ == "__main__":
    main()
