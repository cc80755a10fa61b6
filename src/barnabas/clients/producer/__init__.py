"""The producer: `Producer`, its settings, its results and its errors."""

from barnabas.clients.errors import (
    BufferExhausted,
    ClientClosed,
    ClientTimeout,
    Disconnected,
    ProducerFenced,
    SerializationFailed,
    TransactionAbortable,
    TransactionAborted,
    TransactionalProducerFailed,
)
from barnabas.clients.producer.partition_choice import Partitioner
from barnabas.clients.producer.producer import Producer
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import (
    DeliveryCallback,
    OutgoingRecord,
    ProducerInterceptor,
    RecordMetadata,
)
from barnabas.clients.producer.producer_settings import ProducerSettings
from barnabas.clients.producer.serializers import HeaderSerializer, MutableHeaders, Serializer

__all__ = [
    "BufferExhausted",
    "ClientClosed",
    "ClientTimeout",
    "DeliveryCallback",
    "Disconnected",
    "HeaderSerializer",
    "MutableHeaders",
    "OutgoingRecord",
    "Partitioner",
    "Producer",
    "ProducerConfig",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerSettings",
    "RecordMetadata",
    "SerializationFailed",
    "Serializer",
    "TransactionAbortable",
    "TransactionAborted",
    "TransactionalProducerFailed",
]
