"""Records what Apache Kafka 3.9 answers to histories of transactions, for the test that has no Kafka.

    python -m tests.compatibility.record_transaction_histories

Writes `kafka-3.9-transaction-histories.json`: the scripted histories, then random ones that do not depend on time. Each
step stands there as its kind, actor, version, options and answer. A history that ours answers otherwise, for a reason
without a name, ends the recording.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Final

from tests.compatibility.scripted_transaction_histories import SCRIPTED
from tests.compatibility.transaction_comparison import PROPERTIES, RECORDED, compare, start
from tests.compatibility.transaction_histories import depends_on_time, make_history
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess

FIRST_SEED: Final = 1
RANDOM: Final = 36
STEPS: Final = 24


def main() -> None:
    """Ask both brokers and write the file."""
    made = (make_history(seed, STEPS) for seed in range(FIRST_SEED, FIRST_SEED + 10 * RANDOM))
    histories = [*SCRIPTED.values(), *[each for each in made if not depends_on_time(each)][:RANDOM]]
    lines = []
    with tempfile.TemporaryDirectory() as place:
        kafka, ours = ApacheKafka(Path(place, "kafka"), PROPERTIES), BarnabasProcess(Path(place, "ours"), PROPERTIES)
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
    RECORDED.write_text('{"histories": [\n[' + "],\n\n[".join(lines) + "]\n]}\n")


if __name__ == "__main__":
    main()
