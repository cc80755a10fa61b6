"""Counts the lines of compiled modules in which something generic is left.

`python -m tests.architecture.generic_lines` writes `generic_lines.txt` anew, where a test looks: the numbers may only
fall. Generic is what mypyc's own report marks: an attribute or method that is looked up by name, a global in a
dictionary, a call through Python, a loop over what is not known. On the way of a request each costs as much as twenty
loads of native fields (decisions/0009). With the name of a module as its argument it shows that module's lines.
"""

from __future__ import annotations

import html
import os
import re
import sys
import tempfile
import tomllib
from pathlib import Path

from hatch_build import lay_out

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_suffix(".txt")
Lines = dict[str, dict[int, str]]
_MARKED = re.compile(r'<div class="collapsible"[^>]*> *(\d+) .*?<div class="hint">(.*?)</div>', re.DOTALL)


def stored() -> dict[str, int]:
    """The table: module -> lines."""
    return {name: int(count) for name, count in (line.split() for line in TABLE.read_text().splitlines())}


def generic_lines(place: Path) -> Lines:
    """Module -> line -> what is generic there. Takes as long as the types of all listed modules take, 20 seconds."""
    from mypyc.build import mypycify

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    arguments = lay_out(ROOT, place, modules)
    before = Path.cwd()
    os.chdir(place)
    try:
        mypycify(["-a", "report.html", *arguments], group_name="barnabas", multi_file=True)
    finally:
        os.chdir(before)
    found: Lines = {}
    for part in (place / "report.html").read_text().split("<h2><tt>")[1:]:
        path = part.partition("</tt>")[0]
        name = ".".join(Path(path).with_suffix("").parts[1:])
        found[name] = {int(line): html.unescape(hint) for line, hint in _MARKED.findall(part)}
    return found


def main() -> None:
    """Write the table, or show a module."""
    with tempfile.TemporaryDirectory() as place:
        found = generic_lines(Path(place))
    if len(sys.argv) > 1:
        for line, hint in sorted(found[sys.argv[1]].items()):
            print(f"{line:5}  {hint}")
    else:
        TABLE.write_text("".join(f"{name} {len(lines)}\n" for name, lines in sorted(found.items())))


if __name__ == "__main__":
    main()
