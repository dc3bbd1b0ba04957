"""The notebook runs from top to bottom, in a small size; its page in the docs is made from it."""

import json
import os
import sys
import warnings

import nbformat
import pytest
from paths import TESTS

NOTEBOOK = TESTS.parent / "examples" / "tour.ipynb"


def texts(cell) -> str:
    """Everything that a cell printed or returned, as text."""
    return "".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "")
        for output in cell.get("outputs", ())
    )


@pytest.mark.long
def test_it_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.setenv("TTM_TOUR_GROUPS", "20")
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client; the kernel is a process of its own
        from nbclient import NotebookClient

        client = NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        )
        client.execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = [texts(cell) for cell in code]
    assert "TTMResult(GroupMatch " in "".join(shown)
    assert "iteration 5: tau 0.00,  20 groups selected" in "".join(shown)
    assert "parameters" in "".join(shown)  # of the checkpoint
    assert "True" in shown[-1]  # the saved model gives the scores of the adapted one
    for cell in code:
        for output in cell.outputs:
            assert output.get("name") != "stderr" or "Warning" not in output.text, output.text


def test_what_is_committed_was_run_once_and_in_order():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert "200 groups" in NOTEBOOK.read_text(encoding="utf-8")
    assert NOTEBOOK.stat().st_size < 1.5e6


@pytest.mark.parametrize(
    "wanted", ["# A tour of Test-Time Matching", "```python", "data:image/png"]
)
def test_the_page_has_text_code_and_pictures(wanted):
    sys.path.insert(0, str(TESTS.parent / "docs" / "_site"))
    try:
        from notebook_page import as_markdown
    finally:
        sys.path.pop(0)
    assert wanted in as_markdown(NOTEBOOK)
