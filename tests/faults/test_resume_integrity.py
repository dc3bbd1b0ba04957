"""A resumed run notices whatever no longer agrees: it rebuilds it, or refuses with the reason."""

import json
import shutil
import signal
from dataclasses import replace

import jax
import numpy as np
import pytest
from same_run import assert_same_run, final_params, run_here, start
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError
from ttm_jax.runs.checkpoints import CheckpointWarning, saved_steps

SHORT = replace(CONFIG, iterations=2)


def run(folder, config=SHORT, dataset=None, **settings):
    devices = jax.devices()[:1]
    dataset = dataset or tiny_dataset()
    return run_ttm(tiny_model(), dataset, config, folder, devices=devices, **settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(folder)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """A finished run to damage."""
    return shutil.copytree(finished, tmp_path / "run")


def lines(path):
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


class TestLinesAreRebuilt:
    @pytest.mark.parametrize(
        "damage",
        [
            lambda rows: rows[:-1],  # the last line is lost
            lambda rows: rows[:1] + rows[2:],  # a line in the middle
            lambda rows: rows[1:],  # the first
            lambda rows: [],
            lambda rows: [rows[0], *rows],  # a line twice
            lambda rows: [*rows[:-1], rows[-1].replace("}", ', "edited": true}', 1)],
            lambda rows: [*rows[:-1], rows[-1][: len(rows[-1]) // 2]],  # cut short
        ],
    )
    @pytest.mark.parametrize("name", ["metrics.jsonl", "ledger.jsonl"])
    def test_from_the_checkpoint(self, finished, folder, name, damage):
        path = folder / name
        path.write_text("".join(damage(lines(path))), encoding="utf-8")
        with pytest.warns(CheckpointWarning, match="rebuilt"):
            run(folder)
        assert path.read_bytes() == (finished / name).read_bytes()

    def test_a_lost_config(self, finished, folder):
        (folder / "config.json").unlink()
        run(folder)
        assert (folder / "config.json").read_bytes() == (finished / "config.json").read_bytes()


class TestRefused:
    def refuses(self, folder, match, **settings):
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        with pytest.raises(InputError, match=match) as caught:
            run(folder, **settings)
        assert "\n" not in str(caught.value)
        for path, content in before.items():
            assert path.read_bytes() == content, f"{path} was changed"

    def test_checkpoints_of_other_settings(self, folder):
        """config.json was made to fit; the checkpoints are still those of another run."""
        path = folder / "config.json"
        content = json.loads(path.read_text())
        content["config"]["lr"] = 5e-4
        path.write_text(json.dumps(content))
        self.refuses(folder, "written by another run", config=replace(SHORT, lr=5e-4))

    def test_scores_that_were_changed(self, folder):
        path = next((folder / "scores").glob("000_*.npz"))
        with np.load(path) as file:
            arrays = dict(file)
        arrays["scores"] = arrays["scores"] + 1
        np.savez(path, **arrays)
        self.refuses(folder, "does not hold the scores that iteration 0")

    def test_scores_that_were_lost(self, folder):
        next((folder / "scores").glob("001_*.npz")).unlink()
        self.refuses(folder, "001_2x2.npz is missing or damaged")

    def test_other_pixels(self, folder):
        dataset = tiny_dataset()
        images = np.array(dataset.images, copy=True)
        images[0] = 255 - images[0]
        self.refuses(folder, r"dataset\.inputs", dataset=replace(dataset, images=images))


class TestCheckpoints:
    def test_a_copy_under_another_name_is_set_aside(self, finished, folder):
        last, before = folder / "checkpoints" / "2", folder / "checkpoints" / "1"
        shutil.rmtree(last)
        shutil.copytree(before, last)
        with pytest.warns(CheckpointWarning, match="copy of step 1"):
            run(folder)
        assert (folder / "damaged" / "checkpoints_2").is_dir()
        assert (folder / "ledger.jsonl").read_bytes() == (finished / "ledger.jsonl").read_bytes()

    def test_a_damaged_one_is_kept_for_inspection(self, folder):
        tree = (folder / "checkpoints" / "2" / "state").rglob("*")
        files = [path for path in tree if path.is_file() and path.parent.name == "d"]
        largest = max(files, key=lambda path: path.stat().st_size)
        largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
        with pytest.warns(CheckpointWarning, match="is damaged"):
            run(folder)
        assert (folder / "damaged" / "checkpoints_2").is_dir()
        assert (folder / "checkpoints" / "2").is_dir()  # made again


def test_a_second_process_is_turned_away(tmp_path):
    """The first goes on undisturbed; when it has died, the folder can be used again."""
    folder = tmp_path / "run"
    first = start(folder)
    try:
        assert first.stdout.readline()  # it is training
        first.send_signal(signal.SIGSTOP)  # and must not finish before the second has come
        second = start(folder)
        _, errors = second.communicate(timeout=240)
        assert second.returncode == 2
        assert errors.strip().splitlines()[-1].startswith(f"error: {folder} is in use by process")
        assert str(first.pid) in errors
    finally:
        first.kill()
        first.communicate()
    run_here(folder)
    run_here(tmp_path / "whole")
    assert_same_run(folder, tmp_path / "whole")


def test_readers_change_nothing(tmp_path, finished):
    """A reader beside a writer: the unfinished checkpoint of the writer stays."""
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / "checkpoints" / "3.orbax-checkpoint-tmp-1").mkdir()
    before = sorted(folder.rglob("*"))
    assert saved_steps(folder / "checkpoints") == [0, 1, 2]
    final_params(folder)
    assert sorted(folder.rglob("*")) == before
