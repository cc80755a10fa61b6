"""Hostile bytes against every request decoder: nothing but DecodeError may come out, nor memory beyond the frame.

A mutant is a valid request frame with a few places changed. Nearly all changes are in the body, so that mutants get
past the header; the header has a fuzz of its own. The path is the broker's: header, version check, body decoder.

Memory is measured in a process of its own, because tracemalloc counts what every thread allocates. A worker of xdist
has a thread that `threading.enumerate` does not show, execnet's receiver: when another worker steals tests of this one,
that thread takes the list of them apart. For 265 of 530 tests it allocates 170 KB; in one run a decoder that needs
119 KB was charged with 289 KB. Garbage of earlier tests, collected during a decode, is not the cause: finalizing what
all unit tests leave (12,663 objects) allocates less than 1 KB.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

import pytest

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.headers import decode_response_header, encode_request_header, parse_request_header
from barnabas.protocol.message_index import MESSAGES, request_class
from barnabas.protocol.messages.message import Message
from tests.support.mutator import Mutator
from tests.wire.random_messages import RandomMessages, all_versions, encoded

_SAMPLE_PER_VERSION = 20
_CAMPAIGN_PER_VERSION = 400
_CAMPAIGN_TOTAL = 100_000
_MUTANTS_PER_FRAME = 10
_LEAST_SHARE_IN_BODY = 0.8
# A struct of an empty string, an empty list and no tags takes 3 bytes on the wire, and as an object some 150.
_MEMORY_PER_BYTE = 64
_MEMORY_ALLOWANCE = 16 * 1024
P = ParamSpec("P")
R = TypeVar("R")


def _parse(frame: bytes) -> tuple[type[Message], Message] | None:
    """What the broker does with a frame; None when it ends before the body. Raises DecodeError."""
    header, body = parse_request_header(frame)
    if header.api_key not in MESSAGES:
        return None
    message = request_class(header.api_key)
    if not message.min_version <= header.api_version <= message.max_version:
        return None
    decoded, end = message.decode(frame, header.api_version, body)
    assert body <= end <= len(frame)
    return message, decoded


def _campaign(per_version: int, seed: int) -> Counter[tuple[str, int]]:
    """Fuzz every request decoder; returns how many mutants reached the body of each. In a process of its own."""
    source = random.Random(seed)
    random_messages, mutator = RandomMessages(seed), Mutator(source)
    reached: Counter[tuple[str, int]] = Counter()

    def mutants() -> Iterator[bytes]:
        for message, version in all_versions(requests_only=True):
            header = encode_request_header(message.api_key, version, 1, "fuzz")
            for _ in range(per_version // _MUTANTS_PER_FRAME):
                frame = header + encoded(random_messages.make(message, version), version)
                for _ in range(_MUTANTS_PER_FRAME):
                    mutant = mutator.mutate(frame, 0 if source.random() < 0.05 else len(header))
                    reached[message.__name__, version] += mutant.startswith(header)
                    yield mutant

    _check_memory(mutants())
    return reached


def _check_memory(frames: Iterable[bytes]) -> None:
    """Decode each frame; hold what that allocates against the size of the frame. In a process of its own."""
    assert len(sys._current_frames()) == 1, f"other threads allocate too: {sys._current_frames()}"
    # Imports and compiled decoders are not the frames' memory.
    for message, version in all_versions(requests_only=True):
        message.encoder(version)
        with contextlib.suppress(DecodeError):
            # A view, for which native messages make the decoder of plain Python.
            message.decode(memoryview(b""), version)
    tracemalloc.start()
    for frame in frames:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        with contextlib.suppress(DecodeError):
            _parse(frame)
        _, peak = tracemalloc.get_traced_memory()
        bound = _MEMORY_ALLOWANCE + _MEMORY_PER_BYTE * len(frame)
        assert peak - before <= bound, f"{peak - before} bytes, {bound} allowed, for {frame.hex()}"


def _in_own_process(measure: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what `measure` returns, or raise what it raises, in a process that does nothing else."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(measure, *args, **kwargs).result()


def test_mutated_requests_raise_decode_errors_only() -> None:
    reached = _in_own_process(_campaign, _SAMPLE_PER_VERSION, seed=11)
    assert sum(reached.values()) >= _LEAST_SHARE_IN_BODY * _SAMPLE_PER_VERSION * len(reached)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mutated_requests_campaign() -> None:
    reached = _in_own_process(_campaign, _CAMPAIGN_PER_VERSION, seed=12)
    assert len(reached) == len(list(all_versions(requests_only=True)))
    assert min(reached.values()) >= 100
    assert sum(reached.values()) >= _LEAST_SHARE_IN_BODY * _CAMPAIGN_PER_VERSION * len(reached)
    assert _CAMPAIGN_PER_VERSION * len(reached) >= _CAMPAIGN_TOTAL


def test_mutated_responses_raise_decode_errors_only() -> None:
    """Our clients read what any server sends."""
    source = random.Random(13)
    random_messages, mutator = RandomMessages(13), Mutator(source)
    for message, version in all_versions():
        body = encoded(random_messages.make(message, version), version)
        for _ in range(5):
            try:
                _, end = message.decode(mutator.mutate(body, 0), version)
                assert end >= 0
            except DecodeError:
                pass


def test_random_bytes_as_headers_raise_decode_errors_only() -> None:
    source = random.Random(14)
    mutator = Mutator(source)
    keys = [*(int(key) for key in MESSAGES), -1, 93, 32767]
    for _ in range(20_000):
        version = source.choice((0, 1, 2, 3, 9, 12, 99, -1))
        header = encode_request_header(source.choice(keys), version, 5, source.choice((None, "", "client")))
        for frame in (mutator.mutate(header, 0), source.randbytes(source.randrange(24))):
            for read in (parse_request_header, lambda buffer: decode_response_header(buffer, 1)):
                try:
                    _, end = read(frame)
                    assert 0 <= end <= len(frame)
                except DecodeError:
                    pass


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"])
def test_an_array_longer_than_the_frame_costs_nothing(count: bytes) -> None:
    """The 12 bytes that make another decoder allocate 34 GB: one of every API that begins with an array."""
    frames = [
        encode_request_header(message.api_key, version, 1, None) + bytes(padding) + count + b"\x01\x01"
        for message, version in all_versions(requests_only=True)
        for padding in range(12)
    ]
    _in_own_process(_check_memory, frames)


def test_the_densest_frames_stay_within_the_bound() -> None:
    """Arrays of as many empty structs as fit: nothing has more objects per byte."""
    frames = []
    for message, version in all_versions(requests_only=True):
        dense = message()
        for field in message.field_schemas():
            if field.is_present(version) and field.is_array and field.struct is not None:
                setattr(dense, field.name, [field.struct() for _ in range(700)])
        frames.append(encode_request_header(message.api_key, version, 1, None) + encoded(dense, version))
    _in_own_process(_check_memory, frames)
