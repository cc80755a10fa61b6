"""The Python code of a page under docs/, for the tests that run it as it stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]

_ADDRESS = "localhost:9092"
"""The broker of the pages' examples. A test's broker has another port."""


class CodeBlock(NamedTuple):
    """A block of Python. `section`: the heading above it. `line`: how many lines of the page precede its code."""

    page: Path
    section: str
    line: int
    code: str

    def run(self, names: dict[str, Any], bootstrap_servers: str = _ADDRESS) -> None:
        """Run the block with these global names, which it may add to. A traceback shows the page's own lines."""
        code = self.code.replace(_ADDRESS, bootstrap_servers)
        exec(compile("\n" * self.line + code, str(self.page), "exec"), names)


def python_blocks(page: Path) -> list[CodeBlock]:
    """Return all blocks of Python on a page, in their order. Raises ValueError for a block without an end."""
    blocks: list[CodeBlock] = []
    section, begin = "", None
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if begin is not None:
            if line == "```":
                blocks.append(CodeBlock(page, section, begin, "\n".join(lines[begin:number]) + "\n"))
                begin = None
        elif line == "```python":
            begin = number + 1
        elif line.startswith("## "):
            section = line.removeprefix("## ")
    if begin is not None:
        raise ValueError(f"{page.name} has a block of Python that begins at line {begin} and has no end")
    return blocks
