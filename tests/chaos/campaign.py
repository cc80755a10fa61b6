"""The campaign: lives of one broker, each ended by `kill -9` at a random moment, each followed by a whole inventory.

    python -m tests.chaos.campaign --seconds 600 --seed 7

What runs while it is killed: appends and rolls (small segments), retention, the cleaner, checkpoints (all of them every
few ms), topics that come and go; producers are those of `writers`. `make chaos` and this directory's tests call it.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.chaos import verification
from tests.chaos.ledger import Ledger
from tests.chaos.topic_churn import TopicChurn
from tests.chaos.writers import Client, ConfluentClient, Delivered, KafkaPythonClient, Writer
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import RawClient
from tests.support.server_process import free_port

BROKER = {
    "log.segment.bytes": "40000",
    "log.index.interval.bytes": "300",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "log.flush.start.offset.checkpoint.interval.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "100",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
}
TOPICS: Mapping[str, Mapping[str, str]] = {
    "exactly-once-confluent": {},
    "exactly-once-kafka-python": {},
    "acks-one": {},
    "flushed": {"flush.messages": "1"},
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "20000"},
    "retained": {"retention.bytes": "150000"},
}
PHASES = {
    "rolled": re.compile(r"[Rr]olled new log segment"),
    "retention": re.compile(r"Deleting segments of"),
    "cleaned": re.compile(r"[Ll]og cleaner thread .* cleaned log|Cleaned log"),
    "topic deletion": re.compile(r"is scheduled for deletion"),
    "recovered": re.compile(r"Recovering unflushed segment"),
    "files deleted": re.compile(r"Deleted log |Deleting segment files"),
}
"""What the broker's log says when something happens that a kill may interrupt."""
EVERYTHING_EVERY = 20
"""Lives between two inventories of whole topics; the others look at what is new."""


class Campaign:
    """One broker's lives. `kills` are counted, `phases` are what the broker said it was doing."""

    def __init__(self, directory: Path, seed: int, mode: str) -> None:
        self._chance = random.Random(seed)
        self.kills = 0
        self.phases: Counter[str] = Counter()
        self.entries_checked = 0
        self.records_cleaned = 0
        self.records_expired = 0
        inline = {"inline.requests.enable": str(mode == "inline").lower(), "num.network.threads": "2"}
        self._server = BarnabasProcess(directory, BROKER | inline, port=free_port())
        self._log_read = 0
        self._churn = TopicChurn()
        self._ledgers = {topic: Ledger(topic, 2) for topic in TOPICS}
        self._from_offset = {topic: [0, 0] for topic in TOPICS}
        self._writers = [
            Writer(ledger, self._client_factory(topic), seed + number, keys=40 if topic == "compacted" else 0)
            for number, (topic, ledger) in enumerate(self._ledgers.items())
        ]

    def _client_factory(self, topic: str) -> Callable[[Delivered], Client]:
        def make(delivered: Delivered) -> Client:
            if topic == "exactly-once-kafka-python":
                return KafkaPythonClient(self._server.bootstrap_servers, topic, delivered)
            return ConfluentClient(self._server.bootstrap_servers, topic, delivered, idempotent=topic != "acks-one")

        return make

    @property
    def acknowledged(self) -> int:
        """Records whose delivery was reported, so far."""
        return sum(ledger.acknowledged for ledger in self._ledgers.values())

    def run(self, *, seconds: float, kills: int = 0, report: bool = False) -> None:
        """Live and die until both numbers are reached."""
        deadline = time.monotonic() + seconds
        self._server.start()
        try:
            with RawClient(self._server) as client:
                for topic, settings in TOPICS.items():
                    client.create_topic(topic, 2, settings)
            for writer in self._writers:
                writer.start()
            while time.monotonic() < deadline or self.kills < kills:
                self._live_and_die()
                self._take_inventory(everything=self.kills % EVERYTHING_EVERY == 0)
                if report:
                    print(f"{self.kills} kills, {self.acknowledged} records, {dict(self.phases)}", flush=True)
            self._take_inventory(everything=True)
            for writer in self._writers:
                writer.close()
            assert self._server.stop() == 0
        finally:
            # After a failure as well: a client that goes on looking for its broker disturbs the tests that follow.
            for writer in self._writers:
                writer.close(timeout_seconds=0)
            self._server.close()

    def _live_and_die(self) -> None:
        for writer in self._writers:
            writer.resume()
        self._churn.resume(self._server)
        time.sleep(self._chance.uniform(0.02, 1.5))
        self._server.kill()
        self.kills += 1
        self._churn.rest()
        self._count_phases()
        self._server.start()

    def _take_inventory(self, *, everything: bool) -> None:
        for writer in self._writers:
            writer.rest()
        if everything:
            self._from_offset = {topic: [0, 0] for topic in TOPICS}
        with RawClient(self._server) as client:
            for topic in TOPICS:
                client.wait_for_leaders(topic, 2)
            for topic in ("exactly-once-confluent", "exactly-once-kafka-python", "flushed"):
                verification.check_exactly_once(client, self._ledgers[topic], self._from_offset[topic])
            verification.check_at_most_once(client, self._ledgers["acks-one"], self._from_offset["acks-one"])
            self.records_expired = verification.check_suffix(client, self._ledgers["retained"])
            self.records_cleaned = verification.check_compacted(client, self._ledgers["compacted"])
            verification.check_topics(client, self._churn)
        self.entries_checked += verification.check_indexes(self._server.data_dir)

    def _count_phases(self) -> None:
        with self._server.log_file.open("rb") as log:
            log.seek(self._log_read)
            read = log.read()
        self._log_read += len(read)
        new = read.decode(errors="replace")
        for phase, pattern in PHASES.items():
            self.phases[phase] += len(pattern.findall(new))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kills", type=int, default=200, help="at least so many, however long it takes")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--mode", choices=("inline", "queue"), default="inline")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-chaos-") as directory:
        print(f"seed {arguments.seed}, mode {arguments.mode}", flush=True)
        campaign = Campaign(Path(directory), arguments.seed, arguments.mode)
        campaign.run(seconds=arguments.seconds, kills=arguments.kills, report=True)
        print(
            f"{campaign.kills} kills survived: {campaign.acknowledged} records acknowledged and there,"
            f" {campaign.entries_checked} index entries checked, {campaign.records_cleaned} records cleaned,"
            f" {campaign.records_expired} expired, {dict(campaign.phases)}"
        )


if __name__ == "__main__":
    main()
