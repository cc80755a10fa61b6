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


_MODULE = re.compile(r"`((?:barnabas(?:_spark)?\.)?[a-z]\w*(?:\.\w+)+)(?:\([^`]*\))?`")


def test_modules_that_are_named_are_there() -> None:
    """Pages and sources name modules such as `network.processor.Processor`, from the package on."""
    places = [*(ROOT / "docs").rglob("*.md")]
    places += (path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
    missing = [
        f"{place.relative_to(ROOT)}: {name}"
        for place in places
        for name in _MODULE.findall(place.read_text(encoding="utf-8"))
        if not _is_there(name)
    ]
    assert not missing


def _is_there(name: str) -> bool:
    """Return whether a name leads to a module, or cannot be meant as one."""
    parts = name.split(".")
    source = ROOT / "src" / (parts.pop(0) if parts[0] in ("barnabas", "barnabas_spark") else "barnabas")
    # Settings begin with the names of packages too, as `replica.lag.time.max.ms` does; they have no underscores.
    if not (source / parts[0]).is_dir() or not any("_" in part or part[0].isupper() for part in parts[1:]):
        return True
    while parts and (source / parts[0]).is_dir():
        source, parts = source / parts[0], parts[1:]
    if not parts or (source / f"{parts[0]}.py").exists():
        return True
    return re.search(rf"\b{parts[0]}\b", (source / "__init__.py").read_text(encoding="utf-8")) is not None
