"""How every command ends: 0, or one clear line and exit code 2, never a traceback for a typo."""

import sys
from collections.abc import Callable

from ttm_jax.errors import InputError, NonFinite
from ttm_jax.host_memory import restart_with_huge_pages
from ttm_jax.signals import RunInterrupted


def run(main: Callable[[], int | None]) -> None:
    """Call `main` and leave the process with its exit code.

    `InputError` becomes one line on stderr and exit code 2, `NonFinite` with code 1; a run that was
    asked to stop says where it was saved; Ctrl-C elsewhere becomes exit code 130. Anything else
    keeps its traceback.
    """
    restart_with_huge_pages()
    try:
        code = main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except NonFinite as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except RunInterrupted as interrupted:
        print(f"{interrupted}; the same command goes on from there", file=sys.stderr)
        code = interrupted.code
    except BrokenPipeError:  # `... | head` closed the pipe: not an error of ours
        sys.stderr.close()
        code = 141
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        code = 130
    sys.exit(code or 0)
