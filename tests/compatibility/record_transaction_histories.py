"""Records what Apache Kafka answers to histories of transactions, for the test that has no Kafka.

    python -m tests.compatibility.record_transaction_histories [3.9 | 4]

Writes `kafka-3.9-transaction-histories.json`, `kafka-4-transaction-version-2-histories.json` or both: the scripted
histories, then random ones that do not depend on time. Each step stands there as its kind, actor, version, options and
answer. A history that ours answers otherwise, for a reason without a name, ends the recording.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.compatibility.history_player import Step
from tests.compatibility.scripted_transaction_histories import SCRIPTED
from tests.compatibility.transaction_comparison import PROPERTIES, RECORDED, RECORDED_VERSION_2, compare, start
from tests.compatibility.transaction_histories import depends_on_time, make_history
from tests.compatibility.transaction_version_2_histories import SCRIPTED_VERSION_2, make_version_2_history
from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_kafka_4 import ApacheKafka4
from tests.support.barnabas_process import BarnabasProcess

FIRST_SEED: Final = 1
STEPS: Final = 24


class Recording(NamedTuple):
    """What to record. random_histories: how many beside the scripted ones."""

    kafka_class: type[ApacheKafka]
    scripted: Mapping[str, list[Step]]
    make_history: Callable[[int, int], list[Step]]
    random_histories: int
    file: Path


RECORDINGS: Final = {
    "3.9": Recording(ApacheKafka, SCRIPTED, make_history, 36, RECORDED),
    "4": Recording(ApacheKafka4, SCRIPTED_VERSION_2, make_version_2_history, 25, RECORDED_VERSION_2),
}


def record(recording: Recording) -> None:
    """Ask both brokers and write the file. Raises SystemExit: they differ, and no named difference explains it."""
    seeds = range(FIRST_SEED, FIRST_SEED + 10 * recording.random_histories)
    made = (recording.make_history(seed, STEPS) for seed in seeds)
    of_any_time = [each for each in made if not depends_on_time(each)]
    histories = [*recording.scripted.values(), *of_any_time[: recording.random_histories]]
    lines = []
    with tempfile.TemporaryDirectory() as place:
        kafka = recording.kafka_class(Path(place, "kafka"), PROPERTIES)
        ours = BarnabasProcess(Path(place, "ours"), PROPERTIES)
        try:
            start(kafka)
            start(ours)
            for history in histories:
                compared = compare(kafka, ours, history)
                if compared.difference:
                    raise SystemExit(compared.difference)
                steps = [
                    [step.kind, step.actor, step.version, step.options, answer] for step, answer in compared.answers
                ]
                lines.append(",\n".join(json.dumps(each, separators=(",", ":")) for each in steps))
        finally:
            kafka.close()
            ours.close()
    recording.file.write_text('{"histories": [\n[' + "],\n\n[".join(lines) + "]\n]}\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or RECORDINGS:
        record(RECORDINGS[name])
