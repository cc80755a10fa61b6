"""The logs on disk that belong to no existing topic, so that the log manager puts them aside when it loads them.

Called on the threads that load logs; `topic_ids` is read once before, so no lock. Only Kafka's KRaft brokers check
this; its ZooKeeper brokers reject such a log for ever.
Kafka: LogManager.isStrayReplica.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.zk.kafka_zk_client import KafkaZkClient

logger = logging.getLogger(__name__)


def stray_check(zk_client: KafkaZkClient) -> Callable[[UnifiedLog], bool]:
    """Return a function that tells whether a log is of an earlier topic of the same name.

    Such a log could never be served, and would keep the log of the new topic out. A log whose topic the store does not
    know stays where it is, with a warning: the store may be incomplete, for example when the log directories come from
    another broker and have not been adopted yet.
    """
    known = zk_client.topics.assignments(zk_client.topics.all_topics())
    topic_ids = {found.topic: found.topic_id for found in known}

    def is_stray(log: UnifiedLog) -> bool:
        topic = log.topic_partition.topic
        if topic not in topic_ids:
            logger.warning("The log in %s belongs to a topic that does not exist; it stays where it is", log.directory)
            return False
        expected = topic_ids[topic]
        # Topics of Kafka before 2.8 have no id, and neither have their logs.
        return expected is not None and log.topic_id is not None and log.topic_id != expected

    return is_stray
