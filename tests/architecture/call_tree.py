"""The calls of a produce in docs/architecture.md, as a running broker makes them. `make docs` writes, a test compares.

A program of its own, since a broker settles the process it runs in:

    python -m tests.architecture.call_tree            # write the tree into the page
    python -m tests.architecture.call_tree --print    # show the page

A profile function on the network thread notes each turn: the calls of Python functions of ours, in their order. What C
code and the standard library do is left out, and so are functions without a name: comprehensions are calls in some
releases of Python and not in others. A turn may do more than its request, such as an entry in an index that is due, so
the tree is that of most turns. It is the same on Python 3.11 to 3.13.
"""

from __future__ import annotations

import logging
import re
import sys
import tempfile
from collections import Counter
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, NamedTuple

from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.network.processor import Processor
from barnabas.runtime import lock_order
from tests.architecture.source_tree import ROOT, SOURCE
from tests.support.raw_client import RawClient, make_batch

PATH = "docs/architecture.md"
BEGIN, END = "<!-- made: calls of a produce -->\n", "<!-- end -->\n"
VERSION = 11
"""The newest version of Apache Kafka 3.9."""
PRODUCES = 60
PRODUCER_ID = 1000
"""The broker takes an id that it has not given out."""
_MODULES = f"{SOURCE / 'barnabas'}/"
_CODEC = re.compile(r"<(\w+(?:Request|Response) v\d+) ")
"""The file that a made codec's code names."""


class Call(NamedTuple):
    """One call, `depth` calls below the turn."""

    depth: int
    function: str
    module: str


class Turns:
    """The calls of each turn of the network threads that start after this. Each thread has a profile function."""

    def __init__(self, *, all_calls: bool = False) -> None:
        self.ended: Counter[tuple[Call, ...]] = Counter()
        original = Processor.run

        def run(processor: Processor) -> None:
            sys.setprofile(profile_function(Processor.run_once.__code__, self.ended, all_calls=all_calls))
            original(processor)

        Processor.run = run  # type: ignore[method-assign, assignment]


def profile_function(turn: CodeType, ended: Counter[tuple[Call, ...]], *, all_calls: bool = False) -> Any:
    """Return a thread's profile function, which counts the calls of each turn, a call of `turn`, in `ended`.

    all_calls: also those of the standard library, and of functions without a name.
    """
    calls: list[Call] = []
    open_frames: list[FrameType] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (open_frames or frame.f_code is turn):
            module = module_of(frame.f_code.co_filename)
            if all_calls or (module and "<" not in frame.f_code.co_name):
                calls.append(Call(len(open_frames), frame.f_code.co_qualname, module))
                open_frames.append(frame)
        elif event == "return" and open_frames and frame is open_frames[-1]:
            open_frames.pop()
            if not open_frames:
                ended[tuple(calls)] += 1
                calls.clear()

    return profile


def module_of(file: str) -> str:
    """Return the module of ours that a code object's file is, the message whose codec it is, or nothing."""
    if file.startswith(_MODULES):
        return file.removeprefix(_MODULES).removesuffix(".py").replace("/", ".")
    codec = _CODEC.match(file)
    return codec[1] if codec else ""


def turns_of_produces() -> Counter[tuple[Call, ...]]:
    """Return the turns in which a broker takes batches of one record of an idempotent producer, one at a time."""
    turns = Turns()
    with tempfile.TemporaryDirectory() as data_dir:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": data_dir, "num.network.threads": "1"}
        broker = BrokerServer(KafkaConfig.parse(SERVER_DEFAULTS | settings, "the page"))
        broker.startup()
        try:
            server: Any = SimpleNamespace(host="127.0.0.1", port=broker.bound_endpoints[0].port)
            with RawClient(server) as client:
                client.create_topic("t")
                for number in range(PRODUCES):
                    batch = make_batch([b"v"], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=number)
                    assert client.produce("t", batch, VERSION).base_offset == number
        finally:
            broker.shutdown()
    return Counter({calls: count for calls, count in turns.ended.items() if _has_a_produce(calls)})


def _has_a_produce(calls: tuple[Call, ...]) -> bool:
    return any(call.function == "ProduceApi.produce" for call in calls)


def call_tree() -> str:
    """Return the tree of most turns, as the page has it. Raises ValueError if no tree is that of most."""
    turns = turns_of_produces()
    ((calls, count),) = turns.most_common(1)
    if count <= PRODUCES / 2:
        raise ValueError(
            f"only {count} of {PRODUCES} turns agree; the number of calls: {[len(each) for each in turns]}"
        )
    rows = [("  " * call.depth + call.function.replace(".<locals>", ""), call.module) for call in calls]
    width = max(len(function) for function, _ in rows) + 2
    lines = [f"{function:{width}}{module}" for function, module in rows]
    files = {call.module for call in calls if " " not in call.module}
    return "\n".join([f"{len(calls)} calls in {len(files)} files:", "", "```", *lines, "```", ""])


def page() -> str:
    """Return docs/architecture.md with the tree as it is."""
    before, _, rest = (ROOT / PATH).read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + call_tree() + END + rest.partition(END)[2]


def main() -> None:
    """Write or show the page."""
    logging.disable()
    lock_order.CHECKING = False  # the calls of locks that check their order are made in tests only
    if "--print" in sys.argv:
        sys.stdout.write(page())
    else:
        (ROOT / PATH).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
