"""The topics and offsets that brokers report, asked as an admin client asks: the source's `BrokerOffsets`.

Made by `client_cache`, used on the driver and by tasks after a loss of data, on one thread of a process; no lock. No
answer is cached, because partitions may be added at any time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.calls.offset_lookup import UNKNOWN_PARTITION_MS, lookup_offsets
from barnabas.clients.errors import ClientTimeout, Disconnected, Unreachable
from barnabas.clients.metadata.cluster import topic_descriptions, topic_names, topics_request
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.clients.values import isolation_number
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.source_options import ConnectionOptions, OffsetRetries
from barnabas_spark.reading.starting_offsets import TopicMissing
from barnabas_spark.topic_offsets import EARLIEST, LATEST, Offsets

logger = logging.getLogger(__name__)

T = TypeVar("T")


class AdminOffsets:
    """The questions about offsets, each asked `retries.attempts` times before it fails.

    Each attempt may take `api_timeout_ms`. If no broker was ever reached, the question fails at once: the client itself
    has tried for as long as `bootstrap_timeout_ms`.
    """

    def __init__(
        self, connection: ConnectionOptions, retries: OffsetRetries, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._connection = connection
        self._retries = retries
        self._sleep = sleep
        self._client: BlockingClient | None = None

    def topics(self) -> list[str]:
        """Return the names of all topics but the internal ones. Raises ApiError, ClientTimeout, Disconnected."""
        return self._ask(lambda client: topic_names(self._metadata(client, None)))

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        """Return all partitions of the topics. Raises TopicMissing, ApiError, ClientTimeout, Disconnected."""
        try:
            described = self._ask(lambda client: topic_descriptions(self._metadata(client, topics)))
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise TopicMissing(
                f"{error}. The topic does not exist, or was deleted while the query ran; the query reads"
                f" {', '.join(topics)}"
            ) from None
        return sorted(TopicPartition(topic, info.partition) for topic in topics for info in described[topic].partitions)

    def earliest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the first offset that each partition still has. Raises ApiError, ClientTimeout, Disconnected."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the end of each partition, which is the last stable offset for a reader of committed records.

        Raises ApiError, ClientTimeout, Disconnected.
        """
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def latest_from(self, known: Offsets, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the end of each partition, asked for again while one is before its `known` offset.

        A replica that has just become the leader may not know yet what consumers have read. After the last attempt the
        end is returned as it is: records may be lost. Raises ApiError, ClientTimeout, Disconnected.
        """
        for _ in range(self._retries.attempts - 1):
            found = self.at_least_read(known, self.latest(partitions))
            behind = [partition for partition in partitions if found[partition] < known.get(partition, 0)]
            if not behind:
                return found
            logger.warning("%s ends before what was read from it; its end is asked for again", behind[0])
            self._sleep(self._retries.interval_ms / 1000)
        return self.at_least_read(known, self.latest(partitions))

    def at_least_read(self, known: Offsets, ends: Offsets) -> Offsets:
        """Return the ends, each moved up to its `known` offset where only an open transaction keeps it behind.

        So a query that has read uncommitted records, and goes on with committed ones, waits for the transaction: its
        records were read before, and none is lost. Raises ApiError, ClientTimeout, Disconnected.
        """
        behind = [partition for partition, end in ends.items() if end < known.get(partition, 0)]
        if not behind or not self._connection.reads_committed:
            return ends
        written = self._offsets(dict.fromkeys(behind, LATEST), "read_uncommitted")
        return ends | {partition: known[partition] for partition in behind if known[partition] <= written[partition]}

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        """Return each partition's first offset that is as young, or -1.

        Raises ApiError, ClientTimeout, Disconnected.
        """
        return self._offsets(timestamps_ms)

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Commit the offsets of a group without members. Raises ApiError, ClientTimeout, Disconnected."""
        # Imported when used: only queries with `commitGroupId` need the whole admin client.
        from barnabas.clients.admin import Admin  # noqa: PLC0415

        connection = self._connection
        errors = self._ask(
            lambda client: Admin(
                connection.bootstrap_servers, timeout_ms=connection.api_timeout_ms, client=client
            ).alter_group_offsets(group_id, offsets)
        )
        for error in errors.values():
            if error is not None:
                raise error

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _offsets(self, timestamps_ms: Mapping[TopicPartition, int], isolation_level: str | None = None) -> Offsets:
        if not timestamps_ms:
            return {}
        level = isolation_number(isolation_level or self._connection.isolation_level)
        found = self._ask(
            lambda client: lookup_offsets(
                client,
                timestamps_ms,
                self._deadline_ms(client),
                isolation_level=level,
                unknown_ms=UNKNOWN_PARTITION_MS,
            )
        )
        return {partition: found[partition].offset for partition in timestamps_ms}

    def _ask(self, question: Callable[[BlockingClient], T]) -> T:
        """Return the answer of the last attempt. Raises ApiError, ClientTimeout, Disconnected."""
        attempt = 1
        while True:
            try:
                return self._question(question)
            except (ApiError, ClientTimeout, Disconnected) as error:
                if isinstance(error, ClientTimeout):
                    # The next attempt gets another client, which looks again for brokers that this one did not reach.
                    self.close()
                if isinstance(error, Unreachable) or attempt >= self._retries.attempts:
                    raise
                logger.warning("attempt %d of %d failed: %s", attempt, self._retries.attempts, error)
                attempt += 1
                self._sleep(self._retries.interval_ms / 1000)

    def _question(self, question: Callable[[BlockingClient], T]) -> T:
        return question(self._connected())

    def _metadata(self, client: BlockingClient, topics: Sequence[str] | None) -> MetadataResponse:
        return cast("MetadataResponse", client.call(topics_request(topics), deadline_ms=self._deadline_ms(client)))

    def _deadline_ms(self, client: BlockingClient) -> int:
        return client.now_ms() + self._connection.api_timeout_ms

    def _connected(self) -> BlockingClient:
        if self._client is None:
            connection = self._connection
            config = ClientConfig(
                client_id=connection.client_id,
                request_timeout_ms=connection.request_timeout_ms,
                bootstrap_timeout_ms=min(connection.bootstrap_timeout_ms, connection.api_timeout_ms),
                **connection.security.security_settings(),
            )
            self._client = BlockingClient(
                connection.bootstrap_servers, config.network_config(), config.metadata_config()
            )
        return self._client
