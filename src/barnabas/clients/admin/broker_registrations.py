"""Removes the registration of a broker that is gone for good, from a cluster with KRaft (KIP-500).

Called by `Admin`, on any thread; no state. Kafka: KafkaAdminClient.unregisterBroker.
"""

from __future__ import annotations

from barnabas.clients.admin.admin_calls import AdminCalls, raise_error
from barnabas.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse


def unregister_broker(calls: AdminCalls, broker_id: int) -> None:
    """Have the controller forget a broker. Raises ApiError; UNSUPPORTED_VERSION by a cluster without KRaft."""
    answer = calls.ask(UnregisterBrokerRequest(broker_id), UnregisterBrokerResponse)
    raise_error(answer.error_code, answer.error_message, f"Broker {broker_id} stays registered")
