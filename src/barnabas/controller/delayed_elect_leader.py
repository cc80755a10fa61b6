"""The purgatory of ElectLeaders: waits until the metadata of this broker show the leaders that were elected.

Late: made by `broker` for the handler of ElectLeaders, which calls it; its purgatory is there before. The metadata
cache calls `metadata_changed`, which `broker` subscribes. The controller answers an election on its thread; completions
run there, on the thread that changed the metadata, or on the expiration executor. A DelayedElectLeader changes under
its own lock only.

Kafka: kafka.server.DelayedElectLeader, ReplicaManager.electLeaders.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from barnabas.controller.controller import Controller
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock

ElectionAnswer = Callable[[Mapping[TopicPartition, ApiError | None]], None]


class DelayedElectLeader(DelayedOperation):
    """A wait that completes when the metadata show the elected leader of every partition (case A).

    On time-out the other partitions answer REQUEST_TIMED_OUT.
    """

    __slots__ = ("_answer", "_expected", "_failed", "_metadata")

    def __init__(
        self,
        timeout_ms: int,
        expected: Mapping[TopicPartition, int],
        failed: Mapping[TopicPartition, ApiError],
        metadata: MetadataCache,
        answer: ElectionAnswer,
    ) -> None:
        super().__init__(timeout_ms)
        self._expected = expected
        self._failed = failed
        self._metadata = metadata
        self._answer = answer

    def try_complete(self) -> bool:
        """Check case A."""
        image = self._metadata.image
        return all(_is_led_by(image, tp, leader) for tp, leader in self._expected.items()) and self.force_complete()

    def on_complete(self) -> None:
        """Answer with the errors of the election, and REQUEST_TIMED_OUT for partitions that still wait."""
        image = self._metadata.image
        results: dict[TopicPartition, ApiError | None] = {
            tp: None if _is_led_by(image, tp, leader) else ApiError(ErrorCode.REQUEST_TIMED_OUT)
            for tp, leader in self._expected.items()
        }
        self._answer({**results, **self._failed})


class LeaderElections:
    """The elections by the controller, for requests that wait until the outcome has reached this broker.

    purgatory: where they wait.
    """

    def __init__(
        self,
        controller: Controller,
        metadata: MetadataCache,
        purgatory: DelayedOperationPurgatory[DelayedElectLeader],
        clock: Clock,
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._clock = clock
        self._purgatory = purgatory

    def elect(
        self,
        partitions: Collection[TopicPartition],
        election_type: ElectionType,
        timeout_ms: int,
        answer: ElectionAnswer,
    ) -> None:
        """Elect leaders. `answer` gets the error by partition, or None where the elected replica leads."""
        deadline_ms = self._now_ms() + timeout_ms

        def elected(results: Mapping[TopicPartition, int | ApiError]) -> None:
            expected = {tp: result for tp, result in results.items() if not isinstance(result, ApiError)}
            failed = {tp: result for tp, result in results.items() if isinstance(result, ApiError)}
            if not expected:
                answer(failed)
                return
            # The time in the controller's queue counts against the client's timeout.
            left_ms = max(0, deadline_ms - self._now_ms())
            operation = DelayedElectLeader(left_ms, expected, failed, self._metadata, answer)
            self._purgatory.try_complete_else_watch(operation, expected)

        self._controller.elect_leaders(partitions, election_type, elected)

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Retry the requests that wait for partitions of topics that differ between the images."""
        for key in self._purgatory.watched_keys():
            # By identity: two images share the topics that did not change between them.
            if isinstance(key, TopicPartition) and old.topics.get(key.topic) is not new.topics.get(key.topic):
                self._purgatory.check_and_complete(key)

    def _now_ms(self) -> int:
        return self._clock.nanoseconds() // NANOSECONDS_PER_MILLISECOND


def _is_led_by(image: MetadataImage, partition: TopicPartition, leader: int) -> bool:
    found = image.partition(partition)
    return found is not None and found.leader == leader
