"""Which logs on the disk belong to no topic of today, so that the log manager puts them aside when it loads them.

Asked while logs are loaded, on the threads that load; `topic_ids` is read once before, so no lock.
Kafka: LogManager.isStrayReplica (only its KRaft brokers look; in ZooKeeper mode such a log is refused for ever).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.zk.kafka_zk_client import KafkaZkClient

logger = logging.getLogger(__name__)


def stray_check(zk_client: KafkaZkClient) -> Callable[[UnifiedLog], bool]:
    """Whether a log is of an earlier topic of the same name: it could never be served, and would keep the new one out.

    A log whose topic the store does not know is left where it is, with a warning: the store may be the one that is
    wrong, as it is when the log directories are another broker's and have not been adopted yet.
    """
    known = zk_client.topics.assignments(zk_client.topics.all_topics())
    topic_ids = {found.topic: found.topic_id for found in known}

    def is_stray(log: UnifiedLog) -> bool:
        topic = log.topic_partition.topic
        if topic not in topic_ids:
            logger.warning("Log in %s is of a topic that does not exist; it is left alone", log.directory)
            return False
        expected = topic_ids[topic]
        return expected is not None and log.topic_id is not None and log.topic_id != expected

    return is_stray
