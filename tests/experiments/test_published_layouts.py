"""Experiments on benchmarks in their published layouts: fetched, compared, or refused."""

from dataclasses import replace

import benchmark_layouts as layouts
import published
import pytest
from commands import command, models, one_device  # noqa: F401  (fixtures)

from configs.experiments import MMVP_SIGLIP
from experiments import _load
from experiments._flags import Flags
from experiments._paper import run_experiment
from ttm_jax.data import world
from ttm_jax.data.paper.models import MODELS
from ttm_jax.files import read_json

server = published.server  # a fixture
# The tokenizers of the tiny models know the words of the world only.
pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")


def write_mmvp(root):
    """The published layout, with captions that the tiny model can tell apart."""
    folder = layouts.write_mmvp(root)
    captions = world.training_captions(0, 270)
    lines = (folder / "Questions.csv").read_text().splitlines()
    rows = [line.split(",")[:2] for line in lines[1:]]
    text = "".join(f'{n},{kind},"{said}"\n' for (n, kind), said in zip(rows, captions, strict=True))
    (folder / "Questions.csv").write_text(f"{lines[0]}\n{text}")
    return folder


@pytest.fixture
def tiny_as_siglip(models, monkeypatch):  # noqa: F811
    """The preset's own model, but a tiny one: the only way to a comparison without the hub."""
    monkeypatch.setitem(MODELS, "siglip_b16", str(models["siglip"]))
    monkeypatch.setitem(MODELS, "clip_b32", str(models["clip"]))


def test_a_whole_benchmark_stands_beside_the_paper(one_device, tiny_as_siglip, tmp_path, capsys):  # noqa: F811
    """All 135 groups and the row of three iterations, with shorter ones than the paper's."""
    (arm,) = MMVP_SIGLIP.arms
    quick = replace(arm.preset.ttm, epochs=1, iterations=3, augment=False)
    arm = replace(arm, preset=replace(arm.preset, ttm=quick))
    flags = Flags(
        (0, 1), data_dir=write_mmvp(tmp_path).parent, run_dir=tmp_path / "run", quiet=True
    )
    run_experiment(replace(MMVP_SIGLIP, arms=(arm,)), flags)
    shown = capsys.readouterr().out
    summary = read_json(tmp_path / "run" / "summary.json")
    raw, simple, ttm = summary["comparison"]["numbers"]
    assert (raw["paper"]["count"], raw["paper"]["of"]) == (31, 135)
    assert (simple["paper"]["count"], simple["paper"]["of"]) == (110, 135)
    assert (ttm["paper"]["percent"], ttm["paper"]["std"]) == (85.19, 0.91)
    for number, theirs in ((raw, 31), (simple, 110)):
        assert number["text"].startswith(f"off by {number['here']['count'] - theirs:+d} (")
    assert 30 < simple["here"]["count"] < 105  # random weights: about half of 135
    values = summary["final"]["group_match"]["values"]
    assert ttm["difference"] == pytest.approx(sum(values) / 2 - 85.19)
    assert "standard deviations)" in ttm["text"]
    assert "85.19 ± 0.91" in shown
    assert "not compared" not in shown
    assert summary["data"] == {
        "benchmark": "mmvp_vlm", "groups": 135, "groups_listed": 135, "groups_expected": 135,
        "labels": "published", "skipped": [], "exif": "ignored",
    }  # fmt: skip


def test_fetches_what_it_needs(command, server, models, tmp_path, monkeypatch):  # noqa: F811
    published.publish_on_hub(server, write_mmvp(tmp_path / "origin"), "mmvp_vlm")
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    data = tmp_path / "data"
    done = command(
        "mmvp_siglip", "--data-dir", data, "--run-dir", tmp_path / "run", "--seeds", 0, "--quiet",
        "--limit", 6, "--iterations", 1, "--model", models["siglip"],
    )  # fmt: skip
    assert done.code == 0, done.err
    assert f"mmvp_vlm: fetching what is missing into {data}" in done.err
    assert (data / "mmvp_vlm" / "manifest.json").exists()
    summary = read_json(tmp_path / "run" / "summary.json")
    assert summary["data"]["groups"] == summary["data"]["limit"] == 6
    assert "not the paper's model" in done.out


def test_not_there_and_not_to_be_fetched(command, tmp_path):  # noqa: F811
    done = command(
        "winoground_siglip", "--no-fetch", "--data-dir", tmp_path, "--run-dir", tmp_path / "run"
    )
    assert done.code == 2
    assert f"winoground is not in {tmp_path}; `ttm data winoground` fetches it" in done.err
    progress, error = done.err.splitlines()
    assert progress == "winoground_siglip winoground: loading data and model"
    assert error.startswith("error: ")
    assert not (tmp_path / "run").exists()


class TestData:
    def test_the_whole_benchmark_is_comparable(self, tmp_path):
        layouts.write_mmvp(tmp_path)
        arm = MMVP_SIGLIP.arms[0]
        assert _load.load_data(arm, Flags(data_dir=tmp_path)).comparable
        some = _load.load_data(arm, Flags(data_dir=tmp_path, limit=10))
        assert (len(some.dataset), some.comparable) == (10, False)

    def test_skipped_groups_are_listed(self, tmp_path):
        folder = layouts.write_mmvp(tmp_path)
        (folder / "MLLM_VLM Images" / "Orientation" / "3.jpg").write_bytes(b"torn")
        data = _load.load_data(MMVP_SIGLIP.arms[0], Flags(data_dir=tmp_path, skip_broken=True))
        assert (data.facts["groups"], data.facts["groups_listed"]) == (134, 135)
        (skipped,) = data.facts["skipped"]
        assert skipped["group"] == "3-4"
        assert skipped["image"].endswith("3.jpg")
        assert not data.comparable


@pytest.mark.parametrize("correction", [True, False])
def test_whatsup_says_which_labels(command, tiny_as_siglip, tmp_path, correction):  # noqa: F811
    """On request the release is taken as it is: another folder, said so, and not compared."""
    layouts.write_whatsup(tmp_path / "data", "a")
    flags = [] if correction else ["--no-correction"]
    done = command(
        "whatsup_clip", "--variant", "a_left_right", "--no-fetch", "--data-dir", tmp_path / "data",
        "--run-dir", tmp_path / "run", "--seeds", 0, "--iterations", 1, "--quiet", *flags,
    )  # fmt: skip
    assert done.code == 0, done.err
    name = "a_left_right" if correction else "a_left_right_as_released"
    summary = read_json(tmp_path / "run" / name / "summary.json")
    assert summary["data"]["labels"] == ("corrected" if correction else "published")
    raw, simple, ttm = summary["comparison"]["numbers"]
    if correction:
        assert (raw["paper"]["count"], simple["paper"]["count"]) == (0, 42)
    else:
        assert raw["paper"] is simple["paper"] is None
        assert "not the paper's data" in done.out
    assert ttm["paper"] is None  # one iteration is not in the paper
