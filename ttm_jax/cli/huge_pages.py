"""Large blocks of host memory on huge pages.

XLA on the CPU takes the temporary memory of a step from the C library and gives it back after, so
every step pays for its pages again, 4 kB at a time: a quarter of a CLIP-B32 training step
(benchmarks/README.md). On pages of 2 MB that cost is gone. glibc (2.35 and later) does it when
GLIBC_TUNABLES says so at the start of the process, which is why the commands of this project start
themselves a second time; importing the library changes nothing. It helps where Linux allows huge
pages on request (`/sys/kernel/mm/transparent_hugepage/enabled` is not "never"), and harms nowhere.
"""

import os
import sys

VARIABLE = "GLIBC_TUNABLES"
_SETTING = "glibc.malloc.hugetlb"


def with_huge_pages(environment: dict[str, str]) -> dict[str, str]:
    """The same environment with huge pages asked for, unless it already says something of them."""
    tunables = environment.get(VARIABLE, "")
    if _SETTING in tunables:
        return environment
    return {**environment, VARIABLE: ":".join(filter(None, (tunables, f"{_SETTING}=1")))}


def restart_with_huge_pages() -> None:
    """Start this command again, in the same process, before it has done anything.

    Not where jax is loaded already: then this is part of a larger program, which we leave alone.
    """
    environment = dict(os.environ)
    wanted = with_huge_pages(environment)
    if wanted != environment and sys.platform.startswith("linux") and "jax" not in sys.modules:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], wanted)
