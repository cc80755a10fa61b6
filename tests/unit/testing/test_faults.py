"""The test kit's side of faults without a broker: plans are checked at once, and kept for the start."""

from __future__ import annotations

import pytest

from barnabas.testing import BrokerFailed, BrokerProcess, Drop, Error, Faults, Kill


def test_a_broker_takes_faults_only_when_it_was_made_for_them() -> None:
    with pytest.raises(BrokerFailed, match=r"this broker takes no faults: make it with `broker\(faults=True\)`"):
        _ = BrokerProcess("data").faults
    assert len(BrokerProcess("data", faults=True).faults) == 0


def test_the_option_is_given_to_no_other_broker() -> None:
    assert not any("fault" in word for word in BrokerProcess("data").command())


def test_faults_are_listed_and_removed_before_there_is_a_broker() -> None:
    faults = Faults()
    first, second, third = (faults.add(Error(code), api="Produce") for code in (1, 2, 3))
    assert list(faults) == [first, second, third]
    second.remove()
    second.remove()
    with third:
        assert list(faults) == [first, third]
    assert list(faults) == [first]
    assert (first.hits, first.calls) == (0, 0)
    faults.clear()
    assert len(faults) == 0


def test_a_wrong_plan_is_refused_and_not_kept() -> None:
    faults = Faults()
    with pytest.raises(ValueError, match="Kafka has no API 'Prodce'; did you mean 'Produce'"):
        faults.add(Drop(), api="Prodce")
    assert len(faults) == 0


def test_a_wait_that_is_in_vain_says_what_it_saw() -> None:
    fault = Faults().add(Kill(), api="Fetch")
    with pytest.raises(TimeoutError, match=r"hit 0 of 0 matching requests within 0\.01 s, not 2"):
        fault.wait_for_hits(2, timeout_seconds=0.01)
