"""The demo in a reduced size: the shipped model, real training, and numbers that must hold."""

import jax
import numpy as np
import pytest
from commands import command, one_device  # noqa: F401  (fixtures)

from ttm_jax.files import read_json, read_lines
from ttm_jax.load import SMALL, load_model

GROUPS = 24
SIZE = ("--groups", GROUPS, "--iterations", 2, "--epochs", 2, "--seeds", 0, 1, "--quiet")


def test_the_demo_from_end_to_end(command, tmp_path):  # noqa: F811
    done = command("demo", *SIZE, "--run-dir", tmp_path / "demo")
    assert done.code == 0, done.err
    for word in ("SimpleMatch", "color_swap", "color_choice", "curves.png", "summary.json"):
        assert word in done.out
    assert f"{tmp_path / 'demo' / 'report.html'}" in done.out
    page = (tmp_path / "demo/report.html").read_text(encoding="utf-8")
    for group in ("color_swap-test-0-0000", f"color_choice-test-0-{GROUPS - 1:04}"):
        assert group in page
    assert f"ttm inspect {tmp_path / 'demo/color_swap/seed_0'}" in done.out
    assert (tmp_path / "demo/curves.png").stat().st_size > 10_000
    square, choice = read_json(tmp_path / "demo/summary.json")["rows"]
    assert (square["shape"], choice["shape"]) == ("2x2", "1x4")
    check_row(square)
    check_row(choice)
    assert square["raw"] <= square["simple_match"]  # a right GroupScore is a right matching
    assert choice["raw"] == choice["simple_match"]  # of one picture they are the same
    runs = sorted((tmp_path / "demo").glob("*/seed_*"))
    assert len(runs) == 4
    for run in runs:
        check_run(run)


def check_row(row):
    assert row["model"] == "small-siglip"
    assert row["seeds"] == [0, 1]
    assert row["ttm_mean"] == pytest.approx(sum(row["ttm_values"]) / 2)
    assert row["ttm_std"] >= 0
    for value in (row["raw"], row["simple_match"], *row["ttm_values"]):
        groups = value * GROUPS / 100
        assert groups == pytest.approx(round(groups))


def check_run(run):
    rows = list(read_lines(run / "metrics.jsonl"))
    assert [row["iteration"] for row in rows] == [0, 1, 2]
    assert rows[1]["tau"] > rows[2]["tau"]
    assert 0 < rows[1]["selected"] < GROUPS
    assert (run / "checkpoints").is_dir()


@pytest.mark.parametrize("name", SMALL)
def test_shipped_models_know_the_training_world(name):
    """Pale pictures as in training: far above chance in shapes and colours."""
    from ttm_jax.data import world
    from ttm_jax.engine.evaluation import evaluate
    from ttm_jax.engine.raw_scores import raw_scores

    model = load_model(name)
    for variant in ("replace_color", "replace_shape"):
        data = world.make(variant, 60, seed=77, split="train")
        found = evaluate(raw_scores(model, data), data, "group")["group_match"]
        assert found["percent"] > 80, (variant, found)


def test_shipped_models_are_small():
    sizes = [f.stat().st_size for folder in SMALL.values() for f in folder.rglob("*")]
    assert 1e6 < sum(sizes) < 15e6


@pytest.mark.parametrize("name", SMALL)
def test_transformers_reads_the_shipped_folders_with_equal_logits(name):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from ttm_jax.data import world

    data = world.make("color_swap", 3, seed=5)
    folder = SMALL[name]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    family = "Siglip" if "siglip" in name else "CLIP"  # the PIL ones: the others need torchvision
    images = getattr(transformers, f"{family}ImageProcessorPil").from_pretrained(folder)
    oracle = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        theirs = oracle(
            pixel_values=images(list(data.images), return_tensors="pt")["pixel_values"],
            input_ids=tokenizer(
                list(data.captions), padding="max_length", truncation=True, return_tensors="pt"
            )["input_ids"],
        ).logits_per_image.numpy()
    ours = load_model(name).score(list(data.images), list(data.captions))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_ablations_in_the_small(command, tmp_path):  # noqa: F811
    size = ("--groups", 12, "--iterations", 2, "--seeds", 0, "--variants", "color_swap", "--quiet")
    done = command("small_ablations", *size, "--run-dir", tmp_path)
    assert done.code == 0, done.err
    (row,) = read_json(tmp_path / "ablations.json")["rows"]
    assert set(row["ways"]) == {"linear", "cosine", "constant", "ascending", "oracle"}
    # With two iterations a cosine is the same line; everything else differs from run to run only.
    assert row["ways"]["cosine"] == row["ways"]["linear"]
    assert row["agreement"] == 100.0
    assert row["overfitted"] == row["before"]  # GroupScore has become what GroupMatch was
    assert (tmp_path / "ablations.md").read_text(encoding="utf-8") in done.out


def test_parts_of_a_small_model(command, tmp_path):  # noqa: F811
    size = ("--groups", 8, "--iterations", 1, "--seeds", 0, "--variants", "color_swap", "--quiet")
    parts = ("--parts", "heads", "text:last:1")
    done = command("small_parts", *size, *parts, "--run-dir", tmp_path)
    assert done.code == 0, done.err
    (row,) = read_json(tmp_path / "parts.json")["rows"]
    assert list(row["after"]) == ["heads", "text:last:1"]
    assert (tmp_path / "parts.md").read_text(encoding="utf-8") in done.out
    assert done.out.splitlines()[0] == "| variant | model | before | heads | text:last:1 |"
    refused = command("small_parts", *size, "--parts", "last:99", "--run-dir", tmp_path / "no")
    assert refused.code == 2
    assert "expected last:1 to last:" in refused.err


@pytest.mark.slow
def test_precisions_of_a_small_model(command, tmp_path):  # noqa: F811
    size = ("--groups", 8, "--iterations", 1, "--variants", "color_swap", "--quiet")
    with jax.numpy_dtype_promotion("standard"):  # flax's norms add up in float32
        done = command("small_precision", *size, "--models", "small-clip", "--run-dir", tmp_path)
    assert done.code == 0, done.err
    (row,) = read_json(tmp_path / "precision.json")["rows"]
    assert list(row["after"]) == ["float32", "bfloat16 training", "bfloat16"]
    first = [
        read_json(tmp_path / "color_swap_small-clip" / way / "seed_0" / "config.json")["config"]
        for way in ("float32", "bfloat16_training", "bfloat16")
    ]
    assert [(c["dtype"], c["train_dtype"]) for c in first] == [
        ("float32", None),
        ("float32", "bfloat16"),
        ("bfloat16", None),
    ]
