"""Fetch sessions behind the handler, from frame to frame: what is read, what of it is answered, and to whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import booleans, integers, sampled_from

from barnabas.api.apis import Apis
from barnabas.api.brief import BUDGET_US, SESSION_PARTITION_US
from barnabas.api.fetch.fetch_session import LAST_EPOCH, READ_ALL_MS, next_epoch
from barnabas.api.fetch.fetch_sessions import IncrementalFetch
from barnabas.api.handlers.fetch import FetchApi
from barnabas.api.registry import Registry
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import batches
from tests.support.broker_origins import broker_origin
from tests.support.fetch_sessions import fetch_sessions
from tests.support.recording_channel import RecordingChannel, connection
from tests.unit.replica.replica_harness import TOPIC_ID, Replicas, deleter_of
from tests.unit.storage.log_harness import batch

OTHER_ID = bytes(range(16, 32))
IDS = {"topic": TOPIC_ID, "other": OTHER_ID}
BY_NAME, BY_ID = 12, 17


class Broker:
    """Two topics of two partitions, all led here, none with records."""

    def __init__(self, slots: int = 10) -> None:
        self.replicas = Replicas()
        for topic in ("topic", "other"):
            self.add(topic)
        self.sessions = fetch_sessions(self.replicas.clock, slots, self.replicas.manager.waiting.sessions)
        self.cache = self.sessions._cache
        fetch = FetchApi(
            self.replicas.manager,
            self.replicas.metadata,
            self.sessions,
            1 << 20,
            self.replicas.clock,
            None,
            broker_origin(),
        )
        (self.handler,) = fetch.handlers()
        self.parser = RequestParser(Registry([self.handler]))
        self.apis = Apis(self.replicas.actions, lambda: 1)
        self.version = BY_NAME
        self.session_id = 0
        self.epoch = 0

    def add(self, topic: str, topic_id: bytes | None = None) -> None:
        identity = IDS[topic] if topic_id is None else topic_id
        states = []
        for partition in range(2):
            self.replicas.lead(topic, partition, topic_id=identity)
            states.append(
                UpdateMetadataRequest.UpdateMetadataPartitionState(
                    partition_index=partition, leader=0, isr=[0], replicas=[0]
                )
            )
        told = UpdateMetadataRequest.UpdateMetadataTopicState(topic, identity, states)
        self.replicas.metadata.update_metadata(UpdateMetadataRequest(topic_states=[told]))

    def send(
        self,
        *asked: tuple[str, int, int],
        forgotten: tuple[tuple[str, int], ...] = (),
        channel: RecordingChannel | None = None,
        **fields: Any,
    ) -> RecordingChannel:
        """A fetch of these (topic, partition, offset); `fields` go to the request."""
        topics, left = [], []
        for topic, partition, offset in asked:
            place = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics.append(FetchRequest.FetchTopic(topic, IDS.get(topic, bytes(16)), [place]))
        for topic, partition in forgotten:
            left.append(FetchRequest.ForgottenTopic(topic, IDS.get(topic, bytes(16)), [partition]))
        body = FetchRequest(
            min_bytes=1, max_bytes=1 << 20, session_id=self.session_id, session_epoch=self.epoch, topics=topics
        )
        body.forgotten_topics_data = left
        for name, value in fields.items():
            setattr(body, name, value)
        version = self.version
        frame = encode_request_header(ApiKey.FETCH, version, 1, "me") + b"".join(map(bytes, body.encode(version)))
        channel = RecordingChannel() if channel is None else channel
        self.apis.handle(self.parser.parse(frame, connection(), channel=channel, received_ns=1))
        return channel

    def fetch(self, *asked: tuple[str, int, int], **fields: Any) -> FetchResponse:
        answer: FetchResponse = self.send(*asked, **fields).answer()
        return answer

    def begin(self, *asked: tuple[str, int, int]) -> FetchResponse:
        """A full fetch that makes a session, to which further fetches belong."""
        self.session_id = self.epoch = 0
        answer = self.fetch(*asked)
        assert answer.error_code == ErrorCode.NONE
        self.session_id = answer.session_id
        self.epoch = 1
        return answer

    def go_on(self, *asked: tuple[str, int, int], **fields: Any) -> FetchResponse:
        """The next fetch of the session."""
        answer = self.fetch(*asked, **fields)
        assert (answer.error_code, answer.session_id) == (ErrorCode.NONE, self.session_id)
        self.epoch = next_epoch(self.epoch)
        return answer

    def append(self, topic: str, partition: int, records: int = 3) -> None:
        self.replicas.append((topic, partition, batch(records)))


NAMES = {topic_id: name for name, topic_id in IDS.items()}


def told(answer: FetchResponse) -> dict[tuple[str, int], int]:
    """Partition -> its error, in the order of the answer."""
    return {
        (topic.topic or NAMES[topic.topic_id], each.partition_index): each.error_code
        for topic in answer.responses
        for each in topic.partitions
    }


def offsets_of(answer: FetchResponse) -> dict[tuple[str, int], list[int]]:
    return {
        (topic.topic or NAMES[topic.topic_id], each.partition_index): [
            record.offset for one in batches(each.records or b"") for record in one.records()
        ]
        for topic in answer.responses
        for each in topic.partitions
    }


ALL = (("topic", 0, 0), ("topic", 1, 0), ("other", 0, 0))


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_only_what_is_new_is_answered(version: int) -> None:
    broker = Broker()
    broker.version = version
    assert list(told(broker.begin(*ALL))) == [("topic", 0), ("topic", 1), ("other", 0)]
    assert broker.session_id != 0
    assert told(broker.go_on()) == {}
    broker.append("topic", 1)
    assert offsets_of(broker.go_on()) == {("topic", 1): [0, 1, 2]}
    assert offsets_of(broker.go_on()) == {("topic", 1): [0, 1, 2]}, "as long as the client does not move on"
    assert told(broker.go_on(("topic", 1, 3))) == {}


def test_a_fetch_outside_of_sessions_makes_none() -> None:
    broker = Broker()
    assert broker.fetch(*ALL, session_epoch=-1).session_id == 0
    broker.version = 6
    assert len(broker.fetch(*ALL).responses) == 2
    assert broker.cache.session_count == 0


def test_partitions_come_and_go() -> None:
    broker = Broker()
    broker.begin(("topic", 0, 0))
    assert told(broker.go_on(("other", 1, 0))) == {("other", 1): 0}, "a new one is news"
    assert broker.cache.partition_count == 2
    for partition in (("topic", 0), ("other", 1)):
        broker.append(*partition)
    assert list(offsets_of(broker.go_on(forgotten=(("topic", 0),)))) == [("other", 1)]
    assert broker.cache.partition_count == 1
    broker.append("topic", 0)
    assert list(offsets_of(broker.go_on())) == [("other", 1)]


def test_who_had_records_comes_last() -> None:
    broker = Broker()
    broker.begin(*ALL)
    for topic, partition, _ in ALL:
        broker.append(topic, partition)
    for first in (("topic", 0), ("topic", 1), ("other", 0), ("topic", 0)):
        answer = broker.go_on(max_bytes=1)
        assert [key for key, offsets in offsets_of(answer).items() if offsets] == [first]


def test_an_error_is_told_until_it_is_over() -> None:
    broker = Broker()
    unknown = ("topic", 7, 0)
    assert told(broker.begin(unknown, ("topic", 0, 0)))["topic", 7] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(broker.go_on()) == {("topic", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert told(broker.go_on(("topic", 0, 99))) == {
        ("topic", 0): ErrorCode.OFFSET_OUT_OF_RANGE,
        ("topic", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert told(broker.go_on(("topic", 0, 0), forgotten=(("topic", 7),))) == {("topic", 0): ErrorCode.NONE}
    assert told(broker.go_on()) == {}


def test_an_id_that_is_unknown_at_first() -> None:
    broker = Broker()
    broker.version = BY_ID
    IDS["late"] = late = bytes(range(32, 48))
    NAMES[late] = "late"
    assert told(broker.begin(("late", 0, 0), ("topic", 0, 0))) == {
        ("topic", 0): ErrorCode.NONE,
        ("late", 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert told(broker.go_on()) == {("late", 0): ErrorCode.UNKNOWN_TOPIC_ID}
    broker.add("late")
    assert told(broker.go_on()) == {("late", 0): ErrorCode.NONE}
    assert told(broker.go_on()) == {}


def test_a_topic_that_is_made_again_has_another_id() -> None:
    broker = Broker()
    broker.version = BY_ID
    broker.begin(("topic", 0, 0))
    broker.replicas.stop("topic", 0)
    broker.add("topic", OTHER_ID)
    assert list(told(broker.go_on()).values()) == [ErrorCode.INCONSISTENT_TOPIC_ID]


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [
        (None, 0, ErrorCode.NONE),
        (None, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (0, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (-5, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_wrong_places(session_id: int | None, epoch: int, error: ErrorCode) -> None:
    broker = Broker()
    broker.begin(*ALL)
    broker.session_id = broker.session_id if session_id is None else session_id
    answer = broker.fetch(session_epoch=epoch)
    assert answer.error_code == error
    assert not answer.responses
    if error is not ErrorCode.NONE:
        assert answer.session_id == 0


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_it_names(epoch: int) -> None:
    broker = Broker()
    broker.begin(*ALL)
    before = broker.session_id
    answer = broker.fetch(*ALL, session_epoch=epoch)
    assert len(told(answer)) == 3
    assert broker.cache.session_count == (1 if epoch == 0 else 0)
    assert broker.cache.partition_count == (3 if epoch == 0 else 0)
    assert answer.session_id != before
    assert broker.fetch(session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_ends() -> None:
    broker = Broker()
    broker.begin(("topic", 0, 0))
    answer = broker.fetch(forgotten=(("topic", 0),))
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.NONE, 0, [])
    assert (broker.cache.session_count, broker.cache.partition_count) == (0, 0)


def test_epochs_go_round() -> None:
    broker = Broker()
    broker.begin(*ALL)
    session = broker.cache.find(broker.session_id)
    assert session is not None
    session.epoch = broker.epoch = LAST_EPOCH
    broker.go_on()
    assert broker.epoch == 1
    broker.go_on()


def test_a_fetch_that_waits_is_answered_with_what_came() -> None:
    broker = Broker()
    broker.begin(*ALL)
    waiting = broker.send(max_wait_ms=500)
    assert not waiting.frames
    broker.append("topic", 1)
    broker.replicas.actions.run_all()
    assert offsets_of(waiting.answer()) == {("topic", 1): [0, 1, 2]}
    broker.epoch = 2
    waiting = broker.send(("topic", 1, 3), max_wait_ms=500)
    assert not waiting.frames
    broker.replicas.clock.advance(501)
    broker.replicas.timer.advance()
    assert told(waiting.answer()) == {}


def test_of_two_fetches_at_once_the_first_is_refused() -> None:
    """A client must not do that; what the first has read is given back, and the second reads for itself."""
    broker = Broker()
    broker.begin(*ALL)
    first = broker.send(max_wait_ms=500)
    broker.epoch = 2
    second = broker.send(("topic", 0, 0), max_wait_ms=500)
    broker.append("topic", 0)
    broker.replicas.actions.run_all()
    assert first.answer().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert first.answer().session_id == broker.session_id
    assert offsets_of(second.answer()) == {("topic", 0): [0, 1, 2]}
    broker.epoch = 3
    assert told(broker.go_on(("topic", 0, 3))) == {}
    active = broker.replicas.partition("topic", 0).log.local.segments.active.file
    file = active.borrow()
    assert file._holders == 3, "its segment, this test, and the answer of the second, which nobody sends here"
    file.release()


def test_of_two_fetches_at_once_the_first_reads_nothing_of_the_seconds() -> None:
    """On two network threads the second may begin before the first has looked what it is to read."""
    broker = Broker()
    broker.begin(*ALL)
    image = broker.replicas.metadata.image
    contexts = []
    for epoch in (1, 2):
        body = FetchRequest(session_id=broker.session_id, session_epoch=epoch)
        context = broker.sessions.begin(body, BY_NAME, image.version, is_from_follower=False, brief=True)
        assert isinstance(context, IncrementalFetch)
        contexts.append(context)
    first, second = contexts
    nothing = first.partitions(image, reads_all=False)
    assert (nothing.partitions, nothing.refused, nothing.reads) == ([], [], None)
    assert len(second.partitions(image, reads_all=False).partitions) == len(ALL)
    assert first.answered([], []) is None


def test_a_session_that_is_evicted_while_its_fetch_waits() -> None:
    broker = Broker(slots=1)
    broker.begin(("topic", 0, 0))
    waiting = broker.send(max_wait_ms=500)
    old_id = broker.session_id
    broker.replicas.clock.advance(120_001)
    broker.begin(("topic", 0, 0), ("topic", 1, 0))
    broker.replicas.timer.advance()
    assert (waiting.answer().error_code, waiting.answer().session_id) == (ErrorCode.NONE, old_id)
    assert (broker.cache.session_count, broker.cache.partition_count) == (1, 2)


def test_many_partitions_are_not_read_on_the_network_thread() -> None:
    broker = Broker()
    broker.begin(*(("topic", number, 0) for number in range(BUDGET_US // SESSION_PARTITION_US + 1)))
    resumed: list[Callable[[], None]] = []
    channel = RecordingChannel()
    channel.resume = resumed.append  # type: ignore[method-assign, assignment]
    body = FetchRequest(min_bytes=1, max_bytes=1 << 20, session_id=broker.session_id, session_epoch=1)
    frame = encode_request_header(ApiKey.FETCH, 12, 1, "me") + b"".join(map(bytes, body.encode(12)))
    broker.apis.handle(broker.parser.parse(frame, connection(), channel=channel, received_ns=1))
    assert not channel.frames
    for continuation in resumed:
        continuation()
    assert channel.answer().error_code == ErrorCode.NONE, "its epoch has not been used up by the first attempt"


# -- partitions that are left out


def reads_of(broker: Broker, topic: str) -> int:
    """How many partitions of a topic fetches have read."""
    return broker.replicas.manager.topic_stats.topic(topic).total_fetch_requests


def test_partitions_at_their_ends_are_left_out_until_they_move() -> None:
    broker = Broker()
    broker.begin(*ALL)
    broker.go_on()
    before = reads_of(broker, "topic"), reads_of(broker, "other")
    broker.append("topic", 1)
    assert offsets_of(broker.go_on()) == {("topic", 1): [0, 1, 2]}
    assert offsets_of(broker.go_on()) == {("topic", 1): [0, 1, 2]}, "the client has not said that it has them"
    assert told(broker.go_on(("topic", 1, 3))) == {}
    assert (reads_of(broker, "topic"), reads_of(broker, "other")) == (before[0] + 3, before[1])
    broker.replicas.clock.advance(READ_ALL_MS)
    broker.go_on()
    assert reads_of(broker, "other") == before[1] + 1, "all are read now and then"


def test_a_log_start_that_a_client_raises_is_told_at_once() -> None:
    broker = Broker()
    broker.append("topic", 0)
    broker.begin(("topic", 0, 3))
    assert told(broker.go_on()) == {}
    deleted: list[Any] = []
    deleter_of(broker.replicas.manager).delete_records(
        {TopicPartition("topic", 0): 2}, timeout_ms=0, on_complete=deleted.append
    )
    (answered,) = broker.go_on().responses[0].partitions
    assert answered.log_start_offset == 2


def test_a_partition_that_was_left_out_ends_the_wait() -> None:
    broker = Broker()
    broker.begin(*ALL)
    broker.go_on()
    waiting = broker.send(max_wait_ms=500)
    assert not waiting.frames
    broker.append("other", 0)
    assert offsets_of(waiting.answer()) == {("other", 0): [0, 1, 2]}
    broker.epoch += 1
    assert offsets_of(broker.go_on()) == {("other", 0): [0, 1, 2]}, "it is read until the client goes on"


def test_bytes_of_two_partitions_together_end_a_wait() -> None:
    broker = Broker()
    broker.begin(*ALL)
    broker.go_on()
    size = len(batch(3))
    waiting = broker.send(max_wait_ms=500, min_bytes=2 * size)
    broker.append("other", 0)
    assert not waiting.frames
    broker.append("topic", 1)
    assert offsets_of(waiting.answer()) == {("other", 0): [0, 1, 2], ("topic", 1): [0, 1, 2]}


def test_a_partition_that_left_while_it_was_left_out_is_answered_with_its_error() -> None:
    broker = Broker()
    broker.begin(*ALL)
    broker.go_on()
    waiting = broker.send(max_wait_ms=500)
    broker.replicas.stop("other", 0)
    assert told(waiting.answer()) == {("other", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_session_that_has_ended_is_told_of_nothing() -> None:
    broker = Broker(slots=1)
    watches = broker.replicas.manager.waiting.sessions.by_partition
    broker.begin(*ALL)
    broker.go_on()
    assert len(watches) == len(ALL)
    broker.go_on(forgotten=(("topic", 1),))
    assert len(watches) == len(ALL) - 1
    broker.replicas.clock.advance(120_001)
    broker.begin(("topic", 0, 0))
    assert not watches, "the session was evicted; the new one is watched from its second fetch on"
    broker.go_on()
    broker.fetch(session_id=broker.session_id, session_epoch=-1)
    assert not watches


class EventfulChannel(RecordingChannel):
    """Tells when the answer is there."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = threading.Event()

    def send(self, request: Any, frame: list[Any]) -> None:
        super().send(request, frame)
        self.answered.set()


def test_no_record_is_missed_while_others_append() -> None:
    """The clock stands still, so that nothing but marks tells of records, and no wait is over before there are some."""
    broker = Broker()
    partitions = [(topic, number) for topic in ("topic", "other") for number in range(2)]
    broker.begin(*((*each, 0) for each in partitions))
    broker.go_on()
    batches_each, producers = 150, 2

    def produce(seed: int) -> None:
        chance = Random(seed)
        for _ in range(batches_each):
            broker.append(*chance.choice(partitions), records=1)

    threads = [threading.Thread(target=produce, args=(seed,)) for seed in range(producers)]
    for thread in threads:
        thread.start()
    read = dict.fromkeys(partitions, 0)
    changed: list[tuple[str, int, int]] = []
    while sum(read.values()) < batches_each * producers:
        channel = EventfulChannel()
        broker.send(*changed, channel=channel, max_wait_ms=500)
        assert channel.answered.wait(30), read
        broker.epoch = next_epoch(broker.epoch)
        changed = []
        for key, offsets in offsets_of(channel.answer()).items():
            assert offsets in ([], list(range(read[key], read[key] + len(offsets))))
            read[key] += len(offsets)
            changed.append((*key, read[key]))
    for thread in threads:
        thread.join()


class SessionsAgainstFullFetches(RuleBasedStateMachine):
    """Whoever keeps to a session knows as much as whoever asks for everything each time."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        self.broker.version = BY_NAME
        self.wanted: dict[tuple[str, int], int] = {}
        self.changed: dict[tuple[str, int], int] = {}
        self.forgotten: set[tuple[str, int]] = set()
        self.known: dict[tuple[str, int], tuple[int, int, int]] = {}

    @rule(
        topic=sampled_from(["topic", "other", "unknown"]),
        partition=integers(0, 2),
        offset=integers(0, 6),
    )
    def want(self, topic: str, partition: int, offset: int) -> None:
        self.wanted[topic, partition] = self.changed[topic, partition] = offset
        self.forgotten.discard((topic, partition))

    @rule(number=integers(0, 8))
    def forget(self, number: int) -> None:
        if self.wanted:
            gone = sorted(self.wanted)[number % len(self.wanted)]
            del self.wanted[gone]
            self.changed.pop(gone, None)
            self.forgotten.add(gone)

    @rule(topic=sampled_from(["topic", "other"]), partition=integers(0, 1), records=integers(1, 2))
    def append(self, topic: str, partition: int, records: int) -> None:
        self.broker.append(topic, partition, records)

    @rule(is_full=booleans())
    def fetch(self, is_full: bool) -> None:
        broker = self.broker
        if is_full or not broker.epoch:
            broker.epoch = 0
            answer = broker.fetch(*((*key, offset) for key, offset in self.wanted.items()))
            self.known.clear()
        else:
            answer = broker.fetch(
                *((*key, offset) for key, offset in self.changed.items()), forgotten=tuple(self.forgotten)
            )
        assert answer.error_code == ErrorCode.NONE
        broker.session_id = answer.session_id
        broker.epoch = broker.epoch + 1 if answer.session_id else 0
        self.changed.clear()
        # Known until the session forgets it: what is wanted again before that is not answered anew.
        for gone in self.forgotten:
            self.known.pop(gone, None)
        self.forgotten.clear()
        self._learn(answer)
        full = broker.fetch(*((*key, offset) for key, offset in self.wanted.items()), session_id=0, session_epoch=-1)
        everything = {
            (topic.topic, each.partition_index): each for topic in full.responses for each in topic.partitions
        }
        for key, each in everything.items():
            assert self.known[key][:2] == (each.error_code, each.high_watermark), key
            assert self.known[key][2] == len(each.records or b""), key

    def _learn(self, answer: FetchResponse) -> None:
        for key, (error, high_watermark, _) in list(self.known.items()):
            self.known[key] = (error, high_watermark, 0)
        for topic in answer.responses:
            for each in topic.partitions:
                key = (topic.topic, each.partition_index)
                assert key in self.wanted
                self.known[key] = (each.error_code, each.high_watermark, len(each.records or b""))

    @invariant()
    def counts_agree(self) -> None:
        cache = self.broker.cache
        assert cache.session_count == len(cache._sessions) <= 10
        assert cache.partition_count == sum(len(each.partitions) for each in cache._sessions.values())


SessionsAgainstFullFetches.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestSessionsAgainstFullFetches = SessionsAgainstFullFetches.TestCase
