"""The versions that a node supports, and the best one for a request.

Made by ApiVersionsDiscovery on the client's thread; immutable, so no lock. Kafka: NodeApiVersions.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.protocol.api_keys import ApiKey
from barnabas.rpc.client_request import ClientRequest, UnsupportedVersion


class NodeApiVersions:
    """The version ranges by API key, made of an ApiVersions answer: `(api key, oldest, latest)`."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        self._ranges = {key: (oldest, latest) for key, oldest, latest in ranges}

    def range_of(self, api_key: int) -> tuple[int, int] | None:
        """Return the oldest and latest version of an API, or None if the node does not have it."""
        return self._ranges.get(api_key)

    def latest_usable_version(self, request: ClientRequest) -> int:
        """Return the latest version that both sides know. Raises UnsupportedVersion: there is none."""
        supported = self._ranges.get(request.api_key)
        name = ApiKey(request.api_key).name
        if supported is None:
            raise UnsupportedVersion(f"The node does not support {name}")
        oldest, latest = request.versions
        # The latest version both sides know, as Kafka's clients choose: an older one may lack a field that the caller
        # filled.
        version = min(latest, supported[1])
        if version < max(oldest, supported[0]):
            raise UnsupportedVersion(
                f"The node does not support {name} with version in range [{oldest},{latest}]."
                f" The supported range is [{supported[0]},{supported[1]}]."
            )
        return version
