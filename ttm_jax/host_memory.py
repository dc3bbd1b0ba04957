"""Keep the memory that a step frees for the next step.

glibc gives large blocks back to the system when they are freed, and the next step of a model on the
CPU pays for every fresh page again: about 15 % of the time of a small model's training step
(benchmarks/README.md). The commands of this project keep such blocks; importing the library changes
nothing, because this is a setting of the whole process.
"""

import ctypes
import sys

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory; False where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):  # musl has no such settings
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 2**26))
    return all(library.mallopt(name, value) for name, value in settings)
