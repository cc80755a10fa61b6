"""Counts the operations that compiled code runs per request, by kind: what is generic among them costs most.

    python -m benchmarks.operations                                    # every cell (three minutes; builds first)
    python -m benchmarks.operations --cells p-10c --places 30          # with the functions that run most of them
    python -m benchmarks.operations --kept                             # count the build that is there again

The broker is a compiled build that logs every 1009th operation (mypyc's `log_trace`), made in `build/traced`. The
operations are those of mypyc's intermediate code: a load of a native field is one, and so is a look-up by name in a
dictionary that costs twenty times as much. The dear ones are counted apart. What Python and the kernel do by themselves
is not seen. Counts differ by a per cent between runs; they may only fall (docs/decisions/0009).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.broker import Generator, load_topic
from benchmarks.cells import CELLS, Cell
from benchmarks.group_members import Members, quiet_consumer_heartbeat
from benchmarks.systems import SHARED, PlacedBarnabas
from benchmarks.wire_requests import Connection
from hatch_build import compile_modules

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "traced"
TRACE = "mypyc_trace.txt"
"""Written by the compiled code into its working directory."""
EVERY = 1009
"""Operations for which one line stands (mypyc: CPyTrace_LogEvent)."""
SECONDS = 5.0
GROUP_REQUESTS = 20_000
DEAR = {
    "python_get_attr": "attribute by name",
    "python_set_attr": "attribute set by name",
    "globals_dict_get_item": "global by dictionary",
    "python_call_global": "global called by name",
    "python_call_method": "method by name",
    "PyObject_Vectorcall": "Vectorcall",
    "PyObject_VectorcallMethod": "method by name",
    "CPySequenceTuple_GetItem": "item of a NamedTuple",
    "PyObject_GetItem": "item by name",
    "PyIter_Next": "abstract loop",
}
CELL_NAMES = ("p-10c", "p-16k", "p-100k", "f-16k", "f-1m")
CONSUMER_HEARTBEAT = "heartbeat, KIP-848"
GROUP_CELLS = {"heartbeat": ("heartbeat", 1), "commit": ("commit", 1), "commit of 10": ("commit", 10)}


def build() -> None:
    """Compile the listed modules with their trace, beside all other modules, into PLACE."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    work = PLACE / "compile"
    work.mkdir(parents=True, exist_ok=True)
    compile_modules(ROOT, work, modules, trace=True)
    package = PLACE / "package"
    shutil.rmtree(package, ignore_errors=True)
    # The sources as they are, and not those written for the compiler: native messages read their notation there.
    shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(work / "lib", package, dirs_exist_ok=True)


def trace_lines(server: PlacedBarnabas) -> list[str]:
    """Return what was logged so far."""
    trace = server.directory / TRACE
    return trace.read_text().splitlines() if trace.exists() else []


def _load(server: PlacedBarnabas, cell: Cell) -> int:
    generator = Generator(server, cell.command, cell.name, SECONDS, *cell.arguments)
    generator.go()
    return int(generator.result()["requests"])


def _ask_as_member(server: PlacedBarnabas, kind: str, partitions: int) -> Callable[[], int]:
    if kind == CONSUMER_HEARTBEAT:
        connection = Connection("127.0.0.1", server.port)
        frame = quiet_consumer_heartbeat(connection, "consumers")
    else:
        members = Members("127.0.0.1", server.port)
        members.join(1, 1, partitions, prefix=f"{kind}-{partitions}")
        (member,) = members.all
        connection, frame = member.connection, getattr(member, kind)

    def ask() -> int:
        for _ in range(GROUP_REQUESTS):
            connection.call(frame)
        return GROUP_REQUESTS

    return ask


def show(name: str, lines: list[str], requests: int, places: int) -> None:
    """Print what `requests` requests logged: all operations, the dear ones by kind, the places with most."""
    kinds: Counter[str] = Counter()
    by_place: Counter[str] = Counter()
    dear_by_place: Counter[str] = Counter()
    for line in lines:
        # module.function:line:operation:details
        place, _, operation, details = (line.split(":", 3) + ["?"] * 3)[:4]
        kind = details if operation == "call_c" else operation
        kinds[kind] += 1
        by_place[place] += 1
        dear_by_place[place] += kind in DEAR
    each = EVERY / requests
    dear: Counter[str] = Counter()
    for kind, words in DEAR.items():
        dear[words] += kinds[kind]
    shown = ", ".join(f"{words} {count * each:.1f}" for words, count in dear.most_common() if count)
    print(
        f"{name}: {len(lines) * each:.0f} operations a request, {dear.total() * each:.0f} of them dear ({shown}); "
        f"boxed {kinds['box'] * each:.0f}, unboxed {kinds['unbox'] * each:.0f}",
        flush=True,
    )
    for place, count in by_place.most_common(places):
        print(f"  {count * each:7.1f}, dear {dear_by_place[place] * each:5.1f}  {place}")


def main() -> None:
    """Print a line a cell, and the places if asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [*CELL_NAMES, *GROUP_CELLS, CONSUMER_HEARTBEAT]
    parser.add_argument("--cells", nargs="+", default=names, choices=names)
    parser.add_argument("--places", type=int, default=0, help="also list this many functions")
    parser.add_argument("--kept", action="store_true", help="count the build that is there")
    options = parser.parse_args()
    if not options.kept:
        build()
    settings = SHARED | {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}
    with tempfile.TemporaryDirectory() as directory:
        server = PlacedBarnabas(Path(directory), settings, PLACE / "package")
        with server.running():
            for cell in CELLS:
                if cell.name in options.cells and cell.name in CELL_NAMES:
                    load_topic(server, cell)
                    _load(server, cell)  # warm
                    before = len(trace_lines(server))
                    requests = _load(server, cell)
                    show(cell.name, trace_lines(server)[before:], requests, options.places)
            for name, (kind, partitions) in (GROUP_CELLS | {CONSUMER_HEARTBEAT: (CONSUMER_HEARTBEAT, 1)}).items():
                if name in options.cells:
                    ask = _ask_as_member(server, kind, partitions)
                    before = len(trace_lines(server))
                    requests = ask()
                    show(name, trace_lines(server)[before:], requests, options.places)


if __name__ == "__main__":
    main()
