"""PE-Core in OpenCLIP's folders: parity with OpenCLIP and timm, other image sizes, refusals.

Both are compared directly where they are installed, and through tests/golden/pe_core everywhere.
"""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from model_folders import PE_GOLDEN as GOLDEN
from model_folders import TINY_PE, tiny_pe_towers
from open_clip_parity import assert_golden, close, full_size, round_trip
from parity import model_of, quick_jit, run

from ttm_jax.errors import InputError
from ttm_jax.models.pe_core import PECoreConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.weights import model_folders, open_clip_config
from ttm_jax.weights.checkpoint_files import expected_shapes
from ttm_jax.weights.parameter_names import rules
from ttm_jax.weights.positions import at_image_size
from ttm_jax.weights.tensor_layout import expand

BASE = {
    "embed_dim": 1024,
    "vision_cfg": {
        "image_size": 224,
        "timm_model_name": "vit_pe_core_base_patch16_224",
        "timm_model_pretrained": False,
        "timm_pool": "map",
        "timm_proj": None,
    },
    "text_cfg": {"context_length": 32, "width": 1024, "heads": 16, "layers": 24},
    "custom_text": True,
}


@pytest.fixture(autouse=True)
def towers(monkeypatch):
    """The published towers, and one that is tiny."""
    tiny = {**open_clip_config.PE_CORE, TINY_PE: tiny_pe_towers()["with a class token"]}
    monkeypatch.setattr(open_clip_config, "PE_CORE", tiny)
    return tiny


def read(model: dict):
    return open_clip_config.read_config(model, Compute(), "open_clip_config.json")


# ---- without OpenCLIP ----------------------------------------------------------------------------


def test_golden_logits_and_gradients():
    checkpoint = assert_golden(GOLDEN)
    assert isinstance(checkpoint.config, PECoreConfig)
    assert (checkpoint.family, checkpoint.config.layout) == ("clip", "open_clip")


def test_sizes_of_a_published_model():
    base = read(BASE)
    assert (base.image_size, base.patch_size, base.class_token) == (224, 16, True)
    assert (base.vision.width, base.vision.depth, base.vision.mlp_dim) == (768, 12, 3072)
    assert (base.pool.heads, base.pool.mlp_dim, base.embed_dim) == (8, 3072, 1024)
    assert (base.text.width, base.text_length, base.text.causal) == (1024, 32, True)
    assert {base.vision.activation, base.text.activation} == {"gelu"}
    written = open_clip_config.write_config(base)
    assert written["vision_cfg"] == BASE["vision_cfg"]
    assert read(written) == base
    gigantic = {**BASE["vision_cfg"], "timm_model_name": "vit_pe_core_gigantic_patch14_448"}
    found = read({**BASE, "vision_cfg": {**gigantic, "image_size": 448}})
    assert (found.class_token, found.grid.offset, found.vision.mlp_dim) == (False, 0.0, 8960)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("vision_cfg", {"timm_model_name": "vit_pe_lang_large_patch14_448"}, "timm_model_name is"),
        ("vision_cfg", {"image_size": 336}, "image_size is 336.* takes images of 224"),
        ("vision_cfg", {"timm_pool": "avg"}, "timm_pool is 'avg'.*expected 'map'"),
        ("vision_cfg", {"timm_proj": "linear"}, "timm_proj is 'linear'"),
        ("vision_cfg", {"new_thing": 3}, "new_thing is 3"),
        ("text_cfg", {"no_causal_mask": True}, "no_causal_mask is True"),
        ("", {"custom_text": False}, "custom_text is False"),
    ],
)
def test_other_settings_are_refused_by_name(section, change, message):
    model = {**BASE, section: {**BASE[section], **change}} if section else {**BASE, **change}
    with pytest.raises(InputError, match=rf"^open_clip_config\.json: .*{message}") as caught:
        read(model)
    assert "\n" not in str(caught.value)


def test_a_tower_that_is_cut_in_two_is_the_whole_tower():
    checkpoint = model_folders.load(GOLDEN)
    model, variables = model_of(checkpoint), {"params": checkpoint.params}
    with np.load(GOLDEN / "expected.npz", allow_pickle=False) as file:
        pixels = file["in/pixels"]
        expected = file["out/image"]

    @quick_jit
    def halves(variables, pixels):
        hidden = model.apply(variables, pixels, "head", method="image_until")
        return model.apply(variables, hidden, "head", method="image_from")

    close(halves(variables, pixels), expected)


def test_another_image_size_cannot_be_saved_as_open_clip(tmp_path):
    checkpoint = at_image_size(model_folders.load(GOLDEN), 48)
    assert checkpoint.params["img"]["pos_embedding"].shape[1] == 36 + 1
    with pytest.raises(InputError, match="takes images of 32, this model takes images of 48"):
        model_folders.save(tmp_path / "out", checkpoint.config, checkpoint.params, GOLDEN)
    assert not (tmp_path / "out").exists()


# ---- with OpenCLIP and timm ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs():
    pytest.importorskip("torch")
    try:
        import tiny_open_clip
    except ImportError as error:
        pytest.skip(f"open_clip_torch is not installed (see tiny_open_clip.py): {error}")
    if find_spec("timm") is None:
        pytest.skip("timm is not installed")
    return tiny_open_clip


@pytest.mark.parametrize("kind", list(tiny_pe_towers()))
@pytest.mark.filterwarnings("ignore:Overwriting")
def test_logits_gradients_and_saving(theirs, kind, towers, tmp_path):
    towers[TINY_PE] = tiny_pe_towers()[kind]
    published = "tiny_patch16_384" if towers[TINY_PE].class_token else "gigantic_patch14_448"
    theirs.register_tiny_pe(f"vit_pe_core_{published}")
    config = theirs.pe_core_cfg()
    round_trip(theirs, theirs.make(config, seed=0), config, tmp_path)


@pytest.mark.filterwarnings("ignore:Overwriting")
def test_positions_turn_as_in_timm_at_another_image_size(theirs, tmp_path):
    """The patches of a larger image lie closer together, within the published grid."""
    theirs.register_tiny_pe("vit_pe_core_tiny_patch16_384")
    config = theirs.pe_core_cfg()
    model = theirs.make(config, seed=0)
    theirs.save(model, config, tmp_path / "theirs")
    ours = at_image_size(model_folders.load(tmp_path / "theirs"), 48)
    theirs.register_tiny_pe("vit_pe_core_tiny_patch16_384", image_size=48)
    large = {**config, "vision_cfg": {**config["vision_cfg"], "image_size": 48}}
    other = theirs.make(large, seed=0)
    state = model.state_dict()
    state["visual.trunk.pos_embed"] = theirs.torch.from_numpy(ours.params["img"]["pos_embedding"])
    other.load_state_dict(state)
    pixels, ids = theirs.inputs(large, images=2, texts=2, seed=1)
    close(run(ours, pixels, ids)["logits"], theirs.forward(other, pixels, ids)["logits"])


@pytest.mark.parametrize("name", ["T-16-384", "S-16-384", "B-16", "L-14-336", "bigG-14-448"])
def test_every_published_model_has_our_tensors(theirs, name):
    config = theirs.open_clip.get_model_config(f"PE-Core-{name}")
    with theirs.torch.device("meta"):
        state = theirs.build(config).state_dict()
    ours = read(json.loads(json.dumps(config)))
    slots = expand(rules(ours), expected_shapes(ours))
    assert {slot.name: slot.shape for slot in slots} == {
        key: tuple(tensor.shape) for key, tensor in state.items()
    }


@pytest.mark.slow
def test_full_size(theirs, tmp_path):
    full_size(theirs, "PE-Core-B-16", tmp_path)
