"""The Markdown pages of the repository: their code blocks, commands, code spans and links."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from paths import TESTS

REPOSITORY = TESTS.parent
_FENCE = re.compile(r"^```(\w*)$")
_COMMENT = re.compile(r"^<!-- (.+) -->$")
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block. `mark` is the HTML comment on the line before it, if there is one."""

    page: str
    line: int
    language: str
    code: str
    mark: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def needs(self) -> bool:
        """Cannot be executed here: a network, a paid API, an accelerator."""
        return self.mark.startswith("needs: ")


def pages() -> list[str]:
    """Every page for readers, relative to the repository."""
    inside = sorted(path.relative_to(REPOSITORY) for path in REPOSITORY.glob("docs/*.md"))
    outside = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "examples/README.md")
    return [*outside, *map(str, inside)]


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    opened: Block | None = None
    previous, code = "", []
    for number, line in enumerate(text_of(page).splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            comment = _COMMENT.match(previous)
            opened = Block(page, number, fence[1], "", comment[1] if comment else "")
            code = []
        elif opened is not None and line == "```":
            text = "\n".join(code) + "\n"
            found.append(Block(page, opened.line, opened.language, text, opened.mark))
            opened = None
        else:
            code.append(line)
        previous = line
    assert opened is None, f"{page}: the block in line {opened.line} has no end"
    return found


def prose(page: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def spans(page: str) -> list[str]:
    """`code` in the running text."""
    return _SPAN.findall(prose(page))


def links(page: str) -> list[str]:
    return _LINK.findall(_SPAN.sub("", prose(page)))


def anchors(page: str) -> set[str]:
    """What GitHub makes of the headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        for heading in _HEADING.findall(prose(page))
    }


def commands(shell: str) -> list[list[str]]:
    """The lines of a shell block as lists of words; comments are dropped, `\\` joins lines."""
    lines: list[list[str]] = []
    pending = ""
    for line in shell.splitlines():
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # a quotation that goes on in the next line
            pending += "\n"
            continue
        if words:
            lines.append(words)
        pending = ""
    assert not pending.strip(), f"a line without an end: {pending}"
    return lines


def page_ids(names: list[str]) -> list[str]:
    return [Path(name).with_suffix("").as_posix().replace("/", "_") for name in names]
