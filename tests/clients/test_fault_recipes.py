"""The recipes of docs/testing-with-faults.md, run as they stand there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.documented_code import ROOT, CodeBlock, python_blocks
from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="faults are ours")

RECIPES = [block for block in python_blocks(ROOT / "docs" / "testing-with-faults.md") if "\ndef test_" in block.code]


def test_the_page_has_its_recipes() -> None:
    assert len(RECIPES) == 5


@pytest.mark.parametrize("recipe", [pytest.param(recipe, id=recipe.section) for recipe in RECIPES])
def test_recipe(recipe: CodeBlock) -> None:
    names: dict[str, Any] = {}
    recipe.run(names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()
