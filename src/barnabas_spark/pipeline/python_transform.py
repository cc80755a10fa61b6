"""Loads the function of a Python transform from its file.

Called by `plan` on the driver's main thread; no lock. The module is pickled by value into the executors, which do not
have the file on their path.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable

from pyspark import cloudpickle
from pyspark.sql import DataFrame

Transformation = Callable[..., DataFrame]


class TransformFailed(Exception):
    """A transform's file that cannot be loaded, or its function. The message says why and in which line."""


def load_function(path: str, name: str) -> Transformation:
    """Return a function of a file. The file runs once for each call. Raises TransformFailed."""
    module_name = f"barnabas_pipeline_{os.path.splitext(os.path.basename(path))[0]}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    assert specification is not None, path
    assert specification.loader is not None, path
    module = importlib.util.module_from_spec(specification)
    # Registered by name, as classes of the module need for pickling; by value, as the executors need.
    sys.modules[module_name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise TransformFailed(f"{path}{line_of(error, path)}: {type(error).__name__}: {error}") from error
    cloudpickle.register_pickle_by_value(module)
    function: Transformation | None = getattr(module, name, None)
    if not callable(function):
        raise TransformFailed(f"{path} has no function {name!r}")
    return function


def line_of(error: BaseException, path: str) -> str:
    """Return `:LINE` for the innermost place in a file that an error came through, or nothing."""
    if isinstance(error, SyntaxError) and error.filename == path and error.lineno is not None:
        return f":{error.lineno}"
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f":{line}"
