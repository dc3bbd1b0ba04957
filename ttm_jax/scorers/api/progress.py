"""What is shown while requests are under way: how many, what they cost, what they will cost."""

import sys
import time

from ttm_jax.scorers.api.money import Ledger, usd

_EVERY = 10.0  # seconds between lines where there is no terminal


class Progress:
    """A context manager that hears of every answer; this one says nothing."""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def update(self, done: int, total: int, ledger: Ledger, expected: float) -> None:
        """`expected` is the cost of all requests in the end, as far as can be told by now."""


class Lines(Progress):
    """A line every ten seconds, for a log file."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _EVERY

    def update(self, done: int, total: int, ledger: Ledger, expected: float) -> None:
        if time.monotonic() >= self._next or done == total:
            self._next = time.monotonic() + _EVERY
            print(f"{done}/{total} answers, {costs(ledger, expected)}", file=sys.stderr, flush=True)


class Bar(Progress):
    """A bar on the terminal."""

    def __init__(self) -> None:
        import rich.progress
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bar = rich.progress.Progress(
            TextColumn("answers"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self, done: int, total: int, ledger: Ledger, expected: float) -> None:
        self._bar.update(
            self._task, completed=done, total=total, description=costs(ledger, expected)
        )


def on_terminal_or_log() -> Progress:
    return Bar() if sys.stderr.isatty() else Lines()


def costs(ledger: Ledger, expected: float) -> str:
    """Cost so far and in the end; tokens where the prices are unknown."""
    if not ledger.prices.known:
        total = ledger.used + ledger.lost
        return f"{total.input + total.output:,} tokens"
    return f"{usd(ledger.spent)} of about {usd(expected)}"
