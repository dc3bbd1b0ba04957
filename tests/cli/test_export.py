"""From a real run to the formats of others, and what the run folder kept for the report."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from tiny import tiny_dataset, tiny_model

from ttm_jax.cli.export import main
from ttm_jax.config import TTMConfig
from ttm_jax.engine.seeds import run_seeds
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.errors import InputError
from ttm_jax.load import load_model
from ttm_jax.report.checkpoints.diff import diff
from ttm_jax.report.checkpoints.export import export_run
from ttm_jax.report.page.page import page
from ttm_jax.report.run_data import read_experiments
from ttm_jax.runs.pictures import find_pictures
from ttm_jax.weights import big_vision
from ttm_jax.weights.orbax_files import find_step, opened

CONFIG = TTMConfig(
    lr=1e-3, iterations=2, epochs=1, batch_groups=4, coverage=0.5, keep_checkpoints=0
)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """One seed of a tiny SigLIP that came from a folder; and the model's own copy at the end."""
    root = tmp_path_factory.mktemp("export")
    tiny_model().save(root / "model")
    model = load_model(root / "model")
    (result,) = run_seeds(model, tiny_dataset(6), CONFIG, (0,), root / "run")
    return root, result


def leaves(params):
    return {name: np.asarray(x) for name, x in flatten_dict(params, sep="/").items()}


def assert_equal(a, b):
    a, b = leaves(a), leaves(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_huggingface_is_the_adapted_model(experiment):
    root, result = experiment
    export_run(root / "run", None, "huggingface", root / "hf")  # the one seed is found
    assert_equal(load_model(root / "hf").params, result.model.params)


def test_big_vision_is_the_adapted_model(experiment):
    root, result = experiment
    path = export_run(root / "run" / "seed_0", 2, "big_vision", root / "bv")
    assert path == root / "bv" / "checkpoint.npz"
    assert_equal(big_vision.load(path).params, result.model.params)
    with pytest.raises(InputError, match="exists already"):
        export_run(root / "run" / "seed_0", 2, "big_vision", root / "bv")


def test_an_earlier_iteration(experiment):
    root, _ = experiment
    export_run(root / "run", 1, "huggingface", root / "first")
    with opened(find_step(root / "run" / "seed_0", 1)) as tensors:
        stored = {n.removeprefix("params/"): tensors.read(n) for n in sorted(tensors.shapes)}
    assert_equal(load_model(root / "first").params, stored)
    assert diff(root / "model", root / "run" / "seed_0")[0].relative > 0


def test_mistakes(experiment, tmp_path):
    root, _ = experiment
    with pytest.raises(InputError, match="no checkpoint 7; available: 0, 1, 2"):
        export_run(root / "run", 7, "huggingface", tmp_path / "x")
    with pytest.raises(InputError, match="exists already"):
        export_run(root / "run", None, "huggingface", root / "model")
    with pytest.raises(InputError, match="not a run folder"):
        export_run(tmp_path, None, "huggingface", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_clip_has_no_big_vision(tmp_path):
    tiny_model("clip").save(tmp_path / "model")
    config = replace(CONFIG, iterations=1)
    devices = jax.devices()[:1]
    run_ttm(load_model(tmp_path / "model"), tiny_dataset(6), config, tmp_path / "run",
            devices=devices)  # fmt: skip
    with pytest.raises(InputError, match="big_vision has SigLIP only"):
        export_run(tmp_path / "run", None, "big_vision", tmp_path / "bv")
    assert not (tmp_path / "bv").exists()


def test_report_of_a_real_run(experiment):
    """Arrays have thumbnails but no captions; the run is described from its folder alone."""
    root, result = experiment
    assert (root / "run" / "groups.json").exists()
    assert not (root / "run" / "seed_0" / "groups.json").exists()  # shared by the seeds
    kept = find_pictures(root / "run" / "seed_0")
    assert len(kept.groups) == 6
    (found,) = read_experiments([root / "run"])
    assert found.pictures is not None
    text = page([found], models={})
    final = result.metrics["group_match"]["percent"]
    assert f"{final:.2f}" in text
    assert "pool-0" in text


def test_every_exported_folder_has_a_card(experiment):
    root, result = experiment
    export_run(root / "run", None, "huggingface", root / "carded", name="some/model")
    text = (root / "carded" / "README.md").read_text()
    before = result.raw_metrics["group_match"]["percent"]
    after = result.metrics["group_match"]["percent"]
    assert text.startswith("---\n")
    assert f"| GroupMatch | {before:.2f} | {after:.2f} |" in text
    assert "iterations 2, epochs 1, lr 0.001" in text
    assert 'ttm_jax.load_model("some/model")' in text
    assert str(root / "model") in text  # the base
    export_run(root / "run", 1, "big_vision", root / "carded_bv")
    assert "Iteration: 1 of 2" in (root / "carded_bv" / "README.md").read_text()


def test_pushing_one_file_is_refused_before_anything_is_written(experiment, tmp_path):
    from ttm_jax.cli.export import main

    root, _ = experiment
    with pytest.raises(InputError, match="uploads a folder"):
        main([str(root / "run"), str(tmp_path / "x.npz"), "--push", "some/model"])
    assert list(tmp_path.iterdir()) == []


def test_without_a_name_the_folder_is_beside_the_run(experiment, monkeypatch, capsys):
    root, result = experiment
    main([str(root / "run")])
    assert capsys.readouterr().out == f"{root / 'run_model'}\n"
    assert_equal(load_model(root / "run_model").params, result.model.params)
    (root / "run_model").rename(root / "moved")
    monkeypatch.chdir(root / "run")
    main(["."])
    assert capsys.readouterr().out == f"{root / 'run_model'}\n"
