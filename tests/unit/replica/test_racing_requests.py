"""Produces, fetches, deletions, a follower, lost leadership and time-outs, all at once: each request is answered once.

Real threads, a bounded number of requests, no timing: whatever wins a race, the answers must fit together.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

from barnabas.protocol.errors import ErrorCode
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import ExpirationExecutor, SystemTimer
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.partitions.partition_fetch import FetchTerms, PartitionFetch
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.fetch_data import FetchIsolation
from tests.unit.replica.replica_harness import ANOTHER, US, Replicas, key
from tests.unit.storage.log_harness import Broker, batch

REQUESTS = 150
PRODUCERS = 2
EXPECTED = {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER}


class Race:
    """A partition with a follower, real threads and a real timer."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.seed = seed
        self.replicas = Replicas(Broker(OperatingSystemFiles(), log_dirs=(str(directory),)))
        self.manager = self.replicas.manager
        self.actions = ActionQueue()
        self.executor = ExpirationExecutor(self.actions)
        self.timer = SystemTimer(SystemClock(), self.executor.execute)
        waiting = self.manager.waiting
        for purgatory in (waiting.produces, waiting.fetches, waiting.deletions):
            purgatory._timer = self.timer
        waiting._actions = self.actions
        self.replicas.brokers_alive(US, ANOTHER)
        self.lead(1)
        self.answers: list[list[object]] = []
        self.failures: list[BaseException] = []
        self.follower_position = 0
        self.producers_done: list[str] = []

    def lead(self, leader_epoch: int) -> None:
        self.replicas.lead(leader_epoch=leader_epoch, isr=(US, ANOTHER), is_new=leader_epoch == 1)

    def new_answer(self) -> list[object]:
        """Where the answers to one request go; at the end there must be exactly one."""
        answers: list[object] = []
        self.answers.append(answers)
        return answers

    def start(self, work: Callable[[random.Random], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=lambda: work(random.Random(f"{self.seed}-{name}")), name=name)
        thread.start()
        return thread

    def produce(self, chance: random.Random) -> None:
        for _ in range(REQUESTS):
            answers = self.new_answer()
            entry = PartitionAppend("topic", 0, batch(chance.randint(1, 3)))

            def answered(_: object, entry: PartitionAppend = entry, answers: list[object] = answers) -> None:
                answers.append(entry.error)
                if entry.error not in EXPECTED:
                    raise AssertionError(entry.failure)
                if (
                    entry.error is ErrorCode.NONE
                    and entry.info is not None
                    and self.follower_position <= entry.info.last_offset
                ):
                    self.failures.append(AssertionError("acknowledged, and the follower does not have it"))

            self.manager.appender.append_records(
                [entry], required_acks=-1, timeout_ms=chance.choice([1, 20, 5000]), on_complete=answered
            )
            self.actions.run_all()
        self.producers_done.append(threading.current_thread().name)

    def consume(self, chance: random.Random) -> None:
        for _ in range(REQUESTS):
            answers = self.new_answer()
            end = self.replicas.partition().log.high_watermark
            terms = FetchTerms(chance.choice([1, 10, 50]), 1, 1 << 20, FetchIsolation.HIGH_WATERMARK, leader_only=False)

            def answered(fetches: object, answers: list[object] = answers) -> None:
                answers.append(fetches)
                for fetch in fetches:  # type: ignore[attr-defined]
                    fetch.release()

            self.manager.reader.fetch_records(terms, [PartitionFetch("topic", 0, end, 1 << 16)], answered)
            self.actions.run_all()

    def delete(self, chance: random.Random) -> None:
        for _ in range(REQUESTS // 5):
            answers = self.new_answer()
            self.manager.deleter.delete_records(
                {key(): -1}, timeout_ms=chance.choice([1, 50]), on_complete=answers.append
            )
            self.actions.run_all()

    def follow(self, chance: random.Random) -> None:
        """Fetch what there is until everything produced is here."""
        log = self.replicas.partition().log
        while len(self.producers_done) < PRODUCERS or self.follower_position < log.log_end_offset:
            position = self.follower_position
            end = log.log_end_offset
            fetch = PartitionFetch("topic", 0, position, 1 << 20, log_start_offset_of_follower=log.log_start_offset)
            terms = FetchTerms(2, 1, 1 << 20, FetchIsolation.LOG_END, replica_id=ANOTHER)
            done = threading.Event()
            answers = self.new_answer()

            def answered(got: object, done: threading.Event = done, answers: list[object] = answers) -> None:
                answers.append(got)
                done.set()

            self.manager.reader.fetch_records(terms, [fetch], answered)
            self.actions.run_all()
            assert done.wait(30)
            if len(fetch.records):
                self.follower_position = max(position, end)
            fetch.release()

    def lose_leadership(self, chance: random.Random) -> None:
        """Back and forth; a new epoch keeps the log, as no other leader wrote to it."""
        for epoch in range(2, 12, 2):
            threading.Event().wait(chance.random() / 50)
            self.replicas.lead(leader=ANOTHER, leader_epoch=epoch, isr=(US, ANOTHER), is_new=False)
            self.lead(epoch + 1)


def test_every_request_is_answered_exactly_once(tmp_path: Path) -> None:
    race = Race(tmp_path, seed=11)
    race.executor.start()
    race.timer.start()
    threads = [
        *(race.start(race.produce, f"producer-{number}") for number in range(PRODUCERS)),
        race.start(race.consume, "consumer"),
        race.start(race.follow, "follower"),
        race.start(race.delete, "deleter"),
        race.start(race.lose_leadership, "controller"),
    ]
    for thread in threads:
        thread.join(60)
    assert not [thread.name for thread in threads if thread.is_alive()]
    race.manager.waiting.shutdown()
    race.timer.shutdown()
    race.executor.shutdown()
    assert race.failures == []
    assert [len(answers) for answers in race.answers] == [1] * len(race.answers)
    waiting = race.manager.waiting
    assert (waiting.produces.watched, waiting.fetches.watched, waiting.deletions.watched) == (0, 0, 0)
    assert len(race.timer) == 0
    log = race.replicas.partition().log
    assert log.high_watermark <= log.log_end_offset
