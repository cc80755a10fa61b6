"""The versions that the connected nodes support, the best one for a request, and the nodes still to be asked.

Part of NetworkClient, owned by its thread; no lock.

A node that does not know the version of ApiVersions it is asked in answers UNSUPPORTED_VERSION in the layout of v0,
with the range it knows, and is asked once more (KIP-511):

    we send ApiVersions v4  ->  error 35 as v0, "ApiVersions: 0-2"  ->  we send v2  ->  the table

Kafka: NodeApiVersions, and the part of NetworkClient about nodesNeedingApiVersionsFetch and apiVersions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas import __version__
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.rpc.client_request import ClientRequest, RequestBuilder, UnsupportedVersion, fixed_message

OLDEST_VERSION = 0
"""The version of ApiVersions that every node reads."""


class NodeApiVersions:
    """The version ranges by API key, made of an ApiVersions answer: `(api key, oldest, latest)`. Immutable."""

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


class FinalizedLevels(NamedTuple):
    """The level of each feature that a cluster has finalized (KIP-584), by its name.

    In force since `epoch`, which is -1 when nothing is finalized. Kafka: ApiVersions.FinalizedFeaturesInfo.
    """

    epoch: int
    levels: Mapping[str, int]

    def level_of(self, name: str) -> int:
        """Return the level of a feature; 0 for one that is not finalized."""
        return self.levels.get(name, 0)


NOTHING_FINALIZED = FinalizedLevels(-1, {})


def finalized_in(answer: ApiVersionsResponse) -> FinalizedLevels:
    """Return the features in an answer to ApiVersions; nodes before KIP-584 name none."""
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return FinalizedLevels(answer.finalized_features_epoch, levels)


class ApiVersionsDiscovery:
    """The versions of each connected node, by node id."""

    def __init__(self) -> None:
        self._known: dict[int, NodeApiVersions] = {}
        self._to_ask: dict[int, int] = {}
        """Nodes to be asked, with the latest version of ApiVersions that they can read."""
        self.finalized: FinalizedLevels = NOTHING_FINALIZED
        """The newest features that any node has named: a node that is behind the others may name older ones."""

    def versions_of(self, node_id: int) -> NodeApiVersions | None:
        """Return the versions that a node supports, or None while they are unknown."""
        return self._known.get(node_id)

    def begin(self, node_id: int) -> None:
        """Ask a node that has just been connected to."""
        self._to_ask[node_id] = ApiVersionsRequest.max_version

    def nodes_to_ask(self) -> list[int]:
        """Return the nodes that have not been asked yet, or have to be asked again."""
        return list(self._to_ask)

    def take_request(self, node_id: int) -> RequestBuilder:
        """Return the request for one of `nodes_to_ask`, which counts as asked from here on."""
        latest = self._to_ask.pop(node_id)
        message = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
        return fixed_message(message, (OLDEST_VERSION, latest))

    def answered(self, node_id: int, asked_version: int, body: ApiVersionsResponse) -> ErrorCode:
        """Take a node's answer to a request of `asked_version`.

        Returns NONE when the versions are known now, UNSUPPORTED_VERSION when the node will be asked again, or the
        error after which the node cannot be used.
        """
        ranges = [(entry.api_key, entry.min_version, entry.max_version) for entry in body.api_keys]
        if body.error_code == ErrorCode.NONE:
            self._known[node_id] = NodeApiVersions(ranges)
            finalized = finalized_in(body)
            if finalized.epoch > self.finalized.epoch:
                self.finalized = finalized
            return ErrorCode.NONE
        if body.error_code == ErrorCode.UNSUPPORTED_VERSION and asked_version > OLDEST_VERSION:
            # A broker before KIP-511 (Kafka 2.4) names no range with the error; every broker reads version 0.
            known = NodeApiVersions(ranges).range_of(ApiKey.API_VERSIONS)
            latest = known[1] if known is not None else OLDEST_VERSION
            # At least one version lower each time, so that a node that names a range it does not have is not asked
            # forever.
            self._to_ask[node_id] = min(latest, asked_version - 1)
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def forget(self, node_id: int) -> None:
        """Forget a node whose connection is gone: it may be another release when it is back."""
        self._known.pop(node_id, None)
        self._to_ask.pop(node_id, None)
