"""Commands start themselves again with huge pages, once, with nothing else changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ttm_jax.cli.huge_pages import VARIABLE, with_huge_pages

PROGRAM = """
import os, sys
{first}
from ttm_jax.cli.exit_codes import run
print(os.getpid(), sys.argv[1:], os.environ.get("GLIBC_TUNABLES"), flush=True)
run(lambda: print("done") or 7)
"""
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of Linux")


def start(folder: Path, first: str = "", **environment: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a small command."""
    path = folder / "command.py"
    path.write_text(PROGRAM.format(first=first), encoding="utf-8")
    usual = {k: v for k, v in os.environ.items() if k != VARIABLE}
    done = subprocess.run(
        [sys.executable, str(path), "--say", "two words"],
        env={**usual, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@linux
def test_a_command_starts_again_with_the_same_words_and_process(tmp_path: Path) -> None:
    code, (before, after, last) = start(tmp_path)
    pid, words = before.rsplit(" ", 1)[0].split(" ", 1)
    assert before == f"{pid} {words} None"
    assert after == f"{pid} {words} glibc.malloc.hugetlb=1"
    assert words == "['--say', 'two words']"
    assert (code, last) == (7, "done")


@linux
def test_what_the_user_has_set_stays(tmp_path: Path) -> None:
    assert len(start(tmp_path, GLIBC_TUNABLES="glibc.malloc.hugetlb=0")[1]) == 2
    lines = start(tmp_path, GLIBC_TUNABLES="glibc.malloc.arena_max=2")[1]
    assert lines[1].endswith(" glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1")


@linux
def test_a_program_that_has_loaded_jax_is_left_alone(tmp_path: Path) -> None:
    code, lines = start(tmp_path, "import types; sys.modules['jax'] = types.ModuleType('jax')")
    assert (code, len(lines), lines[-1]) == (7, 2, "done")


def test_the_setting_is_added_once() -> None:
    once = with_huge_pages({"A": "b"})
    assert once == {"A": "b", VARIABLE: "glibc.malloc.hugetlb=1"}
    assert with_huge_pages(once) == once
