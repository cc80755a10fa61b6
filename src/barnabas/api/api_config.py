"""The settings that request handlers act on. Frozen, so any thread reads them.

Made by `broker`, once: none of them changes while the broker runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.setting import Settings, setting


@dataclass(frozen=True, slots=True)
class ApiConfig(Settings):
    """Limits of requests and answers, and what clients may do."""

    auto_create_topics: bool = setting("auto.create.topics.enable")
    connections_max_idle_ms: int = setting("connections.max.idle.ms")
    control_plane_listener: str | None = setting("control.plane.listener.name")
    delete_topics: bool = setting("delete.topic.enable")
    fetch_max_bytes: int = setting("fetch.max.bytes")
    max_partitions_per_description: int = setting("max.request.partition.size.limit")
    max_offset_metadata_size: int = setting("offset.metadata.max.bytes")
    request_timeout_ms: int = setting("request.timeout.ms")
