"""Random lives of markers: leaders move and die, answers are lost or are errors, topics are deleted, ids are given up.

Whatever happens, each partition that exists has its marker before its transaction is complete, a transaction completes
once, a broker has one request at a time, and none is for a transaction that this broker has given up.
"""

from __future__ import annotations

from random import Random

from barnabas.coordinator.transaction.marker_dispatch import EndedTransaction, MarkerDispatch, MarkerRequest
from barnabas.coordinator.transaction.transaction_entry import TransactionEntry
from barnabas.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from barnabas.metadata.metadata_image import BrokerMetadata, MetadataImage, PartitionMetadata, TopicMetadata
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersResponse
from barnabas.protocol.topic_partition import TopicPartition

NODES = 3
PLACES = [TopicPartition(topic, partition) for topic in "abc" for partition in range(2)]
ERRORS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
)
NO_LEADER = -1


class MarkerLife:
    """One life, of several transactions."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.leaders: dict[TopicPartition, int] = {place: self.chance.randrange(NODES) for place in PLACES}
        self.live = set(range(NODES))
        self.dispatch = MarkerDispatch(lambda ended: not ended.entry.is_removed, self.completed)
        self.in_flight: list[MarkerRequest] = []
        self.transactions: list[EndedTransaction] = []
        self.complete: list[EndedTransaction] = []
        self.markers: dict[int, set[TopicPartition]] = {}
        """The partitions that have a producer's marker."""

    def completed(self, ended: EndedTransaction) -> None:
        existing = ended.decided.partitions & self.leaders.keys()
        assert existing <= self.markers.get(ended.decided.producer_id, set())
        assert ended not in self.complete
        assert not ended.entry.is_removed
        self.complete.append(ended)

    def image(self) -> MetadataImage:
        topics: dict[str, list[PartitionMetadata]] = {}
        for (topic, number), leader in self.leaders.items():
            topics.setdefault(topic, []).append(PartitionMetadata(number, leader, 0, (0, 1, 2), (0, 1, 2), (), 0))
        return MetadataImage(
            brokers={node: BrokerMetadata(node, -1, None, {}) for node in self.live},
            topics={name: TopicMetadata(name, bytes(16), tuple(partitions)) for name, partitions in topics.items()},
        )

    def end_transaction(self) -> None:
        number = len(self.transactions)
        state = self.chance.choice((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))
        places = frozenset(self.chance.sample(PLACES, self.chance.randrange(len(PLACES) + 1)))
        decided = TransactionMetadata(f"t{number}", number, 0, 1000, state, 1, places, 1)
        self.transactions.append(EndedTransaction.of(TransactionEntry(decided, 0, 5)))
        self.dispatch.add(self.transactions[-1])

    def send(self) -> None:
        for request in self.dispatch.requests(self.image()):
            assert request.node_id in self.live
            assert request.node_id not in [each.node_id for each in self.in_flight]
            given_up = {each.decided.producer_id for each in self.transactions if each.entry.is_removed}
            assert not given_up & {marker.producer_id for marker in request.message.markers}
            self.in_flight.append(request)

    def answer(self, *, is_calm: bool = False) -> None:
        if not self.in_flight:
            return
        request = self.in_flight.pop(self.chance.randrange(len(self.in_flight)))
        is_lost = not is_calm and self.chance.random() < 0.2
        results = []
        for marker in request.message.markers:
            by_topic: dict[str, list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
            for topic in marker.topics:
                for number in topic.partition_indexes:
                    place = TopicPartition(topic.name, number)
                    error = self.judge(request.node_id, place, is_calm=is_calm)
                    # The marker may be written although its answer is lost.
                    if error is ErrorCode.NONE and (not is_lost or self.chance.random() < 0.5):
                        self.markers.setdefault(marker.producer_id, set()).add(place)
                    answer = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(number, error)
                    by_topic.setdefault(topic.name, []).append(answer)
            topics = [WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(*each) for each in by_topic.items()]
            results.append(WriteTxnMarkersResponse.WritableTxnMarkerResult(marker.producer_id, topics))
        self.dispatch.answered(request, None if is_lost else WriteTxnMarkersResponse(results))

    def judge(self, node_id: int, place: TopicPartition, *, is_calm: bool) -> ErrorCode:
        if self.leaders.get(place) != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self.chance.choice(ERRORS) if not is_calm and self.chance.random() < 0.3 else ErrorCode.NONE

    def disturb(self) -> None:
        what = self.chance.randrange(4)
        place = self.chance.choice(PLACES)
        if what == 0 and place in self.leaders:
            self.leaders[place] = self.chance.choice((NO_LEADER, *range(NODES)))
        elif what == 1:
            self.live ^= {self.chance.randrange(NODES)}
        elif what == 2 and self.chance.random() < 0.3:
            self.leaders.pop(place, None)
        elif self.transactions and self.chance.random() < 0.2:
            ended = self.chance.choice(self.transactions)
            if ended not in self.complete:
                ended.entry.is_removed = True

    def live_on(self) -> None:
        for _ in range(self.chance.randrange(20, 80)):
            self.chance.choice((self.end_transaction, self.send, self.send, self.answer, self.answer, self.disturb))()
        # The faults are over: whatever is left completes.
        self.live = set(range(NODES))
        for place, leader in self.leaders.items():
            self.leaders[place] = max(leader, 0)
        for _ in range(200):
            self.send()
            self.answer(is_calm=True)
        assert not self.in_flight
        assert not len(self.dispatch)
        assert set(self.complete) == {each for each in self.transactions if not each.entry.is_removed}


def test_every_transaction_completes_once_with_all_its_markers() -> None:
    for seed in range(300):
        try:
            MarkerLife(seed).live_on()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def test_markers_without_a_live_leader_are_counted() -> None:
    life = MarkerLife(1)
    life.leaders = dict.fromkeys(PLACES, 0)
    places = frozenset(PLACES[:3])
    decided = TransactionMetadata("t", 7, 0, 1000, TransactionState.PREPARE_COMMIT, 1, places, 1)
    ended = EndedTransaction.of(TransactionEntry(decided, 0, 5))
    life.transactions.append(ended)
    life.dispatch.add(ended)
    life.leaders[PLACES[0]] = NO_LEADER
    life.leaders[PLACES[1]] = 1
    life.live = {0}
    life.send()
    assert life.dispatch.unknown_destinations == 2
    life.live = {0, 1}
    life.send()
    assert life.dispatch.unknown_destinations == 1
    life.leaders[PLACES[0]] = 0
    while life.in_flight:
        life.answer(is_calm=True)
    life.send()
    life.answer(is_calm=True)
    assert life.dispatch.unknown_destinations == 0
    assert life.complete == [ended]
