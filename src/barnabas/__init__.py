"""Barnabas: an event streaming broker that speaks Kafka's wire protocol and keeps Kafka's files.

Imported by everything; holds the version and what is known of the build, so that `import barnabas` stays cheap.
"""

__version__ = "0.1.0"


def build() -> str:
    """Return which build this is: "compiled by mypyc 2.4.1 for Python 3.11", or "plain Python: " and the reason.

    The wheel's record (hatch_build.py) is believed only for extension modules that this interpreter imports.
    """
    from importlib.machinery import EXTENSION_SUFFIXES  # noqa: PLC0415 - most programs never ask
    from pathlib import Path  # noqa: PLC0415

    here = Path(__file__).parent
    try:
        text, *compiled = (here / "build.txt").read_text().splitlines()
    except OSError:
        return "plain Python: run from its sources"
    missing = sum(
        not any((here.parent / f"{path}{suffix}").exists() for suffix in EXTENSION_SUFFIXES) for path in compiled
    )
    if not missing:
        return text
    if missing == len(compiled):
        return f"plain Python: this interpreter imports nothing of what was {text}"
    return f"partly {text}: {missing} of {len(compiled)} modules are missing"
