"""The table: every kind of request that is sent, and how its bytes are made.

A kind is one line. `KINDS` has the lines below, and one for every array of every request, made from the schemas.
The campaign sends what `Kind.make` returns; nothing here opens a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from barnabas.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.classic_groups import HeartbeatRequest
from barnabas.protocol.messages.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest
from barnabas.protocol.messages.transactions import DescribeTransactionsRequest
from barnabas.records.compression import Codec
from tests.chaos.stalls import batches
from tests.chaos.stalls.batches import produce
from tests.chaos.stalls.frames import (
    EXISTING_NAME,
    NUMBER_MARK,
    all_arrays,
    request_frame,
    tagged_body_frame,
    tagged_header_frame,
    wide_frame,
)

LARGE_TOPIC: Final = "large"
"""One partition, and batches of any size."""
WIDE_TOPIC: Final = "wide"
"""Many partitions."""
WIDE_PARTITIONS: Final = 200
FLUSHED_TOPIC: Final = "flushed"
"""Many partitions; every record is flushed to the disk."""
FLUSHED_PARTITIONS: Final = 200
FILLED_TOPIC: Final = "filled"
"""One partition with a few compressed batches, to be read."""

_BEFORE_LOGIN_BYTES: Final = 500_000
"""Kafka's sasl.server.max.receive.size is a little more."""
_MB: Final = 1_000_000
_TOPIC_RESOURCE: Final = 2
_CODECS: Final = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
_NAME: Final = f"n{NUMBER_MARK}"


class Listener(Enum):
    """Where a kind is sent, and where its victim produces."""

    PLAINTEXT = "PLAINTEXT"
    TLS = "TLS"
    LOGIN = "LOGIN"


class Stage(Enum):
    """What a sender has done on its connection before it sends."""

    READY = "all that the listener asks for"
    BEFORE_LOGIN = "connected, without a login"
    BEFORE_HANDSHAKE = "connected, without the handshake of TLS"


class Kind(NamedTuple):
    """A kind of requests. make: the frames of a connection, of so many bytes together."""

    name: str
    make: Callable[[int], Iterable[bytes]]
    listener: Listener = Listener.PLAINTEXT
    stage: Stage = Stage.READY

    @property
    def reconnects(self) -> bool:
        """Whether every frame has a connection of its own: a broker may close one after the first."""
        return self.stage is not Stage.READY

    def on(self, listener: Listener) -> Kind:
        """Return the same requests on another listener."""
        return self._replace(name=f"{listener.value.lower()}: {self.name}", listener=listener)


def one(name: str, make: Callable[[int], bytes]) -> Kind:
    """Return a kind of one frame a connection."""
    return Kind(name, lambda size: (make(size),))


def wide(name: str, make: Callable[[int], Message], version: int | None = None) -> Kind:
    """Return a kind of one request with one long array. make: the message with so many equal elements."""
    return one(name, lambda size: wide_frame(make, size, version))


def repeated(name: str, make: Callable[[], bytes], per_mb: float) -> Kind:
    """Return a kind of one request sent again and again without waiting, so many times a megabyte."""
    return Kind(name, lambda size: (make(),) * max(1, round(size / _MB * per_mb)))


def early(name: str, make: Callable[[int], bytes], size_of_each: int = _BEFORE_LOGIN_BYTES) -> Kind:
    """Return a kind of requests before login, each on a connection of its own."""

    def frames(size: int) -> tuple[bytes, ...]:
        each = min(size_of_each, size)
        return (make(each),) * (size // each)

    return Kind(f"before login: {name}", frames, Listener.LOGIN, Stage.BEFORE_LOGIN)


# -- arrays with content

Topics = CreateTopicsRequest
Described = DescribeConfigsRequest
Altered = IncrementalAlterConfigsRequest
Fetched = FetchRequest
Offsets = OffsetFetchRequest
Listed = ListOffsetsRequest


def _acl(name: str) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(_TOPIC_RESOURCE, name, 3, "User:bob", "*", 3, 3)


def _fetch(partitions: int, max_bytes: int) -> FetchRequest:
    place = Fetched.FetchPartition(0, fetch_offset=0, partition_max_bytes=max_bytes)
    return Fetched(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[Fetched.FetchTopic(FILLED_TOPIC, partitions=[place] * partitions)],
    )


def _content_kinds() -> Iterator[Kind]:
    yield wide("groups of many names", lambda n: DescribeGroupsRequest([_NAME] * n))
    yield wide("groups of many names, oldest version", lambda n: DescribeGroupsRequest([_NAME] * n), 0)
    yield wide("coordinators of many names", lambda n: FindCoordinatorRequest(coordinator_keys=[_NAME] * n))
    yield wide("deleted groups of many names", lambda n: DeleteGroupsRequest([_NAME] * n))
    yield wide("transactions of many names", lambda n: DescribeTransactionsRequest([_NAME] * n))
    yield wide(
        "offsets of many groups", lambda n: Offsets(groups=[Offsets.OffsetFetchRequestGroup(_NAME, topics=None)] * n)
    )
    yield wide(
        "offsets of many topics, oldest version",
        lambda n: Offsets(EXISTING_NAME, [Offsets.OffsetFetchRequestTopic(_NAME, [0])] * n),
        1,
    )
    yield wide(
        "committed offsets of one partition",
        lambda n: OffsetCommitRequest(
            EXISTING_NAME,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    EXISTING_NAME,
                    partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(0, committed_offset=1)] * n,
                )
            ],
        ),
    )
    yield wide("new topics of many names", lambda n: Topics([Topics.CreatableTopic(_NAME, 1, 1)] * n, 1000, True))
    yield wide(
        "settings of one new topic",
        lambda n: Topics(
            [Topics.CreatableTopic("new", 1, 1, [], [Topics.CreatableTopicConfig(_NAME, "1")] * n)], 1000, True
        ),
    )
    yield wide("settings of one topic, asked again and again", lambda n: Described([_described(None)] * n))
    yield wide(
        "settings of many topics",
        lambda n: Described([Described.DescribeConfigsResource(_TOPIC_RESOURCE, _NAME, [])] * n),
    )
    yield wide("many settings of one topic", lambda n: Described([_described([_NAME] * n)]))
    yield wide("changed settings of one topic", lambda n: Altered([_altered(EXISTING_NAME, n)], True))
    yield wide("changed settings of many topics", lambda n: Altered([_altered(_NAME, 1)] * n, True))
    yield wide("equal access control lists", lambda n: CreateAclsRequest([_acl("one")] * n))
    yield wide(
        "deletions of access control lists",
        lambda n: DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(1, None, 1, None, None, 1, 1)] * n),
    )
    yield wide(
        "metadata of many names", lambda n: MetadataRequest([MetadataRequest.MetadataRequestTopic(name=_NAME)] * n)
    )
    yield wide(
        "metadata of one wide topic, again and again",
        lambda n: MetadataRequest([MetadataRequest.MetadataRequestTopic(name=WIDE_TOPIC)] * n),
    )
    yield repeated("metadata of all topics", lambda: request_frame(MetadataRequest(None)), 10)
    yield repeated("metadata of one topic, again and again", lambda: request_frame(_METADATA_OF_ONE), 15_000)
    yield repeated("heartbeats, again and again", lambda: request_frame(_HEARTBEAT), 15_000)
    yield repeated("all groups, again and again", lambda: request_frame(ListGroupsRequest()), 500)
    yield wide(
        "offsets by time of one partition",
        lambda n: Listed(
            topics=[Listed.ListOffsetsTopic(FILLED_TOPIC, [Listed.ListOffsetsPartition(0, -1, 1_000_000_000_000)] * n)]
        ),
    )
    yield wide("fetches of one partition", lambda n: _fetch(n, 1000), 12)
    yield repeated("fetches in the old format", lambda: request_frame(_fetch(1, 1_000_000), 2), 5)
    yield repeated("fetches of a compressed topic", lambda: request_frame(_fetch(1, 1_000_000), 12), 10)


_METADATA_OF_ONE: Final = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=EXISTING_NAME)])
_HEARTBEAT: Final = HeartbeatRequest(EXISTING_NAME, 1, "nobody")


def _described(keys: list[str] | None) -> DescribeConfigsRequest.DescribeConfigsResource:
    return Described.DescribeConfigsResource(_TOPIC_RESOURCE, EXISTING_NAME, keys)


def _altered(topic: str, count: int) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    return Altered.AlterConfigsResource(_TOPIC_RESOURCE, topic, [Altered.AlterableConfig("flush.ms", 0, "1")] * count)


# -- records


def _large(batch: bytes, version: int = 9) -> bytes:
    return produce({0: batch}, LARGE_TOPIC, version=version)


def _record_kinds() -> Iterator[Kind]:
    yield from map(_empty_pieces, _CODECS)
    yield from map(_small_pieces, _CODECS)
    yield from map(_bombs, _CODECS)
    yield from map(_records, _CODECS)
    yield one(
        "gzip: empty members, topic with the default limit",
        lambda size: produce({0: batches.pieces(Codec.GZIP, b"", size)}),
    )
    yield Kind("gzip: empty members below the default limit", _members_below_limit)
    yield one("lz4: blocks of a byte", lambda size: _large(batches.lz4_blocks(size)))
    yield one("one large record", lambda size: _large(batches.large_record(size)))
    yield one("records without content", lambda size: _large(batches.tiny_records(size)))
    yield one("headers without content", lambda size: _large(batches.headers_of_one_record(size)))
    yield one("a batch for every partition", lambda size: produce(_spread(WIDE_PARTITIONS, size), WIDE_TOPIC))
    yield repeated("a tiny batch for every partition", lambda: produce(_spread(WIDE_PARTITIONS, 0), WIDE_TOPIC), 25)
    yield one("flushed partitions", lambda size: produce(_spread(FLUSHED_PARTITIONS, size), FLUSHED_TOPIC))
    yield repeated("tiny batches, each flushed", lambda: produce(_spread(FLUSHED_PARTITIONS, 0), FLUSHED_TOPIC), 5)
    yield Kind("a producer id for every record", lambda size: tuple(batches.new_producers(size)))
    for magic in (0, 1):
        yield _old_messages(magic)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            yield _old_wrapper(magic, codec)
    yield one("format 1: empty gzip members", lambda size: _large(batches.wrapped_pieces(size), 2))
    yield one("format 1: nested messages", lambda size: _large(batches.nested_messages(size), 2))


def _spread(partitions: int, size: int) -> dict[int, bytes]:
    return dict.fromkeys(range(partitions), batches.large_record(size // partitions))


def _empty_pieces(codec: Codec) -> Kind:
    return one(f"{codec.name.lower()}: pieces without content", lambda size: _large(batches.pieces(codec, b"", size)))


def _small_pieces(codec: Codec) -> Kind:
    return one(f"{codec.name.lower()}: pieces of a byte", lambda size: _large(batches.pieces(codec, b"\0", size)))


def _bombs(codec: Codec) -> Kind:
    return repeated(f"{codec.name.lower()}: a record of 100 MB of zeros", lambda: _large(batches.bomb(codec)), 1)


def _records(codec: Codec) -> Kind:
    return one(f"{codec.name.lower()}: tiny records", lambda size: _large(batches.tiny_records(size, codec)))


def _members_below_limit(size: int) -> tuple[bytes, ...]:
    frame = produce({0: batches.pieces(Codec.GZIP, b"", min(size, _MB))})
    return (frame,) * max(1, size // len(frame))


def _old_messages(magic: int) -> Kind:
    return one(f"format {magic}: messages without content", lambda size: _large(batches.tiny_messages(magic, size), 2))


def _old_wrapper(magic: int, codec: Codec) -> Kind:
    name = f"format {magic}: {codec.name.lower()} around messages without content"
    return one(name, lambda size: _large(batches.wrapped_messages(magic, codec, size), 2))


# -- tagged fields, logins, other listeners


def _tagged_kinds() -> Iterator[Kind]:
    yield one("tagged fields in the header", lambda size: tagged_header_frame(MetadataRequest([]), size))
    yield one("tagged fields in the body", lambda size: tagged_body_frame(MetadataRequest([]), size))
    yield one(
        "tagged fields in the header of a Produce",
        lambda size: tagged_header_frame(ProduceRequest(None, 1, 1000), size),
    )
    yield one("tagged fields in the body of ApiVersions", lambda size: tagged_body_frame(_versions(), size))


def _versions(name: str = "stalls") -> ApiVersionsRequest:
    return ApiVersionsRequest(name, "1")


def _early_kinds() -> Iterator[Kind]:
    yield early("tagged fields in the header", lambda size: tagged_header_frame(_versions(), size))
    yield early("tagged fields in the body", lambda size: tagged_body_frame(_versions(), size))
    yield early("tagged fields, few", lambda size: tagged_body_frame(_versions(), size), 5000)
    yield early("tagged fields, all the bytes at once", lambda size: tagged_body_frame(_versions(), size), 1 << 40)
    yield early("a long name of the client", lambda size: request_frame(_versions("n" * min(size, 30_000))))
    yield early("a long name of a mechanism", lambda size: request_frame(SaslHandshakeRequest("n" * min(size, 30_000))))
    yield early("a long token without a handshake", lambda size: request_frame(SaslAuthenticateRequest(bytes(size))))
    yield early("groups", lambda size: wide_frame(lambda n: DescribeGroupsRequest([""] * n), size))
    yield early("records", lambda size: produce({0: batches.pieces(Codec.GZIP, b"", size)}))
    yield early("no request", lambda size: size.to_bytes(4, "big") + b"\xff" * size)
    yield early("versions, one connection each", lambda _size: request_frame(_versions()), 5000)


def _listener_kinds(plain: list[Kind]) -> Iterator[Kind]:
    """Yield a sample of the other kinds, over TLS and by a user without rights."""
    named = {kind.name: kind for kind in plain}
    over_tls = (
        "tagged fields in the header",
        "describe-groups.groups",
        "gzip: pieces without content",
        "one large record",
    )
    without_rights = ("create-topics.topics", "describe-configs.resources", "equal access control lists", *over_tls)
    for name in over_tls:
        yield named[name].on(Listener.TLS)
    for name in without_rights:
        yield named[name].on(Listener.LOGIN)
    yield Kind(
        "tls: no handshake",
        lambda size: (b"\x16\x03\x01\x40\x00" + bytes(_BEFORE_LOGIN_BYTES),) * max(1, size // _BEFORE_LOGIN_BYTES),
        Listener.TLS,
        Stage.BEFORE_HANDSHAKE,
    )


def _all_kinds() -> Iterator[Kind]:
    written = [*_content_kinds(), *_record_kinds(), *_tagged_kinds()]
    arrays = [one(array.name, array.frame) for array in all_arrays()]
    yield from written
    yield from _early_kinds()
    yield from _listener_kinds([*written, *arrays])
    yield from arrays


KINDS: Final = tuple(_all_kinds())
