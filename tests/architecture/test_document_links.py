"""Links between the documents lead to files and headings that are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.architecture.source_tree import ROOT

_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NOT_IN_A_FRAGMENT = re.compile(r"[^\w\- ]")


def text_of(page: Path) -> str:
    """Return a page's text without its blocks of code, whose brackets are no links."""
    return _CODE.sub("", page.read_text(encoding="utf-8"))


@cache
def fragments_of(page: Path) -> set[str]:
    """Return what may follow `#` in a link to the page: its headings, as GitHub writes them."""
    headings = _HEADING.findall(text_of(page))
    return {_NOT_IN_A_FRAGMENT.sub("", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    folders = ("docs", "examples", "benchmarks", "tests")
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))]
    assert len(pages) > 100
    broken = []
    for page in pages:
        for link in _LINK.findall(text_of(page)):
            path, _, fragment = link.partition("#")
            if ":" in path:
                continue  # of another site
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (fragment and fragment not in fragments_of(target)):
                broken.append((str(page.relative_to(ROOT)), link))
    assert not broken


def test_every_page_stands_behind_a_door() -> None:
    """docs/README.md leads to each page of docs."""
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(text_of(index))}
    assert {page for page in index.parent.glob("*.md") if page != index} <= linked
