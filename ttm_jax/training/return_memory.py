"""Memory that compiling has left behind in the C library's pools."""

import ctypes
import sys
from functools import cache
from typing import Any


def return_free_memory() -> None:
    """Give freed memory back to the system; glibc keeps half a gigabyte after compiling a step.

    It lies in pieces that the large arrays of a step do not fit into, so the peak would be higher
    by that much. Nothing happens where the C library is another one.
    """
    library = _library()
    if library is not None and hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


@cache
def _library() -> Any:
    return ctypes.CDLL(None) if sys.platform.startswith("linux") else None
