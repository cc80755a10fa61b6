"""Plays a history of transactions to one broker, step by step, and tells what was answered in comparable words.

The player of `transaction_histories`. One thread; one connection, opened again when the broker has closed it.

Producer ids are told as P1, P2, ... in the order in which the broker has handed them out, names without the player's
prefix, times not at all. A coordinator writes markers after it has answered: each step that may have ended a
transaction waits until no transaction of the history is being ended (`_settle`). So no request is answered with
CONCURRENT_TRANSACTIONS by chance. InitProducerId is, whenever it finds a transaction open: that is told, and then what
the broker answers when the request is repeated.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import RecordBatch, batches
from tests.compatibility.history_player import Step, name_of
from tests.compatibility.transaction_histories import PARTITIONS, TRANSACTIONAL_IDS
from tests.compatibility.verdicts import TOPIC_SETTINGS
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch, record_bytes
from tests.support.server_process import ServerProcess

M = TypeVar("M", bound=Message)

READS: Final = frozenset(
    {"fetch", "list_offsets", "fetch_offsets", "describe", "describe_producers", "list", "find_coordinator"}
)
"""Steps that change nothing: they may be played again until their answer is the expected one."""
UNKNOWN_PRODUCER: Final = 987_654
"""The first of the producer ids of producers that were given none."""
FIRST_TIMESTAMP: Final = 4_000_000_000_000
"""In 2096: no broker forgets a producer, nor deletes a record, because of its age."""
SESSION_MS: Final = 1_000_000
FIRST_END_WITH_NEXT_EPOCH: Final = 5
"""The first version of EndTxn whose answer has the producer's next epoch (transaction.version 2)."""
PATIENCE_SECONDS: Final = 60.0
BEING_ENDED: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class Identity(NamedTuple):
    """How a request names its producer."""

    transactional_id: str
    producer_id: int
    epoch: int


class _Batch(NamedTuple):
    """The last batch that a producer has written to a partition: its first sequence and the number of its records."""

    sequence: int
    records: int


@dataclass
class _Known:
    """What a broker has told a producer."""

    producer_id: int
    epoch: int = 0
    written: dict[int, _Batch] = field(default_factory=dict)
    """By partition, since the producer got its epoch."""


class TransactionHistoryPlayer:
    """One broker, and one history. prefix: of all names; no other history has it. A step "x" is played by `_x`."""

    def __init__(self, server: ServerProcess, prefix: str) -> None:
        self._server = server
        self._client = RawClient(server)
        self._prefix = prefix
        self._group = f"{prefix}-group"
        self._known = {name: _Known(UNKNOWN_PRODUCER + place) for place, name in enumerate(TRANSACTIONAL_IDS)}
        self._producers = {each.producer_id: f"unknown {name}" for name, each in self._known.items()}
        self._handed_out = itertools.count(1)
        self._member_id = ""
        self._generation = -1
        self._number = 0
        self._client.create_topic(prefix, PARTITIONS, TOPIC_SETTINGS)
        self._wait_for_logs()

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def _wait_for_logs(self) -> None:
        """Wait until each partition answers: with KRaft, metadata name a leader before the leader knows."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(self._client.list_offset(self._prefix, -1, partition=each).error_code for each in range(PARTITIONS)):
            assert time.monotonic() < deadline, "a partition has no leader"
            time.sleep(0.01)

    def play(self, step: Step) -> str:
        """Do one step; the answer in words."""
        self._number += 1
        played: Callable[[Step], str] = getattr(self, f"_{step.kind}")
        try:
            return played(step)
        except ConnectionClosed:
            self._client.close()
            self._client = RawClient(self._server)
            return "the connection was closed"

    # Requests of producers

    def _init(self, step: Step) -> str:
        known, own_id = self._known[step.actor], TRANSACTIONAL_IDS[step.actor]
        request = InitProducerIdRequest(None if own_id is None else f"{self._prefix}-{own_id}", step.options["timeout"])
        if "transactional_id" in step.options:
            request.transactional_id = self._long_id(step.options["transactional_id"])
        expected = step.options["expected"]
        if step.version >= 3 and expected != "none":
            wrong = {"own": "", "half": ""}.get(expected, expected)
            _, request.producer_id, request.producer_epoch = self._identity(step.actor, wrong)
            if expected == "half":
                request.producer_epoch = -1
        told = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._client.call(request, step.version, InitProducerIdResponse)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            told = ["CONCURRENT_TRANSACTIONS, then "]
            self._settle()
            assert time.monotonic() < deadline, "the transaction of the producer before is not aborted"
        if answer.error_code == ErrorCode.NONE:
            self._take_over(known, answer.producer_id, answer.producer_epoch)
        return f"{''.join(told)}{name_of(answer.error_code)} {self._who(answer.producer_id)}/{answer.producer_epoch}"

    def _add(self, step: Step) -> str:
        identity = self._identity(step.actor, step.options["wrong"])
        topics = self._topics_to_add(step.options["partitions"])
        answer = self._client.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=identity.transactional_id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=topics,
            ),
            step.version,
            AddPartitionsToTxnResponse,
        )
        return self._tell_added(answer.results_by_topic_v3_and_below)

    def _add_batch(self, step: Step) -> str:
        options = step.options
        identities = [self._identity(step.actor, options["wrong"])]
        if options["also"] and self._identity(options["also"], "")[0] != identities[0].transactional_id:
            identities.append(self._identity(options["also"], ""))
        request = AddPartitionsToTxnRequest(
            [
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    *each, options["verify"], self._topics_to_add(options["partitions"])
                )
                for each in identities
            ]
        )
        answer = self._client.call(request, step.version, AddPartitionsToTxnResponse)
        results = sorted(
            f"{self._without_prefix(each.transactional_id)}: {self._tell_added(each.topic_results)}"
            for each in answer.results_by_transaction
        )
        return f"{name_of(answer.error_code)} {'; '.join(results)}"

    def _add_internal(self, step: Step) -> str:
        """Add partitions of the coordinators' own topics, which only AddOffsetsToTxn may."""
        topics = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name, [0])
            for name in (self._prefix, "__consumer_offsets", "__transaction_state")
        ]
        request = AddPartitionsToTxnRequest([], *self._identity(step.actor, ""), topics)
        answer = self._client.call(request, step.version, AddPartitionsToTxnResponse)
        return self._tell_added(answer.results_by_topic_v3_and_below)

    def _topics_to_add(self, partitions: list[int] | str) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
        numbers = list(range(int(partitions))) if isinstance(partitions, str) else partitions
        return [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(self._prefix, numbers)]

    def _tell_added(self, topics: Iterable[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]) -> str:
        results = {
            (self._without_prefix(topic.name), each.partition_index): each.partition_error_code
            for topic in topics
            for each in topic.results_by_partition
        }
        return _tell_partitions(results)

    def _add_offsets(self, step: Step) -> str:
        request = AddOffsetsToTxnRequest(*self._identity(step.actor, step.options["wrong"]), self._group)
        return name_of(self._client.call(request, step.version, AddOffsetsToTxnResponse).error_code)

    def _end(self, step: Step) -> str:
        request = EndTxnRequest(*self._identity(step.actor, step.options["wrong"]), step.options["commit"])
        answer = self._client.call(request, step.version, EndTxnResponse)
        self._settle()
        if step.version < FIRST_END_WITH_NEXT_EPOCH:
            return name_of(answer.error_code)
        if answer.error_code == ErrorCode.NONE:
            self._take_over(self._known[step.actor], answer.producer_id, answer.producer_epoch)
        return f"{name_of(answer.error_code)} {self._who(answer.producer_id)}/{answer.producer_epoch}"

    def _take_over(self, known: _Known, producer_id: int, epoch: int) -> None:
        """Give a producer the id and the epoch from an answer; with a new epoch its sequences begin anew."""
        if (known.producer_id, known.epoch) != (producer_id, epoch):
            known.written.clear()
        known.producer_id, known.epoch = producer_id, epoch
        if producer_id not in self._producers:
            self._producers[producer_id] = f"P{next(self._handed_out)}"

    def _produce(self, step: Step) -> str:
        options, known = step.options, self._known[step.actor]
        partition: int = options["partition"]
        identity = self._identity(step.actor, options["wrong"])
        last = known.written.get(partition, _Batch(0, 0))
        following = last.sequence + last.records
        sequence = {"next": following, "again": last.sequence, "gap": following + 5, "first": 0}[options["sequence"]]
        count = last.records if options["sequence"] == "again" and last.records else options["count"]
        records = make_batch(
            [b"%d.%d" % (self._number, index) for index in range(count)],
            timestamp_ms=FIRST_TIMESTAMP + 1000 * self._number,
            producer_id=identity.producer_id,
            producer_epoch=max(identity.epoch, 0),
            base_sequence=sequence,
            is_transactional=options["transactional"],
        )
        data = ProduceRequest.TopicProduceData(
            name=self._prefix, partition_data=[ProduceRequest.PartitionProduceData(partition, records)]
        )
        request = ProduceRequest(identity.transactional_id if options["names_id"] else None, -1, 30_000, [data])
        (topic,) = self._client.call(request, step.version, ProduceResponse).responses
        (result,) = topic.partition_responses
        if result.error_code == ErrorCode.NONE and not options["wrong"]:
            known.written[partition] = _Batch(sequence, count)
        return f"{name_of(result.error_code)} at {result.base_offset}"

    def _identity(self, actor: str, wrong: str) -> Identity:
        known = self._known[actor]
        identity = Identity(f"{self._prefix}-{TRANSACTIONAL_IDS[actor]}", known.producer_id, known.epoch)
        if wrong == "stale epoch":
            return identity._replace(epoch=identity.epoch - 1)
        if wrong == "future epoch":
            return identity._replace(epoch=identity.epoch + 1)
        if wrong == "producer":
            return identity._replace(producer_id=self._known["a" if actor == "c" else "c"].producer_id)
        if wrong == "transactional id":
            return identity._replace(transactional_id=f"{self._prefix}-nobody")
        if wrong == "empty id":
            return identity._replace(transactional_id="")
        return identity

    # The group

    def _join(self, step: Step) -> str:
        """Join, or join again, as the group's only member; v3 hands out a member id with the first answer."""
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(self._group, SESSION_MS, SESSION_MS, self._member_id, None, "consumer", protocols)
        joined = self._client.call(request, 3, JoinGroupResponse)
        if joined.error_code == ErrorCode.NONE:
            self._member_id, self._generation = joined.member_id, joined.generation_id
        sync = SyncGroupRequest(self._group, self._generation, self._member_id)
        synced = self._client.call(sync, 2, SyncGroupResponse)
        return f"{name_of(joined.error_code)} {joined.generation_id} {name_of(synced.error_code)}"

    def _leave(self, step: Step) -> str:
        answer = self._client.call(LeaveGroupRequest(self._group, self._member_id), 2, LeaveGroupResponse)
        return name_of(answer.error_code)

    def _commit(self, step: Step) -> str:
        place = OffsetCommitRequest.OffsetCommitRequestPartition(
            step.options["partition"], step.options["offset"], committed_metadata="plain"
        )
        wanted = OffsetCommitRequest.OffsetCommitRequestTopic(name=self._prefix, partitions=[place])
        request = OffsetCommitRequest(self._group, -1, "", topics=[wanted])
        answer = self._client.call(request, step.version, OffsetCommitResponse)
        results = {
            (self._without_prefix(topic.name), each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        return _tell_partitions(results)

    def _commit_in_transaction(self, step: Step) -> str:
        options = step.options
        identity = self._identity(step.actor, options["wrong"])
        place = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        metadata = "m" * 5000 if options["is_long"] else "m"
        places = [place(index, options["offset"], 0, metadata) for index in options["partitions"]]
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(self._prefix, places)
        request = TxnOffsetCommitRequest(
            identity.transactional_id, self._group, identity.producer_id, identity.epoch, topics=[topic]
        )
        if step.version >= 3:
            request.generation_id, request.member_id = {
                "none": (-1, ""),
                "member": (self._generation, self._member_id),
                "generation": (self._generation - 1, self._member_id),
                "unknown member": (self._generation, "nobody-0123"),
                "no member id": (max(self._generation, 1), ""),
            }[options["consumer"]]
        answer = self._client.call(request, step.version, TxnOffsetCommitResponse)
        results = {
            (self._without_prefix(topic.name), each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        return _tell_partitions(results)

    def _fetch_offsets(self, step: Step) -> str:
        partitions = list(range(PARTITIONS))
        request = OffsetFetchRequest(require_stable=step.options["stable"] and step.version >= 7)
        if step.version < 8:
            request.group_id = self._group
            request.topics = [OffsetFetchRequest.OffsetFetchRequestTopic(self._prefix, partitions)]
        else:
            wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name=self._prefix, partition_indexes=partitions)
            request.groups = [OffsetFetchRequest.OffsetFetchRequestGroup(self._group, topics=[wanted])]
        answer = self._client.call(request, step.version, OffsetFetchResponse)
        code = answer.groups[0].error_code if answer.groups else answer.error_code
        topics = answer.groups[0].topics if answer.groups else answer.topics
        found = sorted(
            f"{each.partition_index}: {name_of(each.error_code)} {each.committed_offset} {each.metadata!r}"
            for topic in topics
            for each in topic.partitions
        )
        return f"{name_of(code)} {', '.join(found)}"

    # Requests of brokers and administrators

    def _marker(self, step: Step) -> str:
        options = step.options
        identity = self._identity(step.actor, options["wrong"])
        topics = [WriteTxnMarkersRequest.WritableTxnMarkerTopic(self._prefix, options["partitions"])]
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            identity.producer_id, identity.epoch, options["commit"], topics, options["coordinator_epoch"]
        )
        answer = self._client.call(WriteTxnMarkersRequest([marker]), step.version, WriteTxnMarkersResponse)
        results = {
            (self._who(one.producer_id), each.partition_index): each.error_code
            for one in answer.markers
            for topic in one.topics
            for each in topic.partitions
        }
        return _tell_partitions(results)

    def _expire(self, step: Step) -> str:
        """Wait until the coordinator has aborted the producer's transaction."""
        transactional_id = f"{self._prefix}-{TRANSACTIONAL_IDS[step.actor]}"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (states := self._states([transactional_id]))[transactional_id] in {"Ongoing", *BEING_ENDED}:
            assert time.monotonic() < deadline, states
            time.sleep(0.005)
        return states[transactional_id]

    def _settle(self) -> None:
        """Wait until no transaction of this history is being ended."""
        names = [f"{self._prefix}-{each}" for each in sorted({name for name in TRANSACTIONAL_IDS.values() if name})]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while BEING_ENDED & set((states := self._states(names)).values()):
            assert time.monotonic() < deadline, states
            time.sleep(0.002)

    def _states(self, transactional_ids: list[str]) -> Mapping[str, str]:
        answer = self._client.call(DescribeTransactionsRequest(transactional_ids), 0, DescribeTransactionsResponse)
        return {each.transactional_id: each.transaction_state for each in answer.transaction_states}

    def _describe(self, step: Step) -> str:
        names = [f"{self._prefix}-{name}" for name in ("t", "u", "nobody")]
        answer = self._client.call(DescribeTransactionsRequest(names), step.version, DescribeTransactionsResponse)
        told = []
        for each in answer.transaction_states:
            places = sorted(
                "offsets" if topic.topic.startswith("__") else str(partition)
                for topic in each.topics
                for partition in topic.partitions
            )
            name = self._without_prefix(each.transactional_id)
            if each.error_code != ErrorCode.NONE:
                told.append(f"{name}: {name_of(each.error_code)}")
                continue
            # Of an id without a transaction, Kafka tells when its last one began until the coordinator loads it anew.
            is_begun = each.transaction_state != "Empty" and each.transaction_start_time_ms > 0
            told.append(
                f"{name}: {each.transaction_state} {self._who(each.producer_id)}/{each.producer_epoch}"
                f" {each.transaction_timeout_ms} {'begun' if is_begun else ''} {places}"
            )
        return "; ".join(sorted(told))

    def _list(self, step: Step) -> str:
        producer = step.options["producer"]
        producers = [self._known[producer].producer_id] if producer else []
        request = ListTransactionsRequest(step.options["states"], producers)
        if step.version >= 1:
            request.duration_filter = step.options["duration"]
        answer = self._client.call(request, step.version, ListTransactionsResponse)
        found = sorted(
            f"{self._without_prefix(each.transactional_id)} {self._who(each.producer_id)} {each.transaction_state}"
            for each in answer.transaction_states
            if each.transactional_id.startswith(self._prefix)
            # As in _describe: how long ago the last transaction began does not matter where there is none.
            and not (request.duration_filter >= 0 and each.transaction_state == "Empty")
        )
        return f"{name_of(answer.error_code)} {sorted(answer.unknown_state_filters)} {', '.join(found)}"

    def _describe_producers(self, step: Step) -> str:
        topic = DescribeProducersRequest.TopicRequest(self._prefix, list(range(PARTITIONS)))
        answer = self._client.call(DescribeProducersRequest([topic]), step.version, DescribeProducersResponse)
        told = []
        for each in answer.topics[0].partitions:
            producers = sorted(
                f"{self._who(one.producer_id)}/{one.producer_epoch} {one.last_sequence}"
                f" coordinator {one.coordinator_epoch} open {one.current_txn_start_offset}"
                for one in each.active_producers
            )
            told.append(f"{each.partition_index}: {name_of(each.error_code)} {producers}")
        return "; ".join(sorted(told))

    def _find_coordinator(self, step: Step) -> str:
        key = f"{self._prefix}-{step.options['transactional_id']}"
        is_many = step.version >= 4
        request = FindCoordinatorRequest("", 1, [key]) if is_many else FindCoordinatorRequest(key, 1)
        answer = self._client.call(request, step.version, FindCoordinatorResponse)
        found = answer.coordinators[0] if is_many else answer
        is_this = (found.host, found.port) == (self._server.host, self._server.port)
        return f"{name_of(found.error_code)} {'this broker' if is_this else found.node_id}"

    # Readers

    def _fetch(self, step: Step) -> str:
        options = step.options
        request = self._client.fetch_request(
            self._prefix, options["offset"], step.version, partition=options["partition"]
        )
        request.isolation_level = int(options["committed"])
        answer = self._client.call(request, step.version, FetchResponse)
        (topic,) = answer.responses
        (found,) = topic.partitions
        aborted = found.aborted_transactions
        told = (
            None if aborted is None else sorted(f"{self._who(one.producer_id)}@{one.first_offset}" for one in aborted)
        )
        stored = [self._tell_batch(each) for each in batches(record_bytes(found))]
        return (
            f"{name_of(found.error_code)} high watermark {found.high_watermark} stable {found.last_stable_offset}"
            f" aborted {told} {' '.join(stored)}"
        )

    def _tell_batch(self, batch: RecordBatch) -> str:
        place = f"{batch.base_offset}-{batch.last_offset}:{self._who(batch.producer_id)}/{batch.producer_epoch}"
        if batch.is_control:
            marker = EndTransactionMarker.of(batch)
            assert marker is not None
            return f"{place} {'ABORT' if marker.is_abort else 'COMMIT'} by {marker.coordinator_epoch}"
        values = ",".join((record.value or b"").decode() for record in batch.records())
        return f"{place}/{batch.base_sequence} {'transactional' if batch.is_transactional else 'plain'} [{values}]"

    def _list_offsets(self, step: Step) -> str:
        timestamp = {"latest": -1, "earliest": -2, "middle": FIRST_TIMESTAMP + 1000 * 8}[step.options["timestamp"]]
        place = ListOffsetsRequest.ListOffsetsPartition(partition_index=step.options["partition"], timestamp=timestamp)
        wanted = ListOffsetsRequest.ListOffsetsTopic(self._prefix, [place])
        request = ListOffsetsRequest(-1, int(step.options["committed"]), [wanted])
        (topic,) = self._client.call(request, step.version, ListOffsetsResponse).topics
        (found,) = topic.partitions
        return f"{name_of(found.error_code)} {found.offset} at {found.timestamp} epoch {found.leader_epoch}"

    # Words

    def _who(self, producer_id: int) -> str:
        return "none" if producer_id == -1 else self._producers.get(producer_id, "?")

    def _without_prefix(self, name: str) -> str:
        short = name.removeprefix(self._prefix).removeprefix("-")
        return short if len(short) < 1000 else "a long id"

    def _long_id(self, name: str) -> str:
        """The transactional id that a scripted step names: by its length where it is a number."""
        return f"{self._prefix}-".ljust(int(name), "x") if name.isdigit() else name


def _tell_partitions(results: Mapping[tuple[str, int], int]) -> str:
    """Errors of partitions; those of very many are counted."""
    if len(results) > 20:
        codes = [name_of(code) for code in results.values()]
        return ", ".join(f"{codes.count(code)} x {code}" for code in sorted(set(codes)))
    return ", ".join(f"{name} {index}: {name_of(code)}".strip() for (name, index), code in sorted(results.items()))
