"""The one progress bar of the project: on the terminal, on stderr, gone when it is done."""

import functools
import importlib.util
import sys
from typing import Any


def progress_bar(*, extra: tuple[str, ...] = ()) -> Any:
    """A `rich.progress.Progress`: description, bar, count, elapsed and remaining time.

    Tasks count items, or bytes if added with `unit="bytes"`. `extra` are more columns, as rich
    templates, for example "{task.fields[cost]}".
    """
    from rich import progress

    class Amount(progress.ProgressColumn):
        """Bytes or a number of items, as the task says."""

        _bytes, _items = progress.DownloadColumn(), progress.MofNCompleteColumn()

        def render(self, task: Any) -> Any:
            column = self._bytes if task.fields.get("unit") == "bytes" else self._items
            return column.render(task)

    class Remaining(progress.ProgressColumn):
        """The time that is left, once anything is known of it."""

        _left = progress.TimeRemainingColumn()

        def render(self, task: Any) -> Any:
            if task.total is None or task.time_remaining is None:
                return ""
            return self._left.render(task) + " left"

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        Amount(),
        *(progress.TextColumn(text, markup=False) for text in extra),
        progress.TimeElapsedColumn(),
        progress.TextColumn("elapsed"),
        Remaining(),
        console=_console(getattr(sys.stderr, "rich_proxied_file", sys.stderr)),
        transient=True,
        disable=in_notebook() and not draws_in_notebook(),  # rich would only warn, again and again
    )


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel, whose output is no terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def draws_in_notebook() -> bool:
    """Whether bars can be drawn there: rich needs ipywidgets for that."""
    return in_notebook() and importlib.util.find_spec("ipywidgets") is not None


@functools.lru_cache(maxsize=1)
def _console(stream: Any) -> Any:
    """One for all bars on a stream: rich draws a bar that starts inside another one below it.

    Two consoles would take turns to overwrite one line. `stream` is stderr itself, not what rich
    puts in its place while a bar is drawn.
    """
    from rich.console import Console

    return Console(stderr=True)
