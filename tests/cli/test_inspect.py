"""Looking into checkpoints of every kind, also of ones written elsewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from commands import command, one_device  # noqa: F401  (fixtures)
from flax.traverse_util import flatten_dict, unflatten_dict
from tiny import tiny_model

from ttm_jax.errors import InputError
from ttm_jax.load import load_model
from ttm_jax.report.checkpoints.diff import _place, diff, drift
from ttm_jax.report.checkpoints.printing import draw_drift, print_diff, print_scores, print_tree
from ttm_jax.report.checkpoints.tree import (
    kind_of,
    locate,
    make_leaf,
    nodes,
    open_arrays,
    read_leaves,
    stored_scores,
)
from ttm_jax.runs.checkpoints import Checkpoints
from ttm_jax.training.trainable import split_params, variables
from ttm_jax.weights import big_vision, orbax_files

STEPS = (0, 1, 2)


def moved(params, step):
    """Layer 1 of the image tower moves by `step` percent, the text head by ten times that."""
    flat = dict(flatten_dict(params, sep="/"))
    for name, value in flat.items():
        if name.startswith("img/Transformer/encoderblock/"):
            value = value.copy()
            value[1] *= 1 + 0.01 * step
        elif name == "txt/head/kernel":
            value = value * np.float32(1 + 0.1 * step)
        flat[name] = value
    return unflatten_dict(flat, sep="/")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What a run leaves behind, with the models as moved by hand."""
    folder = tmp_path_factory.mktemp("run")
    checkpoints = Checkpoints(folder / "checkpoints")
    params = tiny_model().params
    for step in STEPS:
        metrics = {"group_match": {"percent": 50.0 + step}}
        record = {"iteration": step, "tau": 2.0 - step, "metrics": metrics}
        checkpoints.save(step, {"params": moved(params, step)}, record)
    checkpoints.close()
    return folder


@pytest.fixture(scope="module")
def hf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf") / "model"
    tiny_model().save(folder)
    return folder


@pytest.fixture(scope="module")
def npz(tmp_path_factory):
    path = tmp_path_factory.mktemp("npz") / "model.npz"
    model = tiny_model()
    big_vision.save(path, model.config, model.params)
    return path


def expected(params):
    return {name: np.asarray(x) for name, x in flatten_dict(params, sep="/").items()}


class TestTree:
    def test_orbax(self, run):
        leaves = {leaf.name: leaf for leaf in read_leaves(run, step=0)}
        arrays = expected(tiny_model().params)
        assert leaves.keys() == {f"params/{name}" for name in arrays}
        for name, array in arrays.items():
            leaf = leaves[f"params/{name}"]
            assert (leaf.shape, leaf.dtype, leaf.bytes) == (array.shape, "float32", array.nbytes)
            assert leaf.norm == pytest.approx(np.linalg.norm(array.astype(np.float64)), rel=1e-9)

    def test_a_step_a_tree_and_the_last_by_default(self, run):
        last = read_leaves(run)
        assert read_leaves(run / "checkpoints") == last
        assert read_leaves(run / "checkpoints" / "2") == last
        assert read_leaves(run / "checkpoints" / "2" / "state") == last
        assert read_leaves(run, step=1) != last

    def test_every_kind_has_the_same_parameters(self, run, hf, npz):
        assert [kind_of(path) for path in (run, hf, npz)] == ["orbax", "huggingface", "npz"]
        totals = []
        for path in (run, hf, npz):
            leaves = [leaf for leaf in read_leaves(path) if leaf.name != "image_size"]
            totals.append(sum(leaf.count for leaf in leaves))
        assert len(set(totals)) == 1

    def test_depth(self, run):
        leaves = read_leaves(run, step=0)
        assert [node.name for node in nodes(leaves, 1)] == ["params"]
        two = {node.name: node for node in nodes(leaves, 2)}
        assert set(two) == {"params", "img", "txt", "t", "b"}
        assert two["img"].leaf is None
        assert two["t"].leaf is not None
        assert sum(two[name].count for name in ("img", "txt", "t", "b")) == two["params"].count
        whole = np.sqrt(sum(leaf.norm**2 for leaf in leaves))
        assert two["params"].norm == pytest.approx(whole)
        everything = nodes(leaves, 0)
        assert [node.leaf.name for node in everything if node.leaf] == [x.name for x in leaves]

    def test_not_finite_numbers_are_counted_not_summed(self):
        leaf = make_leaf("x", np.array([3.0, np.nan, 4.0, np.inf], np.float32))
        assert (leaf.norm, leaf.not_finite) == (5.0, 2)

    def test_bfloat16(self):
        leaf = make_leaf("x", np.asarray(jnp.full((4,), 2, jnp.bfloat16)))
        assert (leaf.norm, leaf.dtype, leaf.bytes) == (4.0, "bfloat16", 8)

    def test_any_orbax_checkpoint(self, tmp_path):
        """Tuples, lists and scalars, saved by orbax's own checkpointer, as other projects do."""
        tree = {"a": [np.arange(3.0), (np.ones((2, 2)), np.float32(7))], "step": 5}
        with ocp.StandardCheckpointer() as saver:
            saver.save(tmp_path / "ckpt", tree)
        with open_arrays(tmp_path / "ckpt") as tensors:
            assert set(tensors.shapes) == {"a/0", "a/1/0", "a/1/1", "step"}
            np.testing.assert_array_equal(tensors.read("a/0"), np.arange(3.0))
            np.testing.assert_array_equal(tensors.read("a/1/0"), np.ones((2, 2)))
            assert tensors.read("a/1/1") == 7
            assert tensors.read("step") == 5

    def test_more_than_fits_at_once(self, run, monkeypatch):
        whole = read_leaves(run)
        monkeypatch.setattr(orbax_files, "_PORTION", 10_000)
        assert read_leaves(run) == whole
        with open_arrays(run) as tensors:  # in any order, and again
            first, last = min(tensors.shapes), max(tensors.shapes)
            for name in (last, first, last, first):
                assert make_leaf(name, tensors.read(name)) in whole

    def test_several_trees_of_a_step(self, tmp_path):
        manager = ocp.CheckpointManager(
            tmp_path, item_names=("params", "ema"),
            options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False),
        )  # fmt: skip
        save = ocp.args.StandardSave
        manager.save(7, args=ocp.args.Composite(params=save({"w": np.ones(2)}),
                                                ema=save({"w": np.zeros(2)})))  # fmt: skip
        manager.close()
        assert [leaf.name for leaf in read_leaves(tmp_path)] == ["ema/w", "params/w"]

    def test_mistakes(self, run, hf, tmp_path):
        with pytest.raises(InputError, match=r"no checkpoint 9; available: 0, 1, 2"):
            read_leaves(run, step=9)
        with pytest.raises(InputError, match="has no steps"):
            read_leaves(hf, step=1)
        with pytest.raises(InputError, match="no checkpoint that is known here"):
            kind_of(tmp_path)
        with pytest.raises(InputError, match="does not exist"):
            kind_of(tmp_path / "nothing")
        with pytest.raises(InputError, match="has no steps with scores"):
            stored_scores(hf)

    # Orbax leaves coroutines behind when it cannot read a file.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
    def test_damage_is_one_line(self, tmp_path):
        with ocp.StandardCheckpointer() as saver:
            saver.save(tmp_path / "ckpt", {"w": np.arange(100.0)})
        for path in (tmp_path / "ckpt").rglob("d/*"):
            path.write_bytes(b"")
        with pytest.raises(InputError, match="cannot be read as an orbax checkpoint"):
            read_leaves(tmp_path / "ckpt")


class TestDiff:
    def test_relative_change_largest_first(self, run):
        found = diff(run / "checkpoints" / "0", run / "checkpoints" / "2")
        assert found[0].name == "txt/head/kernel"
        assert found[0].relative == pytest.approx(0.2, rel=1e-5)
        changed = [c for c in found if c.moved]
        assert {c.layer for c in changed[1:]} == {1}
        assert all("encoderblock[1]" in c.name and c.tower == "image" for c in changed[1:])
        assert all(c.relative == pytest.approx(0.02, rel=1e-4) for c in changed[1:])
        assert [c.relative for c in found] == sorted((c.relative for c in found), reverse=True)

    def test_drift_by_depth(self, run):
        found = drift(diff(run / "checkpoints" / "0", run))
        by_layer = {(d.tower, d.layer): d.relative for d in found}
        assert by_layer["image", 1] == pytest.approx(0.02, rel=1e-4)
        assert by_layer["image", 0] == by_layer["text", 0] == by_layer["text", 1] == 0
        assert 0 < by_layer["text", None] < 0.2  # the head among the embeddings
        assert by_layer["rest", None] == 0  # scale and bias of the logits
        assert [d.layer for d in found if d.tower == "image"] == [0, 1, None]

    def test_across_formats(self, run, hf, npz):
        for path in (hf, npz):
            found = diff(path, run)
            assert found[0].name == "txt/head/kernel"
            assert found[0].relative == pytest.approx(0.2, rel=1e-5)
        assert all(change.moved == 0 for change in diff(hf, npz))

    def test_hugging_face_layers_are_found_by_name(self, hf, tmp_path):
        other = replace(tiny_model(), params=moved(tiny_model().params, 1))
        other.save(tmp_path / "b")
        found = {(d.tower, d.layer): d.relative for d in drift(diff(hf, tmp_path / "b"))}
        assert found["image", 1] == pytest.approx(0.01, rel=1e-4)
        assert found["image", 0] == 0

    @pytest.mark.parametrize(
        ("name", "place"),
        [
            ("img/Transformer/encoderblock_3/MlpBlock_0/Dense_0/kernel", ("image", 3)),
            ("vision_model/encoder/layers/11/mlp/fc1/weight", ("image", 11)),
            ("model/text_model/layers/2/self_attn/q_proj/weight", ("text", 2)),
            ("text_model/embeddings/token_embedding/weight", ("text", None)),
            ("decoder/layers_7/attention/kernel", ("decoder", 7)),
            ("logit_scale", ("rest", None)),
        ],
    )
    def test_where_a_parameter_belongs(self, name, place):
        assert _place(name) == place

    def test_stacked_layers_of_a_decoder(self, tmp_path):
        with ocp.StandardCheckpointer() as saver:
            for folder, factor in (("a", 1), ("b", 2)):
                layers = np.array([[3.0, 4.0], [6.0, 8.0]]) * np.array([[1], [factor]])
                saver.save(tmp_path / folder, {"txt": {"decoderblock": {"w": layers}}})
        found = diff(tmp_path / "a", tmp_path / "b")
        assert [(c.name, c.layer, c.before, c.moved) for c in found] == [
            ("txt/decoderblock[1]/w", 1, 10.0, 10.0), ("txt/decoderblock[0]/w", 0, 5.0, 0.0),
        ]  # fmt: skip

    def test_adapters_are_merged(self, hf, tmp_path):
        split = split_params(tiny_model().params, "lora", 2, jax.random.key(0))
        trained = {
            name: np.full(x.shape, 0.1, np.float32) if name.endswith("/b") else np.asarray(x)
            for name, x in split.trained.items()
        }
        checkpoints = Checkpoints(tmp_path / "checkpoints")
        checkpoints.save(1, variables(trained, split.frozen), {})
        checkpoints.close()
        found = diff(hf, tmp_path)
        assert found[0].relative > 0.01
        assert not [c for c in found if "lora" in c.name]

    def test_optimizer_state_is_left_out(self, tmp_path):
        with ocp.StandardCheckpointer() as saver:
            for name, value in (("a", 1.0), ("b", 2.0)):
                tree = {"params": {"w": np.ones(2)}, "optimizer": {"mu": np.full(2, value)}}
                saver.save(tmp_path / name, tree)
        assert [c.name for c in diff(tmp_path / "a", tmp_path / "b")] == ["w"]

    def test_other_models_are_refused_with_both_lists(self, hf, tmp_path):
        tiny_model("clip").save(tmp_path / "clip")
        with pytest.raises(InputError, match=r"only the first has .*; only the second has "):
            diff(hf, tmp_path / "clip")


def test_scores_of_every_step(run, capsys):
    rows = stored_scores(run)
    assert [(row["step"], row["tau"]) for row in rows] == [(0, 2.0), (1, 1.0), (2, 0.0)]
    assert [row["metrics"]["group_match"]["percent"] for row in rows] == [50.0, 51.0, 52.0]
    print_scores(rows)
    assert "GroupMatch" in capsys.readouterr().out


def test_on_the_screen(run, capsys, tmp_path):
    print_tree(run, "orbax", read_leaves(run), 3)
    shown = capsys.readouterr().out
    assert "52,482 parameters" in shown
    assert "arrays)" in shown  # what is deeper is counted
    changes = diff(run / "checkpoints" / "0", run)
    print_diff(changes, drift(changes), 3)
    shown = capsys.readouterr().out
    assert "drift by depth: image" in shown
    assert "█" * 40 in shown  # the largest
    draw_drift(drift(changes), tmp_path / "drift.svg")
    assert "<svg" in (tmp_path / "drift.svg").read_text()[:2000]


WRITER = """
import jax, numpy as np, sys
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
value = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
tree = {"params": {"w": jax.device_put(value, NamedSharding(mesh, P("data", "model"))),
                   "b": jax.device_put(value[0], NamedSharding(mesh, P()))}}
with ocp.StandardCheckpointer() as saver:
    saver.save(sys.argv[1], tree)
"""


def test_sharded_over_devices_that_are_not_here(tmp_path):
    """Written on a 4 x 2 mesh; read by the command in a process that has one CPU device."""
    plain = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"} | {"JAX_PLATFORMS": "cpu"}
    eight = plain | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    path = tmp_path / "pod"
    subprocess.run([sys.executable, "-c", WRITER, str(path)], env=eight, check=True)
    assert list(path.rglob("_sharding"))
    done = subprocess.run(
        [sys.executable, "-m", "ttm_jax.cli.main", "inspect", str(path), "--json"],
        env=plain, check=True, capture_output=True, text=True,
    )  # fmt: skip
    content = json.loads(done.stdout)
    value = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    found = {leaf["name"]: leaf for leaf in content["leaves"]}
    assert found["params/w"]["shape"] == [64, 16]
    assert found["params/w"]["norm"] == pytest.approx(np.linalg.norm(value.astype(np.float64)))
    assert found["params/b"]["norm"] == pytest.approx(np.linalg.norm(value[0].astype(np.float64)))


def test_only_two_files_import_orbax():
    package = Path(orbax_files.__file__).parents[1]
    users = {p.name for p in package.rglob("*.py") if re.search(r"import orbax\b", p.read_text())}
    assert users == {"checkpoints.py", "orbax_files.py"}


class TestWhatAdaptWrites:
    """Its folder is accepted as a run and as a model, by a relative path too."""

    @pytest.fixture
    def written(self, run, hf, tmp_path, monkeypatch):
        folder = tmp_path / "runs" / "mine"
        folder.mkdir(parents=True)
        shutil.copytree(run, folder / "run")
        (folder / "run" / "config.json").write_text("{}")
        shutil.copytree(hf, folder / "model")
        monkeypatch.chdir(tmp_path)
        return Path("runs/mine")

    def test_inspect_takes_the_run_inside(self, written, command):  # noqa: F811
        assert locate(str(written)) == written / "run"
        done = command("inspect", written, "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["path"] == "runs/mine/run"
        rows = json.loads(command("inspect", written, "--scores", "--json").out)
        assert [row["step"] for row in rows] == list(STEPS)

    def test_load_model_takes_the_model_beside_it(self, written):
        assert load_model(written).source == "runs/mine/model"

    def test_of_several_seeds_one_is_named(self, written):
        for seed in (0, 1):
            shutil.copytree(written / "run", written / "several" / f"seed_{seed}")
        with pytest.raises(InputError, match=r"several runs; give one: .*seed_0, .*seed_1"):
            locate(str(written / "several"))

    def test_a_small_model_by_name(self, command):  # noqa: F811
        done = command("inspect", "small-siglip", "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["parameters"] == 634_082
