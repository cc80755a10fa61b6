"""The sending thread of a producer: it drains the accumulator, sends produce requests, and completes batches.

Owned by `kafka-producer-network-thread | <client id>`, which alone touches the NetworkClient. Other threads set the two
closing flags and wake it. An exception in a turn is logged, and the loop goes on. Times are monotonic milliseconds.
Kafka: Sender.

A turn never waits for an answer. It sends whatever may be sent now, then polls the network until the first of these:
an answer, a wake-up by `send`, the end of a linger or of a wait after a failure, the expiry of a batch. Answers are
handled inside the poll, by the callbacks of their requests, on this thread. So no lock guards what is only here: which
batches are in flight, and all sequence numbers.

Every batch that is drained ends exactly once, in one of these ways (`completion_of` has the rules):

    answer                                      what becomes of the batch
    no error, DUPLICATE_SEQUENCE_NUMBER         its futures get their offsets
    MESSAGE_TOO_LARGE, several records          its pieces take its place at the head of the queue, and its numbers
    MESSAGE_TOO_LARGE, may be stored already    its futures fail: its pieces could be stored a second time
    an error that may pass, a lost connection   it goes back to its queue, if retries and time are left
    any other error                             its futures fail
    none within `delivery_timeout_ms`           its futures fail; an answer that comes later finds it ended

Retries and order. With several requests in flight, A, B and C of one partition may be on their way when A fails. An
idempotent producer may retry: the broker refuses B and C, since A is missing, all three go back into the queue by their
sequence numbers, and A goes alone until it is stored (`sequence_numbers`). Without idempotence only one request in
flight keeps the order: the partition is muted from the time that its batch is drained until its answer is handled.
With more, B may be stored before A.

    turn 1  drain: A to node 1. The poll sends the request, and returns for the wake-up of a `send`.
    turn 2  drain: B to node 1, behind A. The poll receives A's answer, NOT_ENOUGH_REPLICAS: A is put back, with a wait
            of 100 ms. It receives B's answer, OUT_OF_ORDER_SEQUENCE_NUMBER: B is put back behind A.
    turn 3  Nothing may be drained: A waits, and B is behind A. The poll is given A's 100 ms.
    turn 4  drain: A alone; A's answer has an offset.
    turn 5  drain: B, and C behind B again.

An error by which a broker says that it does not lead the partition asks for new metadata. Until they come, the retry
would go to the same broker; its wait is there for that. If the answer names the new leader (KIP-951), the retry goes to
that leader in the next turn, without a wait.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from barnabas.clients.errors import INVALID_METADATA_ERRORS, ClientClosed, ClientTimeout, Disconnected
from barnabas.clients.metadata.cluster import LeaderHints
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.batches.producer_batch import FATE_UNKNOWN, Completion, ProducerBatch, completion_of
from barnabas.clients.producer.batches.sequence_numbers import PRODUCE_VERSIONS, SequenceNumbers
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_metrics import ProducerMetrics
from barnabas.clients.producer.sending.producer_requests import ProducerRequests, producer_requests
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_counters import NetworkCounters

logger = logging.getLogger(__name__)


class Sender:
    """The loop of one producer. `run` is the thread's target. An idempotent producer has `sequences`.

    `telemetry`: the requests that push the metrics, if any; they come after all others.
    """

    def __init__(
        self,
        client: NetworkClient,
        metadata: ClusterMetadata,
        accumulator: RecordAccumulator,
        config: ProducerConfig,
        sequences: SequenceNumbers | None = None,
        telemetry: ProducerRequests | None = None,
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._config = config
        self._acks = config.acks_number
        self._sequences = sequences
        numbering = None if sequences is None else producer_requests(client, accumulator, sequences, config)
        self._requests = [each for each in (numbering, telemetry) if each is not None]
        self.metrics = ProducerMetrics(client.now_ms)
        # With one request in flight, order survives retries without sequence numbers: the partition is muted meanwhile.
        self._guarantee_order = config.max_in_flight_requests_per_connection == 1
        self._in_flight: dict[TopicPartition, list[ProducerBatch]] = {}
        self._running = True
        self._forced = False

    # -- other threads

    def wakeup(self) -> None:
        """Make the loop look at the accumulator again. Any thread may call it."""
        self._client.wakeup()

    @property
    def network_counters(self) -> NetworkCounters:
        """The counters of the network client. Any thread may read them."""
        return self._client.counters

    def in_flight_count(self) -> int:
        """Return the number of requests without an answer. Any thread may call it."""
        return self._client.in_flight_count()

    def initiate_close(self) -> None:
        """Make the loop stop once the remaining batches are sent. Any thread may call it."""
        # The accumulator rejects new records first, or the loop could end with one of them still queued.
        self._accumulator.close()
        self._running = False
        self.wakeup()

    def force_close(self) -> None:
        """Make the loop stop now, and fail the remaining batches. Any thread may call it."""
        self._forced = True
        self.initiate_close()

    # -- the loop

    def run(self) -> None:
        """Run the loop until the producer is closed."""
        logger.debug("Starting Kafka producer I/O thread.")
        while self._running:
            self._turn()
        while not self._forced and self._has_work():
            self._turn()
        for requests in self._requests:
            requests.closed()
        self._accumulator.abort_incomplete(ClientClosed("Producer is closed forcefully."))
        try:
            self._client.close()
        except OSError as error:
            logger.warning("Failed to close network client: %s", error)
        logger.debug("Shutdown of Kafka producer I/O thread has completed.")

    def _has_work(self) -> bool:
        """Return whether a producer that closes has anything left to send or to wait for."""
        return (
            self._accumulator.has_incomplete()
            or self._client.in_flight_count() > 0
            # Last, since it aborts the transaction that is still open, and then makes the last push of metrics due.
            or any(requests.must_go_on() for requests in self._requests)
        )

    def _turn(self) -> None:
        try:
            self.run_once()
        except Exception:  # the thread must survive whatever one turn meets
            logger.exception("Uncaught error in kafka producer I/O thread")

    def run_once(self) -> None:
        """Take one turn: send the batches that are ready, then wait for answers or for the next deadline."""
        now_ms = self._client.now_ms()
        timeout_ms = FOREVER_MS
        # First, because without a producer id no new batch may be drained. Neither step waits for an answer.
        for requests in self._requests:
            timeout_ms = min(timeout_ms, requests.turn(now_ms))
        timeout_ms = min(timeout_ms, self._send_producer_data(now_ms))
        self._client.poll(timeout_ms, now_ms)

    def _send_producer_data(self, now_ms: int) -> int:
        """Send all batches that are ready. Returns the milliseconds until others may be."""
        cluster = self._metadata.cluster
        ready = self._accumulator.ready(cluster, now_ms)
        if ready.unknown_leader_topics:
            # A topic with queued batches must not become idle, and its new leader has to be found.
            for topic in ready.unknown_leader_topics:
                self._metadata.add_topic(topic, now_ms)
            self._metadata.request_update()
        not_ready_ms = FOREVER_MS
        nodes = []
        for node_id in ready.node_ids:
            node = cluster.nodes[node_id]
            is_ready = self._client.ready(node, now_ms)
            self._accumulator.note_node(node_id, now_ms, is_ready=is_ready)
            if is_ready:
                nodes.append(node_id)
            else:
                delay_ms = self._client.poll_delay_ms(node, now_ms)
                not_ready_ms = min(not_ready_ms, FOREVER_MS if delay_ms is None else delay_ms)
        # A batch counts as in flight from here on, so that `_fail_expired` finds it even before it is sent.
        drained = self._accumulator.drain(cluster, nodes, self._config.max_request_size, now_ms)
        for batches in drained.values():
            for batch in batches:
                self._in_flight.setdefault(batch.topic_partition, []).append(batch)
                if self._guarantee_order:
                    self._accumulator.mute(batch.topic_partition)
        # Before sending, so that a batch whose time is over is failed without another attempt. A batch that was drained
        # just now may be among them; its request goes out all the same, and the answer then finds it done.
        self._fail_expired(now_ms)
        for node_id, batches in drained.items():
            if batches:
                self._send_produce_request(node_id, batches, now_ms)
        # There may be more batches for the same nodes. A batch that has just failed may hold up those behind it until
        # their partition is intact again, which is the next turn's first step.
        if drained or (self._sequences is not None and self._sequences.can_restart):
            return 0
        return min(ready.next_check_ms, not_ready_ms, self._next_expiry_ms(now_ms))

    def _next_expiry_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the first batch expires, queued or in flight."""
        created = [batch.created_ms for batches in self._in_flight.values() for batch in batches]
        in_flight_ms = min(created) + self._config.delivery_timeout_ms - now_ms if created else FOREVER_MS
        return min(max(in_flight_ms, 0), self._accumulator.next_expiry_ms(now_ms))

    def _fail_expired(self, now_ms: int) -> None:
        timeout_ms = self._config.delivery_timeout_ms
        expired = self._accumulator.expire(now_ms)
        for batches in self._in_flight.values():
            expired += [batch for batch in batches if batch.has_reached_delivery_timeout(timeout_ms, now_ms)]
        for batch in expired:
            logger.debug("Expired batch of %s", batch.topic_partition)
            text = (
                f"Expiring {batch.record_count} record(s) for {batch.topic_partition}:"
                f"{now_ms - batch.created_ms} ms has passed since batch creation"
            )
            self._fail(batch, ClientTimeout(self._metadata.with_last_failure(text)))

    # -- producing

    def _send_produce_request(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> None:
        by_partition = {batch.topic_partition: batch for batch in batches}
        topics: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
        for (topic, partition), batch in by_partition.items():
            topics.setdefault(topic, []).append(ProduceRequest.PartitionProduceData(partition, batch.data))
        message = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=[
                ProduceRequest.TopicProduceData(name=name, partition_data=data) for name, data in topics.items()
            ],
        )
        request = self._client.new_request(
            node_id,
            message,
            versions=PRODUCE_VERSIONS if self._sequences is None else self._sequences.produce_versions,
            expects_response=self._acks != 0,
            timeout_ms=self._config.request_timeout_ms,
            callback=lambda response: self._handle_produce_response(response, by_partition, now_ms),
        )
        self.metrics.request_sent(batches, now_ms)
        try:
            self._client.send(request, now_ms)
        except Exception as error:  # the callers of `send` must learn of every failure
            logger.exception("A produce request cannot be sent")
            for batch in batches:
                self._fail(batch, error)
                self._accumulator.unmute(batch.topic_partition)
            return
        if self._sequences is not None:
            for batch in batches:
                self._sequences.sent(batch)

    def _handle_produce_response(
        self, response: ClientResponse, batches: Mapping[TopicPartition, ProducerBatch], sent_ms: int
    ) -> None:
        now_ms = response.received_ms
        if response.disconnected:
            error = ErrorCode.REQUEST_TIMED_OUT if response.timed_out else ErrorCode.NETWORK_EXCEPTION
            reason = f"Disconnected from node {response.request.node_id}"
            if response.timed_out:
                reason += " due to timeout"
            self._complete_all(batches.values(), error, reason, now_ms)
        elif response.version_error is not None:
            logger.warning("Cancelled request due to a version mismatch: %s", response.version_error)
            self._complete_all(batches.values(), ErrorCode.UNSUPPORTED_VERSION, str(response.version_error), now_ms)
        elif isinstance(response.body, ProduceResponse):
            self.metrics.request_answered(now_ms - sent_ms, response.body.throttle_time_ms, now_ms)
            self._client.record_latency(response.request.node_id, now_ms - sent_ms)
            # A broker that leaves a partition out of its answer would otherwise keep that batch in flight until it
            # expires, and its partition muted.
            unanswered = dict(batches)
            hints = LeaderHints()
            for topic in response.body.responses:
                for partition in topic.partition_responses:
                    batch = unanswered.pop(TopicPartition(topic.name, partition.index), None)
                    if batch is not None:
                        if error_of(partition.error_code) in INVALID_METADATA_ERRORS:
                            hints.add(batch.topic_partition, partition.current_leader)
                        self._complete(batch, partition, now_ms)
            hints.add_nodes(response.body.node_endpoints)
            self._metadata.update_leaders(hints)
            if unanswered:
                text = "The broker's answer leaves this partition out"
                self._complete_all(unanswered.values(), ErrorCode.UNKNOWN_SERVER_ERROR, text, now_ms)
        else:
            # With acks=0 the broker does not answer: a producer only knows that the batches were sent.
            self._complete_all(batches.values(), ErrorCode.NONE, None, now_ms)

    def _complete_all(self, batches: Iterable[ProducerBatch], error: ErrorCode, text: str | None, now_ms: int) -> None:
        for batch in batches:
            answer = ProduceResponse.PartitionProduceResponse(
                index=batch.topic_partition.partition, error_code=int(error), base_offset=-1, error_message=text
            )
            self._complete(batch, answer, now_ms)

    def _complete(self, batch: ProducerBatch, answer: ProduceResponse.PartitionProduceResponse, now_ms: int) -> None:
        """Finish, split, retry or fail a batch after its answer. In each case its partition may be drained again."""
        error = error_of(answer.error_code)
        if self._sequences is not None:
            self._sequences.answered(batch, error)
        completion = completion_of(
            error,
            record_count=batch.record_count,
            is_done=batch.is_done,
            may_retry=self._may_retry(batch, error, now_ms),
            may_be_stored=batch.may_be_stored,
        )
        # Without sequence numbers a retry may store the batch twice in any case, so it may be split as well.
        if error in FATE_UNKNOWN and batch.has_sequence:
            batch.may_be_stored = True
        if completion is Completion.SUCCEED:
            self._succeed(batch, answer)
        elif completion is Completion.SPLIT:
            self._split(batch)
            self.metrics.batch_split(now_ms)
        elif completion is Completion.RETRY:
            logger.log(
                # Of transaction.version 2, the first batches of a transaction often meet the end of the one before.
                logging.DEBUG if error is ErrorCode.CONCURRENT_TRANSACTIONS else logging.WARNING,
                "Got error produce response on topic-partition %s, retrying (%d attempts left). Error: %s %s",
                batch.topic_partition,
                self._config.retries - batch.attempts - 1,
                error.name,
                answer.error_message or "",
            )
            self._forget_in_flight(batch)
            self._accumulator.reenqueue(batch, now_ms)
            self.metrics.batch_retried(batch, now_ms)
        else:
            self._fail_with_answer(batch, error, answer)
        # A retry goes to the leader in the present metadata, so only an update sends it to another broker.
        if error in INVALID_METADATA_ERRORS:
            if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                logger.warning(
                    "Received unknown topic or partition error in produce request on partition %s. The topic-partition"
                    " may not exist or the user may not have Describe access to it",
                    batch.topic_partition,
                )
            self._metadata.request_update()
        if self._guarantee_order:
            self._accumulator.unmute(batch.topic_partition)

    def _may_retry(self, batch: ProducerBatch, error: ErrorCode, now_ms: int) -> bool:
        if batch.is_done or batch.has_reached_delivery_timeout(self._config.delivery_timeout_ms, now_ms):
            return False
        # A batch that waits for the end of the transaction before has not failed, as AddPartitionsToTxn would not have.
        if batch.attempts >= self._config.retries and error is not ErrorCode.CONCURRENT_TRANSACTIONS:
            return False
        return error.retriable if self._sequences is None else self._sequences.can_retry(error, batch)

    def _succeed(self, batch: ProducerBatch, answer: ProduceResponse.PartitionProduceResponse) -> None:
        if self._sequences is not None:
            self._sequences.succeeded(batch)
        self._forget_in_flight(batch)
        batch.complete(answer.base_offset, answer.log_append_time_ms)
        self._accumulator.finished(batch)

    def _split(self, batch: ProducerBatch) -> None:
        pieces = self._accumulator.split_and_reenqueue(batch)
        logger.warning(
            "Got error MESSAGE_TOO_LARGE on topic-partition %s: split %d records into %d batches",
            batch.topic_partition,
            batch.record_count,
            pieces,
        )
        self._forget_in_flight(batch)
        self._accumulator.finished(batch)

    def _fail_with_answer(
        self, batch: ProducerBatch, error: ErrorCode, answer: ProduceResponse.PartitionProduceResponse
    ) -> None:
        text = answer.error_message
        if error is ErrorCode.MESSAGE_TOO_LARGE:
            text = text or error.message
            if batch.may_be_stored:
                text += (
                    f" (the {batch.record_count} record(s) for {batch.topic_partition} may be stored all the same: an"
                    " earlier attempt was not answered, so they were not sent again in smaller batches)"
                )
        # Each of these errors has an exception of the clients, so that users need not look at codes for them.
        cause: Exception = ApiError(error, text)
        if error is ErrorCode.NETWORK_EXCEPTION:
            cause = Disconnected(text or error.message)
        elif error is ErrorCode.REQUEST_TIMED_OUT:
            cause = ClientTimeout(text or error.message)
        errors = {item.batch_index: item.batch_index_error_message or "" for item in answer.record_errors}
        self._fail(batch, cause, errors)

    def _fail(self, batch: ProducerBatch, cause: Exception, record_errors: dict[int, str] | None = None) -> None:
        if self._sequences is not None:
            self._sequences.failed(batch, cause)
        self._forget_in_flight(batch)
        if batch.fail(cause, record_errors):
            self.metrics.records_failed(batch.topic_partition.topic, batch.record_count)
        self._accumulator.finished(batch)

    def _forget_in_flight(self, batch: ProducerBatch) -> None:
        batch.in_flight = False
        batches = self._in_flight.get(batch.topic_partition)
        if batches is not None and batch in batches:
            batches.remove(batch)
            if not batches:
                del self._in_flight[batch.topic_partition]
