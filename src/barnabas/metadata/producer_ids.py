"""Producer ids for idempotent producers: taken from blocks of 1000 that brokers get from the store.

Late: imported for the first id. Used by InitProducerId on handler threads, and by the controller for
AllocateProducerIds. `_lock` guards the current block, also while a new one is fetched. Kafka:
kafka.coordinator.transaction.ZkProducerIdManager.
"""

from __future__ import annotations

import logging
import threading

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.broker_zk_data import ProducerIdsBlock

logger = logging.getLogger(__name__)

BLOCK_SIZE = 1000
_MAX_PRODUCER_ID = 2**63 - 1


def new_producer_id_block(broker_id: int, zk_client: KafkaZkClient) -> ProducerIdsBlock:
    """Take the next block from the store, for a broker.

    Raises StoreError: the store failed. Raises ApiError: UNKNOWN_SERVER_ERROR when no ids are left.
    """
    while True:
        current, version = zk_client.producer_id_block()
        first = 0 if current is None else current.last_producer_id + 1
        if first > _MAX_PRODUCER_ID - BLOCK_SIZE:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "Have exhausted all producerIds.")
        block = ProducerIdsBlock(broker_id, first, BLOCK_SIZE)
        # False when another broker took this block in between: then the loop reads the next one.
        if zk_client.update_producer_id_block(block, version):
            logger.info("Acquired new producerId block %s", block)
            return block


class ProducerIdManager:
    """The generator of ids that no other producer of the cluster has or had.

    Unlike Kafka's it takes its first block at the first call, so that a start costs no write. The unused ids of a block
    are lost at a restart.
    """

    def __init__(self, broker_id: int, zk_client: KafkaZkClient) -> None:
        self._broker_id = broker_id
        self._zk = zk_client
        self._lock = threading.Lock()
        self._next = 0
        self._last = -1

    def generate(self) -> int:
        """Return an id. Blocks on the store once in a thousand calls. Raises StoreError: the store failed."""
        with self._lock:
            if self._next > self._last:
                block = new_producer_id_block(self._broker_id, self._zk)
                self._next, self._last = block.first_producer_id, block.last_producer_id
            producer_id = self._next
            self._next += 1
            return producer_id
