"""docs/cluster-promises.md names tests and faults of the campaign that are there."""

from __future__ import annotations

import re

from tests.chaos import cluster_faults
from tests.support.documented_code import ROOT

PAGE = ROOT / "docs" / "cluster-promises.md"
_TEST = re.compile(r"`(?:tests/)?((?:[a-z_]+/)+test_\w+\.py)?(?:::(test_\w+))?`")
_FAULTS = re.compile(r"\bC \(([^)]*)\)")


def test_the_tests_that_hold_a_promise_are_there() -> None:
    """A name without its file is in the file that was named last."""
    named = [found for found in _TEST.findall(PAGE.read_text(encoding="utf-8")) if any(found)]
    assert len(named) > 50
    path = ""
    for file, name in named:
        path = file or path
        source = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(" if name else "^def test_", source, re.MULTILINE), (path, name)


def test_the_faults_of_the_campaign_are_there() -> None:
    lists = _FAULTS.findall(PAGE.read_text(encoding="utf-8"))
    named = [fault for listed in lists for fault in re.findall(r"`(\w+)`", listed)]
    assert named
    missing = [fault for fault in named if not hasattr(cluster_faults.ClusterFaults, f"_{fault}")]
    assert not missing
