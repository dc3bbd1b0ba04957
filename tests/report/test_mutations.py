"""Whatever happens to the files of a run, a report about it succeeds or says why in one line.

Each mutation changes one file of a run folder; then the page, the tables and a comparison are made
in this process, without the checkpoints that a real run has beside them.
"""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from random import Random

import numpy as np
import pytest
from made_runs import pictured_dataset, write_fates, write_mixed, write_run
from mutations import Mutation, mutate

from ttm_jax.config import TTMConfig
from ttm_jax.errors import InputError
from ttm_jax.report.compare import compare_experiments
from ttm_jax.report.compare_print import print_comparisons
from ttm_jax.report.page.page import page
from ttm_jax.report.run_data import read_experiments
from ttm_jax.report.tables.from_runs import WRITERS, summary_rows

GLOBAL = TTMConfig(matching="global", tau_unit="fraction", tau_1=0.5, iterations=1)
NOT_ONE_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
FEW, MANY = 320, 8000


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    """Groups of one shape, of three shapes, a global matching, and one without truth."""
    root = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    write_fates(root / "fates", (0,), watched=True)
    write_mixed(root / "mixed" / "seed_0")
    history = [rng.normal(size=(1, 10, 10)) for _ in range(2)]
    write_run(root / "global" / "seed_0", pictured_dataset(), history, GLOBAL)
    history = [rng.normal(size=(5, 2, 2)) for _ in range(2)]
    write_run(root / "unknown" / "seed_0", pictured_dataset(truth=False), history)
    return sorted(root.iterdir())


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_everything(folder: Path) -> None:
    """The page, all tables, and the run compared with itself."""
    experiments = read_experiments([folder])
    text = page(experiments, models={})
    assert text.endswith("</html>\n")
    text.encode()
    rows = summary_rows(experiments, {})
    for write in WRITERS.values():
        write(rows).encode()
    (experiment,) = experiments
    with redirect_stdout(io.StringIO()) as shown:
        iterations = (0, experiment.first.last)
        print_comparisons("a", "b", compare_experiments(experiment, experiment, iterations), 0)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown.getvalue())


def outcome(folder: Path, mutation: Mutation) -> str | None:
    """None for success, or the message; the folder is as before in any case."""
    before = mutation.path.read_bytes()
    if mutation.content is None:
        mutation.path.unlink()
    else:
        mutation.path.write_bytes(mutation.content)
    damaged = contents(folder)
    try:
        make_everything(folder)
        message = None
    except InputError as error:
        message = str(error)
    except BaseException as error:
        raise AssertionError(f"{mutation.path.name}, {mutation.how}") from error
    finally:
        same = contents(folder) == damaged
        mutation.path.write_bytes(before)
    assert same, f"{mutation.path.name}, {mutation.how}: reading changed something"
    if message is not None:
        assert not NOT_ONE_LINE.search(message), message
        assert message, mutation.how
    return message


def run_mutations(folders: list[Path], seed: int, count: int) -> list[tuple[Mutation, str | None]]:
    random = Random(seed)
    found = []
    for number in range(count):
        folder = folders[number % len(folders)]
        mutation = mutate(folder, random)
        found.append((mutation, outcome(folder, mutation)))
    return found


def check(found: list[tuple[Mutation, str | None]]) -> None:
    """Most damage is noticed, and the message leads to the file or to one that contradicts it."""
    refused = [(mutation, said) for mutation, said in found if said is not None]
    assert len(found) / 3 < len(refused) < len(found)
    named = [said for mutation, said in refused if mutation.path.name in said]
    assert len(named) > 0.7 * len(refused)


def test_unharmed(folders):
    for folder in folders:
        make_everything(folder)


def test_few(folders):
    found = run_mutations(folders, 0, FEW)
    assert len(found) == FEW
    check(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_many(folders, seed):
    found = run_mutations(folders, seed, MANY // 4)
    assert len(found) == MANY // 4
    check(found)
