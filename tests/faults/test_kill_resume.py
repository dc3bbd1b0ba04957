"""Real signals to a real process: what is resumed ends as if nothing had happened, bit for bit."""

import random
import signal
import time

import pytest
from same_run import assert_same_run, run_here, start, stop_after

pytestmark = pytest.mark.long

RUNS, KILLS = 40, 5  # of the long test: 200 kills


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Both kinds of run, made in this process: other code path, same numbers."""
    folders = {keep: tmp_path_factory.mktemp("whole") / "run" for keep in (False, True)}
    for keep, folder in folders.items():
        run_here(folder, keep)
    return folders


@pytest.mark.parametrize("keep", [False, True])
def test_sigkill_at_random_moments(tmp_path, undisturbed, keep):
    folder = tmp_path / "run"
    rng = random.Random(f"kill {keep}")
    for _ in range(1 + keep):
        code = stop_after(start(folder, keep), rng.randint(1, 45), signal.SIGKILL)
        assert code == -signal.SIGKILL
    assert not (folder / "summary.json").exists()
    process = start(folder, keep)
    process.communicate(timeout=240)
    assert process.returncode == 0
    assert_same_run(folder, undisturbed[keep])


def test_sigterm_saves_in_the_middle_of_an_iteration(tmp_path, undisturbed):
    folder = tmp_path / "run"
    process = start(folder, True)
    code = stop_after(process, 5, signal.SIGTERM)
    assert code == 128 + signal.SIGTERM
    assert list((folder / "interrupted").iterdir())
    process = start(folder, True)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    assert int(output.splitlines()[0].split()[1]) > 5  # it did not begin the iteration again
    assert_same_run(folder, undisturbed[True])


def stopped_at_random(folder, keep, rng) -> bool:
    """Stop a run after some steps and a pause, so that a write may be cut anywhere; was it?"""
    process = start(folder, keep)
    for _ in range(rng.randint(0, 40)):
        process.stdout.readline()
    time.sleep(rng.random() * 0.3)
    if rng.random() < 0.3:  # asked to stop, and killed while it saves
        process.send_signal(signal.SIGTERM)
        time.sleep(rng.random() * 0.2)
    process.kill()
    process.communicate(timeout=240)
    assert process.returncode in (0, -signal.SIGKILL, 128 + signal.SIGTERM)
    return process.returncode != 0


def resumes_after(kills, folder, whole, keep, seed) -> int:
    """Stop a run up to so many times, then let it finish; returns how often it was stopped."""
    rng = random.Random(seed)
    count = 0
    while count < kills and stopped_at_random(folder, keep, rng):
        count += 1
    run_here(folder, keep)
    assert_same_run(folder, whole)
    return count


def test_sigterm_then_sigkill(tmp_path, undisturbed):
    """Killed again and again, some of the times while it saves what SIGTERM asked for."""
    assert resumes_after(2, tmp_path / "run", undisturbed[True], True, "term 4") == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RUNS))
def test_hundreds_of_kills(tmp_path, undisturbed, number, capsys):
    keep = number % 2 == 1
    count = resumes_after(KILLS, tmp_path / "run", undisturbed[keep], keep, number)
    with capsys.disabled():
        print(f" {count} kills", end="")
