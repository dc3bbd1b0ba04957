"""SIGKILL between two writes that must agree; the resumed run equals the undisturbed one."""

import signal

import pytest
from same_run import assert_same_run, run_here, start

from ttm_jax.fault_points import VARIABLE

pytestmark = pytest.mark.long

# Where the first process dies. The ones that only a resumed run passes come below.
FIRST = (
    "config written",
    "scores written:1",
    "scores written:3",
    "metrics appended:1",
    "metrics appended:2",
    "ledger appended:2",
    "checkpoints saved:1",
    "checkpoints saved:4",
    "partial checkpoint deleted:3",
    "matchings written",
    "temporary file written:4",
)
WHEN_RESUMED = ("metrics.jsonl rewound", "ledger.jsonl rewound", "scores rewound")
QUICK = {"metrics appended:2", "checkpoints saved:4", "matchings written"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_here(folder)
    return folder


def die_at(folder, point) -> None:
    process = start(folder, **{VARIABLE: point})
    _, errors = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, f"{point} was never passed: {errors}"


@pytest.mark.parametrize(
    "point", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in FIRST]
)
def test_killed_at_a_point(tmp_path, undisturbed, point):
    die_at(tmp_path / "run", point)
    run_here(tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed)


@pytest.mark.parametrize(
    "point", ["metrics.jsonl rewound", *(pytest.param(p, marks=pytest.mark.slow)
                                         for p in WHEN_RESUMED[1:])]
)  # fmt: skip
def test_killed_while_a_resumed_run_rewinds(tmp_path, undisturbed, point):
    die_at(tmp_path / "run", "metrics appended:3")
    die_at(tmp_path / "run", point)
    run_here(tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["interrupted saved", "old partial checkpoint deleted"])
def test_killed_while_saving_inside_an_iteration(tmp_path, undisturbed, point):
    process = start(tmp_path / "run", **{VARIABLE: point})
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL
    run_here(tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed)
