"""Counts the calls of Python functions in the turns of a produce with acks=all and two replicas.

    python -m benchmarks.replicated_turns                # the turns of leader and follower
    python -m benchmarks.replicated_turns --trees        # also the calls of each, as a tree
    python -m benchmarks.replicated_turns --repeated     # also the functions that are called more than once

Two brokers run in this process and share a store; an idempotent producer sends one record at a time. Each produce is
two turns of the leader's network thread, that of the produce, which answers the follower's waiting fetch, and that of
the follower's next fetch, which answers the produce; and one turn of the follower's fetcher. Every call counts, also of
comprehensions and of the standard library. A turn that adds an index entry, or in which two things came at once, has
another number of calls: those of most turns are shown.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from barnabas.broker.broker_server import BrokerServer
from barnabas.clients.admin import Admin, NewTopic
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.replica.fetcher.fetcher_thread import ReplicaFetcherThread
from barnabas.runtime.lock_order import ENVIRONMENT_VARIABLE
from barnabas.testing.znode_server import ZnodeServer
from tests.architecture.call_tree import PRODUCER_ID, Call, Turns, profile_function
from tests.support.raw_client import RawClient, make_batch

PRODUCES = 100
TOPIC = "replicated"
Turn = tuple[Call, ...]
KINDS = {
    "leader, the produce": "ProduceApi.produce",
    "leader, the follower's next fetch": "FetchApi.fetch",
    "follower": "FollowerLogs.append",
}
"""A turn -> the function that only this turn calls; the first that fits."""


def fetchers_turns() -> Counter[Turn]:
    """Have the turns of the fetchers that start after this counted, and return the counts."""
    ended: Counter[Turn] = Counter()
    original = ReplicaFetcherThread.turn

    def turn(fetcher: ReplicaFetcherThread) -> None:
        if sys.getprofile() is None:
            sys.setprofile(profile_function(original.__code__, ended, all_calls=True))
        original(fetcher)

    ReplicaFetcherThread.turn = turn  # type: ignore[method-assign, assignment]
    return ended


def produce_all() -> dict[str, Counter[Turn]]:
    """Return how often each turn came, by kind."""
    networks, fetchers = Turns(all_calls=True).ended, fetchers_turns()
    with ExitStack() as stack:
        store = ZnodeServer()
        stack.callback(store.close)
        brokers = []
        for broker_id in range(2):
            settings = {
                "broker.id": str(broker_id),
                "zookeeper.connect": store.new_address(),
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": stack.enter_context(tempfile.TemporaryDirectory()),
                "num.network.threads": "1",
                "controlled.shutdown.enable": "false",
            }
            brokers.append(BrokerServer(KafkaConfig.parse(SERVER_DEFAULTS | settings, "the benchmark")))
            brokers[-1].startup()
            stack.callback(brokers[-1].shutdown)
        ports = [broker.bound_endpoints[0].port for broker in brokers]
        with Admin(f"127.0.0.1:{ports[0]}") as admin:
            while len(admin.describe_cluster().nodes) < len(brokers):
                time.sleep(0.05)
            admin.create_topics([NewTopic(TOPIC, 1, len(brokers))])
            leader = admin.describe_topics([TOPIC])[TOPIC].partitions[0].leader
        server: Any = SimpleNamespace(host="127.0.0.1", port=ports[leader])
        with RawClient(server) as client:
            client.wait_for_leaders(TOPIC, 1)
            for number in range(PRODUCES):
                batch = make_batch([b"v" * 1000], producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=number)
                assert client.produce(TOPIC, batch, acks=-1).base_offset == number
                time.sleep(0.01)
    found: dict[str, Counter[Turn]] = {kind: Counter() for kind in KINDS}
    for calls, count in (*networks.items(), *fetchers.items()):
        functions = {call.function for call in calls}
        for kind, function in KINDS.items():
            if function in functions:
                found[kind][calls] += count
                break
    return found


def main() -> None:
    """Print the number of calls of each turn, and what else is asked for."""
    os.environ.pop(ENVIRONMENT_VARIABLE, None)  # the calls of locks that check their order are made in tests only
    logging.disable()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trees", action="store_true", help="also show the calls")
    parser.add_argument("--repeated", action="store_true", help="also show what is called more than once")
    options = parser.parse_args()
    for kind, turns in produce_all().items():
        ((calls, count),) = turns.most_common(1)
        print(f"{kind}: {len(calls)} calls in {count} of {turns.total()} turns")
        if options.trees:
            for call in calls:
                print(f"  {'  ' * call.depth}{call.function}  ({call.module})")
        if options.repeated:
            for (function, module), times in Counter((each.function, each.module) for each in calls).most_common():
                if times > 1:
                    print(f"  {times} {function}  ({module})")


if __name__ == "__main__":
    main()
