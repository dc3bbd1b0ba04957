"""A trace of some training steps for TensorBoard or Perfetto, in the run folder."""

from pathlib import Path

import jax

from ttm_jax.hosts.this_host import is_first

FOLDER = "profile"


class Profile:
    """Traces the steps of one run, once; the first iteration is left out where there are more.

    By then everything is compiled. The stages of a run (score, match, train, write, save) appear
    under their names.
    """

    def __init__(self, run: Path | None, steps: int) -> None:
        """`run` is the run folder; without one, or with 0 steps, nothing is traced."""
        self._folder = None if run is None or not is_first() else run / FOLDER
        self._left = steps if self._folder is not None else 0
        self._running = False
        self._seen = 0

    def begin(self, iteration: int, iterations: int) -> None:
        """An iteration begins."""
        self._seen = 0
        if self._left > 0 and not self._running and iteration >= min(2, iterations):
            jax.profiler.start_trace(str(self._folder), create_perfetto_trace=True)
            self._running = True

    def steps(self, done: int) -> None:
        """So many steps of the iteration are done."""
        if self._running:
            self._left -= done - self._seen
            self._seen = done
            if self._left <= 0:
                self.end()

    def end(self) -> None:
        """Write the trace, if there is one."""
        if self._running:
            self._running, self._left = False, 0
            jax.profiler.stop_trace()
