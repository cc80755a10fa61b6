"""The keyword arguments of `Producer`, made from ProducerConfig by `make docs`: change that one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from barnabas.clients.producer.partition_choice import Partitioner
from barnabas.clients.producer.producer_record import ProducerInterceptor
from barnabas.clients.producer.serializers import Serializer
from barnabas.clients.settings.client_settings import ClientSettings


class ProducerSettings(ClientSettings, total=False):
    """The keyword arguments of `Producer`; ProducerConfig has their meaning and defaults."""

    acks: int | Literal["all"]
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    compression_type: str
    compression_level: int | None
    retries: int
    delivery_timeout_ms: int
    max_in_flight_requests_per_connection: int
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int
    key_serializer: str | Serializer
    value_serializer: str | Serializer
    interceptor_classes: Sequence[ProducerInterceptor]
    partitioner_class: str | Partitioner
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    metadata_max_idle_ms: int
    partitioner_ignore_keys: bool
    enable_metrics_push: bool
