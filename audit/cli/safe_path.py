"""Keep modules of the working directory, which may be a stranger's, out of a command's imports.

It is imported before anything else, so it imports only what Python has loaded itself.
"""

import os
import sys


def leave_out_working_directory() -> None:
    """Import nothing from the working directory, here and in all processes started from here.

    It stays where PYTHONPATH names it, which Python has obeyed before, and where this package lies
    in it.
    """
    os.environ["PYTHONSAFEPATH"] = "1"  # any text; read when a process starts
    here, own = os.getcwd(), os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in (os.path.abspath(place) for place in (own, *filter(None, named))):
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
