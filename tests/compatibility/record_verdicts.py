"""Records what Apache Kafka 3.9 answers to a few hundred hostile batches, for the test that has no Kafka.

    python -m tests.compatibility.record_verdicts

Writes `kafka-3.9-verdicts.json`: for each case the error code, the checksum of what Kafka stored, and whether ours
differs for a reason that `test_same_verdicts` names.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from crc32c import crc32c

from tests.compatibility.hostile_batches import HostileBatches
from tests.compatibility.verdicts import RECORDED, unexplained, verdicts_of
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess

SEED, COUNT = 1, 600


def main() -> None:
    """Ask both brokers and write the file."""
    cases = list(HostileBatches(SEED).take(COUNT))
    with tempfile.TemporaryDirectory() as place:
        kafka, ours = ApacheKafka(Path(place, "kafka")), BarnabasProcess(Path(place, "ours"), {})
        with kafka.running(), ours.running():
            theirs = verdicts_of(kafka, kafka.data_dir, cases)
            own = verdicts_of(ours, ours.data_dir, cases)
    lines = []
    for case, verdict, our_verdict in zip(cases, theirs, own, strict=True):
        named, rest = unexplained([case], [verdict], [our_verdict])
        if rest:
            raise SystemExit(rest[0])
        checksum = None if verdict.stored is None else crc32c(verdict.stored)
        lines.append(json.dumps([verdict.code, checksum, bool(named)]))
    RECORDED.write_text('{"seed": %d, "verdicts": [\n%s\n]}\n' % (SEED, ",\n".join(lines)))  # noqa: UP031


if __name__ == "__main__":
    main()
