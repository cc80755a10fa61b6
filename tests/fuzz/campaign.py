"""The campaign: mutated real requests of every API and version over real sockets, and a broker that must not mind.

    python -m tests.fuzz.campaign --seconds 600 --seed 7

`make fuzz` and this directory's tests call it. After it, a bystander's records are untouched, the broker serves,
nothing unexpected was logged, its memory pool is balanced, and its memory has not grown since half of the time. (It
grows until each kind of request has been met in its largest form, which takes a slow machine some minutes.)
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
from collections import Counter
from functools import partial
from pathlib import Path

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.message_index import request_class
from tests.fuzz.mutant_sender import ApiVersion, MutantSender
from tests.fuzz.real_requests import TARGET
from tests.support.broker_metrics import metric_value
from tests.support.raw_client import RawClient, record_bytes
from tests.support.server_fixtures import make_server
from tests.support.server_process import ServerProcess, free_port
from tests.support.waiting import wait_until

SENDERS = 4
LEAST_SHARE_IN_BODY = 0.8
LEAST_PER_VERSION = 100
MOST_GROWTH = 0.05
BYSTANDER = "bystander"
LARGEST_REQUEST_BYTES, POOL_BYTES = 16 << 20, 32 << 20
_EARLIEST = -2
_SETTLE_SECONDS = 30


class FuzzCampaign:
    """One broker under mutants."""

    def __init__(self, directory: Path, seed: int, mode: str) -> None:
        self._seed = seed
        self._metrics_port = free_port()
        self.server = make_server(
            mode,
            directory,
            auto_create_topics_enable="false",
            socket_request_max_bytes=str(LARGEST_REQUEST_BYTES),
            queued_max_request_bytes=str(POOL_BYTES),
            metrics_listen=f"127.0.0.1:{self._metrics_port}",
            log_retention_bytes="100000000",
            log_segment_bytes="10000000",
            log_retention_check_interval_ms="5000",
            # What mutants do to groups is over within a minute.
            group_max_session_timeout_ms="10000",
            group_consumer_session_timeout_ms="10000",
            group_consumer_min_session_timeout_ms="10000",
            offsets_retention_minutes="1",
            offsets_retention_check_interval_ms="5000",
            # And what they do to transactional ids and producers, which a broker keeps for a week and for a day.
            transactional_id_expiration_ms="10000",
            transaction_remove_expired_transaction_cleanup_interval_ms="5000",
            producer_id_expiration_ms="10000",
            producer_id_expiration_check_interval_ms="5000",
        )
        self.outcomes: Counter[str] = Counter()
        self.reached_body: Counter[ApiVersion] = Counter()
        self.sent = 0
        self.resident_after_warm_up = 0
        self.resident_at_end = 0

    def run(self, *, seconds: float, warm_up_seconds: float) -> None:
        """Send mutants for so long, then look what has become of the broker. AssertionError says what was wrong."""
        with self.server.running():
            with RawClient(self.server) as client:
                for name in (BYSTANDER, TARGET):
                    client.create_topic(name)
                client.produce_values(BYSTANDER, b"untouched", b"records")
                before = record_bytes(client.fetch(BYSTANDER, 0))
                target_id, versions = client.topic_id(TARGET), versions_served(client)
            self._send_mutants(target_id, versions, seconds, warm_up_seconds)
            # Another connection: one that is idle for ten minutes is closed.
            with RawClient(self.server) as client:
                assert record_bytes(client.fetch(BYSTANDER, 0)) == before
                assert client.produce_values(BYSTANDER, b"and alive") == 2
                earliest = client.list_offset(TARGET, _EARLIEST).offset  # a mutant of DeleteRecords may delete
                assert client.fetch(TARGET, earliest).error_code == ErrorCode.NONE
            self._check_pool()
        log = self.server.log_text()
        unexpected = log.find("Traceback")
        assert unexpected < 0, log[max(unexpected - 1000, 0) : unexpected + 3000]

    @property
    def share_in_body(self) -> float:
        """How many of the mutants a body decoder got."""
        return sum(self.reached_body.values()) / self.sent

    @property
    def growth(self) -> float:
        """Of resident memory since the warm-up, as a share."""
        return self.resident_at_end / self.resident_after_warm_up - 1

    def _send_mutants(
        self, target_id: bytes, versions: list[ApiVersion], seconds: float, warm_up_seconds: float
    ) -> None:
        stop = threading.Event()
        senders = [
            MutantSender(self.server, versions, target_id, self._seed + number, stop) for number in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        stop.wait(warm_up_seconds)
        self.resident_after_warm_up = resident_bytes(self.server)
        stop.wait(seconds - warm_up_seconds)
        stop.set()
        for sender in senders:
            sender.join()
            self.outcomes += sender.outcomes
            self.reached_body += sender.reached_body
            self.sent += sender.sent
        self.resident_at_end = resident_bytes(self.server)
        for sender in senders:
            if sender.failure is not None:
                raise sender.failure

    def _check_pool(self) -> None:
        """Whatever was received is given back, once; answers that nobody fetched any more may take a moment."""
        used = partial(metric_value, self._metrics_port, "kafka_network_socketserver_memorypoolused")
        wait_until(used, _SETTLE_SECONDS, lambda used_bytes: not used_bytes)


def versions_served(client: RawClient) -> list[ApiVersion]:
    """Every API and version that the broker says it answers."""
    return [
        (ApiKey(key), version)
        for key, (lowest, highest) in client.supported_versions().items()
        for version in range(lowest, min(highest, request_class(key).max_version) + 1)
    ]


def resident_bytes(server: ServerProcess) -> int:
    """VmRSS of the broker."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="of both modes together")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--modes", nargs="+", choices=("inline", "queue"), default=["inline", "queue"])
    arguments = parser.parse_args()
    for mode in arguments.modes:
        with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as directory:
            print(f"seed {arguments.seed}, mode {mode}", flush=True)
            campaign = FuzzCampaign(Path(directory), arguments.seed, mode)
            seconds = arguments.seconds / len(arguments.modes)
            campaign.run(seconds=seconds, warm_up_seconds=seconds / 2)
            fewest = min(campaign.reached_body.values())
            print(
                f"{campaign.sent} mutants, {campaign.share_in_body:.1%} reached a body decoder,"
                f" {len(campaign.reached_body)} APIs and versions, each at least {fewest} times;"
                f" {dict(campaign.outcomes)}; memory {campaign.resident_after_warm_up >> 20} MiB after"
                f" {seconds / 2:.0f} s, {campaign.growth:+.1%} at the end",
                flush=True,
            )
            assert campaign.share_in_body >= LEAST_SHARE_IN_BODY
            assert fewest >= LEAST_PER_VERSION
            assert campaign.growth < MOST_GROWTH


if __name__ == "__main__":
    main()
