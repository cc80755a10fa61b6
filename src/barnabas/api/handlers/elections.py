"""ElectLeaders: v0-2 (KIP-460).

Not brief: the controller elects, on its own thread; the request waits in the election purgatory until this broker's
metadata shows the outcome, or for its timeout. No list of partitions means all, of which only those are answered that
needed an election.

v0: preferred elections only, and no error of the whole.
v1: unclean elections.
v2: flexible.

Kafka: KafkaApis.handleElectLeaders, ReplicaManager.electLeaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.brief import each_once
from barnabas.api.request import Handler, Request
from barnabas.controller.delayed_elect_leader import LeaderElections
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topics import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.security.acl.acl_codes import AclOperation

_WITHOUT_TEXT = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class ElectionsApi:
    """Has the controller elect leaders, preferred or unclean ones, of partitions that a client names."""

    def __init__(self, elections: LeaderElections, metadata: MetadataCache, authorizer: Authorizer | None) -> None:
        self._elections = elections
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.ELECT_LEADERS, self.elect_leaders, error_answer=_error_answer),)

    def elect_leaders(self, request: Request[ElectLeadersRequest]) -> None:
        """Elect; answer when this broker knows the new leaders.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_SERVER_ERROR for an unknown type of election.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        # Without a list, partitions that need no election are left out of the answer: there may be very many.
        named = _partitions(request.body)
        partitions = self._all_partitions() if named is None else named
        election_type = _election_type(request.body.election_type)

        def answer(results: Mapping[TopicPartition, ApiError | None]) -> None:
            shown = {
                tp: results[tp]
                for tp in partitions
                if tp in results and (named is not None or not _is_not_needed(results[tp]))
            }
            request.respond(_response(shown))

        self._elections.elect(partitions, election_type, request.body.timeout_ms, request.deferred(answer))

    def _all_partitions(self) -> Sequence[TopicPartition]:
        topics = self._metadata.image.topics.values()
        return [TopicPartition(topic.name, found.partition) for topic in topics for found in topic.partitions]


def _error_answer(request: Request[ElectLeadersRequest], error: ApiError) -> ElectLeadersResponse:
    """Say the error of every partition named, once, and from v1 on of the whole."""
    response = _response(dict.fromkeys(_partitions(request.body) or (), error))
    # v0 has no field for it, and a message with such a value would not be encoded.
    if request.api_version >= 1:
        response.error_code = error.code
    return response


def _partitions(body: ElectLeadersRequest) -> Sequence[TopicPartition] | None:
    """Return the partitions named, each once, in order; None if all are meant."""
    if body.topic_partitions is None:
        return None
    named = (TopicPartition(topic.topic, index) for topic in body.topic_partitions for index in topic.partitions)
    return list(each_once(named))


def _election_type(value: int) -> ElectionType:
    """Return the type of a code. Raises ApiError: UNKNOWN_SERVER_ERROR for an unknown one."""
    try:
        return ElectionType(value)
    except ValueError:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Value {value} must be one of {', '.join(str(int(t)) for t in ElectionType)}",
        ) from None


def _is_not_needed(error: ApiError | None) -> bool:
    return error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED


def _response(results: Mapping[TopicPartition, ApiError | None]) -> ElectLeadersResponse:
    topics: dict[str, ElectLeadersResponse.ReplicaElectionResult] = {}
    for partition, error in results.items():
        topic = topics.setdefault(partition.topic, ElectLeadersResponse.ReplicaElectionResult(topic=partition.topic))
        result = ElectLeadersResponse.PartitionResult(partition_id=partition.partition)
        if error is not None:
            result.error_code = error.code
            result.error_message = None if error.code in _WITHOUT_TEXT else error.message
        topic.partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(topics.values()))
