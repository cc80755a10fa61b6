"""What the test kit refuses before it starts a process."""

from __future__ import annotations

import pytest

from barnabas.testing import BrokerProcess


@pytest.mark.parametrize("name", ["listeners", "log_dirs", "log.dirs", "log_dir"])
def test_settings_that_parameters_decide(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is decided by the parameter `"):
        BrokerProcess("data", {name: "x"})


def test_a_setting_without_a_value() -> None:
    with pytest.raises(TypeError, match="num_partitions is None"):
        BrokerProcess("data", {"num_partitions": None})  # type: ignore[dict-item]
