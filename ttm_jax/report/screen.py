"""Where tables are printed: a terminal, or a file or pipe, which has no edge to break words at."""

from rich.console import Console

WIDE = 132  # columns of a table in a file or a pipe


def screen(wide: int = WIDE) -> Console:
    """As wide as the terminal; without one as wide as `wide`, or as COLUMNS if that is more."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, wide))
