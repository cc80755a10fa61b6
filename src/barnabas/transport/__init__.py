"""Bytes between processes: the Selector, its channels, and what they read, write and poll with.

Shared by the broker's Processors and by every client, so it knows neither requests nor responses: a channel receives
size-prefixed frames and sends lists of buffers. Kafka: org.apache.kafka.common.network.
"""
