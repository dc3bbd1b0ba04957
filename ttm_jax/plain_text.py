"""Text from files and names of files, made safe to show on a terminal or in a message of one line.

A caption or a file name may hold anything: escape sequences that recolour a terminal or rewrite its
title, line breaks that forge a second message, marks that reverse the order of letters. Here they
become visible escapes (`\\x1b`), and everything else stays as it is.
"""

import re
import shutil
import textwrap
from typing import Any

# Control characters, line and paragraph separators, marks that change the direction of writing, and
# halves of surrogate pairs, with which Python stands for bytes that are not UTF-8.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def one_line(text: str) -> str:
    """The text without control characters, all on one line."""
    return _UNSAFE.sub(_escape, text)


def for_reading(text: str, terminal: bool) -> str:
    """Running text with lines that fit the terminal; unchanged for a file or a pipe."""
    if not terminal:
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def rich_text(text: str) -> Any:
    """The same as a `rich.text.Text`: rich searches strings for markup ([red]) and emoji codes."""
    from rich.text import Text

    return Text(one_line(text))


def rich_lines(*texts: str) -> Any:
    """Several of them below each other, as the text of one cell."""
    from rich.text import Text

    return Text("\n").join(map(rich_text, texts))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
