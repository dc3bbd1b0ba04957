"""Models in the folders of others: loaded, scored, trained for one iteration, saved, reloaded."""

import json
import shutil

import jax
import numpy as np
import pytest
from model_folders import TINY_PE, make_folder, make_layout, tiny_pe_towers
from PIL import Image

import ttm_jax
from ttm_jax.config import TTMConfig
from ttm_jax.data import world
from ttm_jax.errors import InputError
from ttm_jax.load import load_model
from ttm_jax.weights import open_clip_config

pytestmark = pytest.mark.filterwarnings("ignore::ttm_jax.inputs.tokenize.CaptionWarning")
CAPTIONS = ["a red circle above a blue star", "a blue star above a red circle", "two moons"]
FILES = {
    "open_clip": {"open_clip_config.json", "open_clip_model.safetensors"},
    "metaclip_2": {"config.json", "model.safetensors"},
    "pe_core": {"open_clip_config.json", "open_clip_model.safetensors"},
}
LAYOUT_OF = {"pe_core": "open_clip"}


@pytest.fixture(scope="module", params=list(FILES))
def folder(request, tmp_path_factory):
    tiny = {**open_clip_config.PE_CORE, TINY_PE: tiny_pe_towers()["with a class token"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_clip_config, "PE_CORE", tiny)
        yield make_layout(tmp_path_factory.mktemp(request.param), request.param)


def test_scores_and_one_iteration(folder, tmp_path):
    layout = folder.name
    assert {path.name for path in folder.iterdir()} >= FILES[layout]
    model = load_model(folder)
    assert (model.family, model.config.layout) == ("clip", LAYOUT_OF.get(layout, layout))
    dataset = world.make("color_swap", groups=6, size=32)
    images, captions = list(dataset.images), list(dataset.captions)
    before = model.score(images, captions)
    assert before.std() > 0
    config = TTMConfig(lr=1e-3, iterations=1, epochs=2, batch_groups=3, tau_1=0.0)
    devices = jax.devices()[:1]
    result = ttm_jax.run_ttm(model, dataset, config, tmp_path / "run", devices=devices)
    expected = result.model.score(images, captions)
    assert np.abs(expected - before).max() > 1e-3
    result.model.save(tmp_path / "saved")
    assert {path.name for path in (tmp_path / "saved").iterdir()} >= FILES[layout]
    for source in (tmp_path / "run", tmp_path / "saved"):
        again = load_model(source)
        assert again.config == model.config
        np.testing.assert_array_equal(again.score(images, captions), expected)


def test_a_caption_scores_the_same_beside_longer_ones(folder):
    """Captions are cut to the longest; the padding is never looked at."""
    model = load_model(folder)
    images = world.make("color_swap", groups=1).images
    long = model.score(images, [*CAPTIONS, "a very large red circle to the left of a blue star"])
    short = model.score(images, ["two moons"])
    np.testing.assert_allclose(long[:, 2:3], short, rtol=0, atol=1e-5)


def test_metaclip_2_ends_at_token_2_and_not_at_the_largest_id(tmp_path):
    folder = make_layout(tmp_path, "metaclip_2")
    model = load_model(folder)
    ids = model.read_captions(CAPTIONS)
    assert (ids[:, 0] == 0).all()
    assert (model.tokenizer.eos_id, model.tokenizer.pad_id, model.config.eos_token_id) == (2, 1, 2)
    images = world.make("color_swap", groups=1).images
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["MetaClip2Model"]
    # The same weights as CLIP's old files would have them: pooled elsewhere.
    legacy = tmp_path / "legacy"
    shutil.copytree(folder, legacy)
    (legacy / "config.json").write_text(json.dumps({**config, "model_type": "clip"}))
    other = load_model(legacy)
    assert other.config.eos_token_id is None
    assert np.abs(other.score(images, CAPTIONS) - model.score(images, CAPTIONS)).max() > 0.01


def test_pe_core_is_prepared_as_its_file_says_and_a_part_of_it_is_trained(tmp_path, monkeypatch):
    tiny = {**open_clip_config.PE_CORE, TINY_PE: tiny_pe_towers()["with a class token"]}
    monkeypatch.setattr(open_clip_config, "PE_CORE", tiny)
    model = load_model(make_layout(tmp_path, "pe_core"))
    processor = model.processor
    assert (processor.kind, processor.resample) == ("squash", Image.Resampling.BILINEAR)
    assert processor.mean == (0.5, 0.5, 0.5)
    dataset = world.make("color_swap", groups=4, size=32)
    config = TTMConfig(lr=1e-3, iterations=1, epochs=1, batch_groups=4, tau_1=0.0, train="last:1")
    result = ttm_jax.run_ttm(model, dataset, config, devices=jax.devices()[:1])
    before, after = (m.params["img"]["Transformer"]["encoderblock"] for m in (model, result.model))
    moved = np.abs(
        np.asarray(after["MlpBlock_0"]["Dense_0"]["kernel"])
        - np.asarray(before["MlpBlock_0"]["Dense_0"]["kernel"])
    ).max(axis=(1, 2))
    assert moved[0] == 0 < moved[1]


def test_the_tokenizer_of_another_model_is_refused(tmp_path):
    folder = make_layout(tmp_path, "metaclip_2")
    with pytest.raises(InputError, match=r"captions end with token \d+, but .* looks for 2"):
        load_model(folder, files_from=tmp_path / "model")


def test_open_clip_with_the_tokenizer_of_another_folder(tmp_path):
    folder = make_layout(tmp_path, "open_clip")
    expected = load_model(folder).read_captions(CAPTIONS)
    (tmp_path / "bare").mkdir()
    for name in FILES["open_clip"]:
        shutil.copyfile(folder / name, tmp_path / "bare" / name)
    assert load_model(tmp_path / "bare").tokenizer is None
    model = load_model(tmp_path / "bare", files_from=make_folder(tmp_path / "other", "clip"))
    np.testing.assert_array_equal(model.read_captions(CAPTIONS), expected)
    assert model.processor.kind == "shorter_side+rounded_crop"


def test_smolvlm2_is_smolvlm_under_another_name(tmp_path):
    """Loaded, scored, trained for an iteration; it is saved as what it was."""
    from tiny_vlm import vlm_dataset, write_tiny_vlm

    first = write_tiny_vlm(tmp_path / "first")
    second = shutil.copytree(first, tmp_path / "second")
    text = (second / "config.json").read_text().replace("idefics3", "smolvlm")
    (second / "config.json").write_text(text.replace("Idefics3ForC", "SmolVLMForC"))
    model, dataset = load_model(second), vlm_dataset(4)
    assert model.config.model_type == "smolvlm"
    images, captions = list(dataset.images[:2]), list(dataset.captions[:2])
    before = model.score(images, captions)
    np.testing.assert_array_equal(before, load_model(first).score(images, captions))
    config = TTMConfig(
        tau_unit="probability", lr=2e-3, iterations=1, epochs=1, batch_groups=4, tau_1=0.0
    )
    adapted = ttm_jax.run_ttm(model, dataset, config, devices=jax.devices()[:1]).model
    adapted.save(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text()) == json.loads(
        (second / "config.json").read_text()
    )
    after = load_model(tmp_path / "saved").score(images, captions)
    np.testing.assert_array_equal(after, adapted.score(images, captions))
    assert np.abs(after - before).max() > 0


def test_captions_as_in_open_clip(tmp_path):
    """An option for checkpoints of transformers: without punctuation, or with straight quotes."""
    siglip, clip = (make_folder(tmp_path / name, name) for name in ("siglip", "clip"))
    model = load_model(siglip, canonicalise="open_clip")
    found, expected = model.read_captions(["A_red, \u201cstar\u201d &amp;", "a red star"])
    np.testing.assert_array_equal(found, expected)
    model = load_model(clip, canonicalise="open_clip")
    found, expected = model.read_captions(["It\u2019s  RED", "it's red"])
    np.testing.assert_array_equal(found, expected)
    as_it_is = load_model(clip).read_captions(["It\u2019s  RED"])[0]
    assert (as_it_is != expected).any()
