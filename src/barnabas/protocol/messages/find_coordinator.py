"""FindCoordinator: v0-6 (batched from v4, KIP-699).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: FindCoordinatorRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, field


# v1: the type of the key (0 group, 1 transaction), throttle time and an error message; v3: flexible.
# v4: several keys in one request (KIP-699); v5: TRANSACTION_ABORTABLE may be answered (KIP-890).
# v6: type 2, the key of a share group's partition (KIP-932).
class FindCoordinatorRequest(MessageSpec, api=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    key: str = field("0-3")
    key_type: Int8 = field("1+")
    coordinator_keys: list[str] = field("4+")


class FindCoordinatorResponse(MessageSpec, api=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0-3")
    error_message: str | None = field("1-3", nullable="1-3", ignorable=True)
    node_id: Int32 = field("0-3").on_error(-1)
    host: str = field("0-3")
    port: Int32 = field("0-3").on_error(-1)
    coordinators: list[FindCoordinatorResponse.Coordinator] = field("4+").repeats("coordinator_keys")

    class Coordinator(StructSpec):
        key: str = field("4+").repeats("key")
        node_id: Int32 = field("4+").on_error(-1)
        host: str = field("4+")
        port: Int32 = field("4+").on_error(-1)
        error_code: Int16 = field("4+")
        error_message: str | None = field("4+", nullable="4+", ignorable=True)
