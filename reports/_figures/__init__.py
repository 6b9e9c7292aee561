"""The figures of a report, one a file, drawn with matplotlib as SVG."""

import os.path
from collections.abc import Iterator
from contextlib import contextmanager

_SETTINGS = "matplotlibrc"


@contextmanager
def _ignoring_working_directory() -> Iterator[None]:
    """Hide the settings that matplotlib would evaluate from where the command was started."""
    real = os.path.exists
    os.path.exists = lambda path: path != _SETTINGS and real(path)
    try:
        yield
    finally:
        os.path.exists = real


with _ignoring_working_directory():
    import matplotlib  # noqa: F401  # reads its settings now
