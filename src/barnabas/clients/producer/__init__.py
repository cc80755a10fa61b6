"""The producer: `Producer`, its settings, its results and its errors."""

from barnabas.clients.errors import BufferExhausted, ClientClosed, ClientTimeout, Disconnected
from barnabas.clients.producer.producer import Producer
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_settings import ProducerSettings
from barnabas.clients.producer.record_metadata import DeliveryCallback, RecordMetadata

__all__ = [
    "BufferExhausted",
    "ClientClosed",
    "ClientTimeout",
    "DeliveryCallback",
    "Disconnected",
    "Producer",
    "ProducerConfig",
    "ProducerSettings",
    "RecordMetadata",
]
