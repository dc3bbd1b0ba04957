"""Texts that try to become markup, a script or a command to the terminal, and runs full of them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TEXTS = {
    "script": '"><script>window.hacked=1</script>',
    "refresh": '<meta http-equiv=refresh content="0;url=https://example.invalid/">',
    "end of script": "</script></title></style></textarea><svg onload=window.hacked=1>",
    "comment": "<!--<script>window.hacked=1//--><!--",
    "double quote": '" onmouseover="window.hacked=1" autofocus onfocus="window.hacked=1',
    "single quote": "' onmouseover='window.hacked=1' style='position:fixed;inset:0",
    "image": "<img src=x onerror=window.hacked=1><iframe srcdoc='x'></iframe><base href=//x>",
    "address": "javascript:window.hacked=1",
    "template": "{{ 7*7 }}{% raw %}${window.hacked=1}`",
    "rich": "[/red][bold red]x[/] :skull: [link=https://example.invalid]y[/link]",
    "terminal": "\x1b[31m\x1b]0;title\x07\x9b2J\r\x08\x00",
    "direction": "\u202eevil\u2066\u2028second\u2029third",
    "lines": "first\nerror: forged\n\tthird",
}
EVERYTHING = "".join(TEXTS.values())
# Strings with a fixed vocabulary or that are checked against other files: no text can go there.
_FIXED = {"config.json": ("config",), "metrics.jsonl": ("scores",)}
PathInFile = tuple[str | int, ...]


def json_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in (".json", ".jsonl"))


def read(path: Path) -> list[Any]:
    """The objects of a file: one, or one per line."""
    text = path.read_text("utf-8")
    # Not splitlines(): a text may hold other line separators than the newline.
    parts = text.split("\n") if path.suffix == ".jsonl" else [text]
    return [json.loads(part) for part in parts if part]


def write(path: Path, content: list[Any]) -> None:
    text = "\n".join(json.dumps(item, ensure_ascii=False) for item in content) + "\n"
    path.write_text(text, "utf-8")


def strings(value: Any, path: PathInFile = ()) -> Iterator[PathInFile]:
    """Where the strings inside a value are."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(item, (*path, key))


def replaced(value: Any, path: PathInFile, new: Callable[[Any], Any]) -> Any:
    """A copy with the value at `path` exchanged."""
    if not path:
        return new(value)
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def is_fixed(name: str, path: PathInFile) -> bool:
    """`path` begins with the number of the object in its file."""
    return len(path) > 1 and path[1] in _FIXED.get(name, ())


def poison(folder: Path, text: str) -> int:
    """Put `text` in front of every string that may be any text; returns how many there are.

    Equal strings stay equal, so that the files still agree.
    """
    count = 0
    for path in json_files(folder):
        content: Any = read(path)
        for where in strings(content):
            if not is_fixed(path.name, where):
                content = replaced(content, where, lambda old: text + old)
                count += 1
        if path.name == "environment.json":
            content = [{text + key: value for key, value in content[0].items()}]
        write(path, content)
    return count
