"""Progress displays."""

import io
import re
import sys
from types import SimpleNamespace

import pytest

from ttm_jax.progress_bar import progress_bar
from ttm_jax.runs import console
from ttm_jax.runs.console import Console
from ttm_jax.runs.progress import BarProgress, LineProgress


def test_lines_come_seldom_and_at_the_end(capsys):
    lines = LineProgress("answers")
    lines.update(1, 3, "$2.00 of about $6.00")
    lines.update(3, 3, "$2.00 of about $6.00")
    assert capsys.readouterr().err == "3/3 answers, $2.00 of about $6.00\n"


def test_the_bar_shows_numbers_and_text():
    with BarProgress("answers") as bar:
        bar.update(1, 3, "$2.00 of about $6.00")
        assert bar._bar.tasks[0].fields["text"] == "$2.00 of about $6.00"
        assert (bar._bar.tasks[0].completed, bar._bar.tasks[0].total) == (1, 3)


def test_the_text_beside_the_bar_is_not_markup():
    """Rich raises MarkupError for a closing tag without an opening one."""
    with BarProgress("answers") as bar:
        bar.update(1, 3, "[/red] [bold]")
        (column,) = [c for c in bar._bar.columns if "fields" in getattr(c, "text_format", "")]
        assert column.render(bar._bar.tasks[0]).plain == "[/red] [bold]"


def test_a_log_file_gets_a_line_of_a_long_iteration(capsys, monkeypatch):
    clock = iter([0.0, 1.0, 31.0, 45.0, 62.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    shown = Console("plain")
    shown.begin("iteration 1/2")
    for step in range(1, 5):
        shown.progress(step, 20)
    assert capsys.readouterr().err == (
        "iteration 1/2: compiling\n"
        "iteration 1/2: step 2/20 after 31 s\niteration 1/2: step 4/20 after 62 s\n"
    )
    quiet = Console("quiet")
    quiet.progress(1, 20)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("widgets", [True, False])
def test_in_a_notebook_without_widgets_there_are_lines(monkeypatch, capsys, recwarn, widgets):
    """Rich draws nothing there, and warns for every bar that ipywidgets is missing."""

    class ZMQInteractiveShell:
        pass

    kernel = SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: widgets or None)
    assert console.default_console().mode == ("rich" if widgets else "plain")
    assert progress_bar().disable is not widgets
    assert not recwarn.list


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_inside_another_is_drawn_below_it(monkeypatch):
    """Two displays of their own would erase each other's line ten times per second."""
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress_bar() as outer:
        outer.add_task("reading and scoring", total=None)
        with progress_bar() as inner:
            inner.add_task("images", total=20)
            outer.refresh()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert re.search(r"reading and scoring [^\n\r]*\r?\n[^\n\r]*images", plain)


def _row(iteration: int, **metrics: float) -> dict:
    trained = {"tau": 0.9244, "selected": 1319, "units": 1319, "lr": 1.9e-4, "loss": 10.2337}
    return {
        "iteration": iteration,
        "metrics": {name: {"percent": value} for name, value in metrics.items()},
        "seconds": 12345.6,
        **(trained if iteration else {}),
        **({"precision": 1.0} if iteration and metrics else {}),
    }


def test_the_table_of_iterations_fits_on_80_columns(capsys):
    shown = Console("plain")
    shown.header(3)
    for iteration in (0, 10):
        shown.iteration(_row(iteration, group_score=100.0, group_match=100.0))
    first, *table = capsys.readouterr().err.splitlines()
    assert first == "seed 3"
    assert [len(line) for line in table] == [79] * 3
    assert table[2].split() == [
        "10", "0.9244", "1319/1319", "100.0", "100.00", "100.00", "10.2337", "1.90e-04", "12345.6"
    ]  # fmt: skip


def test_columns_that_would_stay_empty_are_left_out(capsys):
    shown = Console("plain")
    shown.header()
    shown.iteration(_row(0))
    shown.header()
    shown.iteration(_row(0, global_match=5.0, row_argmax=10.0))
    blind, _, without_groups, _ = capsys.readouterr().err.splitlines()
    assert blind.split() == ["iter", "tau", "selected", "loss", "lr", "sec"]
    assert "precision global match" in without_groups
    assert "Group" not in without_groups
