"""The steps of `send` that most producers do without: interceptors, and serializers other than `bytes`.

Called on the user's thread, before the record's partition is chosen; no state that changes, so no lock.
Kafka: KafkaProducer.doSend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.producer.interceptors import OutgoingRecord, ProducerInterceptors
from barnabas.clients.producer.partitioning.partition_choice import Partitioner
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.record_metadata import DeliveryCallback
from barnabas.clients.producer.serializers import MutableHeaders, serialize, serializer_of


class PreparedRecord(NamedTuple):
    """A record whose key and value are bytes, and the callback that its result goes to."""

    record: OutgoingRecord
    on_delivery: DeliveryCallback | None


class RecordPreparation:
    """The interceptors and serializers of one producer."""

    def __init__(self, config: ProducerConfig) -> None:
        self._key_serializer = serializer_of("key_serializer", config.key_serializer)
        self._value_serializer = serializer_of("value_serializer", config.value_serializer)
        self._interceptors = ProducerInterceptors(config.interceptor_classes)

    def prepare(self, record: OutgoingRecord, on_delivery: DeliveryCallback | None) -> PreparedRecord:
        """Return the record after the interceptors and the serializers.

        Raises SerializationFailed, TypeError: the interceptors have seen the error then, the callback has not.
        """
        observed = self._interceptors.observed(on_delivery) if self._interceptors else on_delivery
        record = self._interceptors.on_send(record)
        headers: MutableHeaders = list(record.headers)
        try:
            key = serialize(self._key_serializer, "key", record.topic, record.key, headers)
            value = serialize(self._value_serializer, "value", record.topic, record.value, headers)
        except Exception as error:
            self._interceptors.on_acknowledgement(None, error)
            raise
        return PreparedRecord(record._replace(key=key, value=value, headers=tuple(headers)), observed)

    def close(self) -> None:
        """Close the interceptors."""
        self._interceptors.close()


def preparation_of(config: ProducerConfig) -> RecordPreparation | None:
    """Return the preparation that the settings ask for, None when a record goes as it is."""
    if config.key_serializer == "bytes" and config.value_serializer == "bytes" and not config.interceptor_classes:
        return None
    return RecordPreparation(config)


def cluster_listeners(config: ProducerConfig, partitioner: Partitioner | None) -> list[Callable[[Cluster], None]]:
    """Return the `on_cluster_update` of the user's objects that have one. Kafka: ClusterResourceListeners."""
    objects = (config.key_serializer, config.value_serializer, partitioner, *config.interceptor_classes)
    found = (getattr(each, "on_cluster_update", None) for each in objects)
    return [listener for listener in found if listener is not None]
