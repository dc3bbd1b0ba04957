"""Progress displays."""

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
