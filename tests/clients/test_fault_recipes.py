"""The recipes of docs/testing-with-faults.md, run as they stand there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="faults are ours")

PAGE = Path(__file__).parents[2] / "docs" / "testing-with-faults.md"


class Recipe(NamedTuple):
    """A section of the page whose code defines a test."""

    title: str
    code: str


def _recipes() -> list[Recipe]:
    sections = [section.partition("\n") for section in PAGE.read_text().split("\n## ")[1:]]
    found = [Recipe(title, text.partition("```python\n")[2].partition("```")[0]) for title, _, text in sections]
    return [recipe for recipe in found if "\ndef test_" in recipe.code]


RECIPES = _recipes()


def test_the_page_has_its_recipes() -> None:
    assert len(RECIPES) == 5


@pytest.mark.parametrize("code", [pytest.param(recipe.code, id=recipe.title) for recipe in RECIPES])
def test_recipe(code: str) -> None:
    names: dict[str, Callable[[], None]] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()
