"""Every command and snippet of the documentation is run, or at least checked.

Python blocks are executed, page by page, in an empty folder. Shell blocks are checked line by line:
the command exists and its parser accepts the arguments; those after `<!-- run -->` are executed, at
a reduced size. Blocks after `<!-- needs: ... -->` are checked but not executed.
"""

import ast
import functools
import json
import re
import runpy
import sys
import warnings
from importlib import import_module

import pytest
import tyro
from commands import command, one_device  # noqa: F401  fixtures
from pages import REPOSITORY, Block, blocks, commands, page_ids, pages, spans

from ttm_jax.cli.main import COMMANDS, dispatch

PAGES = pages()
GROUPS = 6
ENOUGH_TO_DIAGNOSE = 20
# Flags that make a command of the documentation quick; they replace those that it has.
REDUCED = {
    "world": f"--groups {GROUPS}",
    "demo": f"--groups {GROUPS} --seeds 0 1 --iterations 3 --epochs 1 --quiet",
    "adapt": "--iterations 1 --epochs 1 --quiet",
    "small": f"--groups {GROUPS} --seeds 0 --iterations 1 --epochs 1 --quiet",
    "mmvp_siglip": f"--limit {GROUPS} --seeds 0 --iterations 1 --quiet",
}
OTHER_PROGRAMS = ("pip", "export", "gcloud", "srun", "make")
EXPERIMENT = re.compile(r"experiments\.(\w+)$")


class Parsed(BaseException):
    """The arguments were accepted; the command itself is not run."""


@pytest.fixture
def parse_only(monkeypatch):
    """Commands end as soon as their arguments are parsed."""
    cli = tyro.cli

    def parse(into, **options):
        if not isinstance(into, type):
            function = into

            @functools.wraps(function)
            def into(*args, **kwargs):
                """Accepts what `function` accepts."""

            into.__doc__ = function.__doc__
        cli(into, **options)
        raise Parsed

    monkeypatch.setattr(tyro, "cli", parse)


def all_blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language == language]


def placed(found: list[Block]) -> list:
    return [pytest.param(block, id=block.place) for block in found]


def split(words: list[str]) -> tuple[str, list[str]] | None:
    """Name and arguments of a command of ours, None for other programs."""
    match words:
        case ["ttm", name, *args]:
            return name, args
        case ["python", "-m", name, *args] if name.startswith("experiments"):
            return name, args
    return None


def reduced(name: str, args: list[str], groups: int) -> list[str]:
    """The arguments with those of `REDUCED`."""
    smaller = REDUCED.get(name, "").replace(f"--groups {GROUPS}", f"--groups {groups}").split()
    for flag in (word for word in smaller if word.startswith("--") and word in args):
        start = args.index(flag)
        values = [i for i in range(start + 1, len(args)) if args[i].startswith("--")]
        args = args[:start] + (args[values[0] :] if values else [])
    return [*args, *smaller]


def smaller(code: str) -> str:
    """A Python snippet with fewer groups, pictures, iterations and epochs."""
    code = re.sub(r"\b(groups|count)=\d[\d_]*", rf"\1={GROUPS}", code)
    return re.sub(r"\b(iterations|epochs)=\d+", r"\1=1", code)


def accepts(name: str, args: list[str], monkeypatch) -> None:
    """The command exists and its parser takes the arguments; `parse_only` is in force."""
    if name == "experiments":
        assert not args
        return
    experiment = EXPERIMENT.match(name)
    try:
        if experiment is None:
            dispatch([name, *args])
        else:
            monkeypatch.setattr(sys, "argv", [name, *args])
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
                runpy.run_module(name, run_name="__main__")
    except Parsed:
        return
    except SystemExit as left:
        pytest.fail(f"{name} does not accept {args} (exit code {left.code})")
    pytest.fail(f"{name} did not parse its arguments")


@pytest.mark.parametrize("page", PAGES, ids=page_ids(PAGES))
def test_blocks_have_a_known_language_and_mark(page):
    for block in blocks(page):
        assert block.language in ("bash", "python", "json", "text"), block.place
        assert block.mark in ("", "run") or block.needs, f"{block.place}: {block.mark}"
        assert block.mark != "run" or block.language == "bash", block.place


@pytest.mark.parametrize("block", placed(all_blocks("bash")))
def test_commands_exist_and_accept_their_flags(block, parse_only, monkeypatch):
    for words in commands(block.code):
        found = split(words)
        if found is None:
            assert words[0] in OTHER_PROGRAMS, f"{block.place}: {words}"
        else:
            accepts(*found, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=page_ids(PAGES))
def test_commands_in_the_text_exist_and_accept_their_flags(page, parse_only, monkeypatch):
    for span in spans(page):
        found = split(span.replace("...", "").split())
        if found is None or "<" in span or "COMMAND" in span:  # `ttm <subcommand>`
            continue
        name, args = found
        if args:
            accepts(name, args, monkeypatch)
        elif (experiment := EXPERIMENT.match(name)) is not None:
            assert (REPOSITORY / f"experiments/{experiment[1]}.py").is_file(), f"{page}: {span}"
        else:
            assert name in COMMANDS or name == "experiments", f"{page}: {span}"


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=page_ids(PAGES))
def test_snippets_run(page, command, tmp_path, monkeypatch):  # noqa: F811
    """In the order of the page, in one folder and one namespace: as a reader would."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    namespace: dict[str, object] = {}
    for block in blocks(page):
        if block.language == "python" and not block.needs:
            exec(compile(smaller(block.code), block.place, "exec"), namespace)
        if block.mark == "run":
            groups = ENOUGH_TO_DIAGNOSE if "ttm diagnose" in block.code else GROUPS
            for words in commands(block.code):
                name, args = split(words)
                name = name.removeprefix("experiments.")
                name = "__main__" if name == "experiments" else name
                done = command(name, *reduced(name, args, groups))
                assert done.code == 0, f"{block.place}: {' '.join(words)}\n{done.err}"


@pytest.mark.parametrize("block", placed([b for b in all_blocks("python") if b.needs]))
def test_names_in_snippets_that_are_not_run_exist(block):
    modules = {}
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            for name in node.names:
                modules[name.asname or name.name] = import_name(node.module, name.name)
        elif isinstance(node, ast.Import):
            for name in node.names:
                modules[name.asname or name.name] = import_module(name.name)
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = modules.get(node.value.id)
            assert owner is None or hasattr(owner, node.attr), f"{block.place}: {node.attr}"


def import_name(module: str, name: str) -> object:
    """What `from module import name` gives."""
    home = import_module(module)
    if not hasattr(home, name):
        return import_module(f"{module}.{name}")
    return getattr(home, name)


@pytest.mark.parametrize("block", placed(all_blocks("json")))
def test_json_is_valid(block):
    for line in block.code.splitlines():
        assert isinstance(json.loads(line), dict)
