"""Our SmolVLM against transformers' PyTorch Idefics3 with the same weights; loading and saving."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from parity import quick_jit
from paths import TESTS

from ttm_jax.errors import InputError
from ttm_jax.models.smolvlm import SmolVLM
from ttm_jax.models.transformer import Compute
from ttm_jax.weights import idefics3
from ttm_jax.weights.checkpoint_files import Tensors

torch = pytest.importorskip("torch")
import tiny_idefics3 as tiny  # noqa: E402

close = partial(np.testing.assert_allclose, rtol=0, atol=1e-5)
TILES, AFTER = [3, 1, 2], [5, 8, 1]  # images of different aspect, captions of different length


SHAPES = {"unsplit": [1], "split": [4], "mixed": TILES}


@pytest.fixture(scope="module", params=tiny.CASES)
def pair(request, tmp_path_factory):
    """A PyTorch model and ours, loaded from the folder that it was saved to."""
    model = tiny.make(tiny.config_of(**tiny.CASES[request.param]))
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    return model, *idefics3.load(folder), folder


def features_of(module, params, pixels):
    """Tile features [B, T * n, D]."""
    b, t = pixels.shape[:2]
    flat = jnp.asarray(pixels).reshape(b * t, *pixels.shape[2:])
    features = module.apply({"params": params}, flat, method="encode_tiles")
    return features.reshape(b, -1, features.shape[-1])


def all_logits(config, params, pixels, ids):
    module = SmolVLM(config)

    @quick_jit
    def forward(params, pixels, ids):
        return module.apply({"params": params}, features_of(module, params, pixels), ids)

    return np.asarray(forward(params, jnp.asarray(pixels), jnp.asarray(ids)))


@pytest.mark.parametrize(
    ("pair", "shape"),
    [
        *(("grouped", shape) for shape in SHAPES),
        ("odd", "mixed"),
        ("one_kv_head", "mixed"),
        ("smolvlm", "mixed"),
    ],
    indirect=["pair"],
)
def test_logits(pair, shape):
    (model, config, params, _), tiles = pair, SHAPES[shape]
    pixels = tiny.tile_pixels(tiles, config.image_size, seed=1)
    ids, lengths = tiny.prompts(tiles, config.tile_tokens, AFTER[: len(tiles)], seed=2)
    expected = tiny.logits(model, pixels, ids, lengths)
    out = all_logits(config, params, pixels, ids)
    assert expected.std() > 0.3, "the logits must differ for this to mean anything"
    for row, length in enumerate(lengths):
        close(out[row, :length], expected[row, :length])


@pytest.mark.parametrize(
    ("pair", "remat"),
    [
        ("grouped", "none"),
        ("grouped", "block"),
        ("odd", "dots"),
        ("one_kv_head", "none"),
        ("smolvlm", "none"),
    ],
    indirect=["pair"],
)
def test_loss_gradients(pair, remat):
    """The loss on the answer token, with shared prefixes as in training."""
    model, config, params, folder = pair
    config = config.with_compute(Compute(remat=remat))
    pixels = tiny.tile_pixels(TILES, config.image_size, seed=3)
    ids, lengths = tiny.prompts(TILES, config.tile_tokens, AFTER, seed=4)
    answers = [7, 9, 11]
    expected_loss, expected = tiny.loss_and_gradients(model, pixels, ids, lengths, answers)
    ends = [int((row == tiny.IMAGE).nonzero()[0].max()) + 1 for row in ids]
    prefix, starts, rest, counts = cut(ids, lengths, ends)

    @quick_jit
    @jax.value_and_grad
    def value(params):
        module = SmolVLM(config)
        apply = partial(module.apply, {"params": params})
        cache = apply(features_of(module, params, pixels), prefix, method="prefix")
        last = apply(cache, starts, rest[:, None], counts[:, None], method="answers")[:, 0]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(last), jnp.asarray(answers)[:, None], 1)
        return -chosen.mean()

    loss, gradients = value(jax.tree.map(jnp.asarray, params))
    close(loss, expected_loss)
    tensors = Tensors({n: x.shape for n, x in expected.items()}, expected.__getitem__)
    fields = json.loads((folder / "config.json").read_text())
    expected = flatten_dict(idefics3.convert(fields, tensors, "test")[1], sep="/")
    gradients = flatten_dict(jax.device_get(gradients), sep="/")
    assert set(gradients) == set(expected)
    for name, gradient in gradients.items():
        close(gradient, expected[name], err_msg=name)
        zero = name.endswith("key/bias")  # a constant on every key does not change a softmax
        assert zero or np.abs(gradient).max() > 1e-3, name


def cut(ids, lengths, ends):
    """Split each prompt after its image; both parts are padded on the right."""
    prefix = np.full((len(ids), max(ends)), tiny.PAD, np.int32)
    rest = np.full((len(ids), int((lengths - ends).max())), tiny.PAD, np.int32)
    for row, end in enumerate(ends):
        prefix[row, :end] = ids[row, :end]
        rest[row, : lengths[row] - end] = ids[row, end : lengths[row]]
    as_int = partial(jnp.asarray, dtype=jnp.int32)
    return as_int(prefix), as_int(ends), as_int(rest), as_int(lengths - np.asarray(ends))


@pytest.mark.parametrize("side", [26, 27, 32])
def test_positions_of_whole_tiles_are_in_order(side):
    """transformers finds them by rounded fractions; for the published sizes the order is kept."""
    from transformers.models.idefics3.modeling_idefics3 import Idefics3VisionEmbeddings

    config = tiny.config_of(side, 1, 1, 1, 2).vision_config
    embeddings = Idefics3VisionEmbeddings(config)
    with torch.no_grad():
        number = torch.arange(side**2).float()[:, None]
        embeddings.position_embedding.weight.copy_(number.expand(-1, config.hidden_size))
        embeddings.patch_embedding.weight.zero_()
        embeddings.patch_embedding.bias.zero_()
        pixels = torch.zeros(1, 3, 4 * side, 4 * side)
        found = embeddings(pixels, torch.ones(1, side, side, dtype=torch.bool))[0, :, 0]
    np.testing.assert_array_equal(found.numpy(), np.arange(side**2))


class TestFiles:
    def test_bfloat16_in_and_out_is_bit_exact(self, pair, tmp_path):
        model = pair[0]
        half = tiny.make(model.config).to(torch.bfloat16)
        half.save_pretrained(tmp_path / "theirs")
        config, params = idefics3.load(tmp_path / "theirs")
        assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(params))
        idefics3.save(tmp_path / "ours", config, params, dtype="bfloat16")
        again = type(model).from_pretrained(tmp_path / "ours", dtype="auto")
        assert again.dtype == torch.bfloat16
        expected = half.state_dict()
        found = again.state_dict()
        assert set(found) == set(expected)
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), name

    def test_what_we_write_is_what_transformers_reads(self, pair, tmp_path):
        model, config, params, _ = pair
        idefics3.save(tmp_path / "ours", config, params)
        again = type(model).from_pretrained(tmp_path / "ours", dtype="auto").eval()
        assert again.dtype == torch.float32
        assert idefics3.load(tmp_path / "ours")[0] == config
        pixels = tiny.tile_pixels([2], config.image_size, seed=5)
        ids, lengths = tiny.prompts([2], config.tile_tokens, [4], seed=6)
        np.testing.assert_array_equal(
            tiny.logits(again, pixels, ids, lengths), tiny.logits(model, pixels, ids, lengths)
        )

    def test_what_is_missing_or_different_is_named(self, pair):
        model, _, _, folder = pair
        fields = json.loads((folder / "config.json").read_text())
        state = {name: x.numpy() for name, x in model.state_dict().items()}
        del state["lm_head.weight"]
        tensors = Tensors({n: x.shape for n, x in state.items()}, state.__getitem__)
        with pytest.raises(InputError, match=r"1 missing \(lm_head.weight\)"):
            idefics3.convert(fields, tensors, "here")
        text = fields["text_config"]
        for change, words in (
            ({"tie_word_embeddings": True}, "tie_word_embeddings is true"),
            ({"text_config": {**text, "attention_bias": True}}, "attention_bias"),
            (
                {"text_config": {**text, "rope_parameters": {"rope_type": "yarn"}}},
                'rope_type is "yarn"',
            ),
            ({"scale_factor": 5}, "not divisible by scale_factor 5"),
            ({"vision_config": 3}, "expected an object"),
        ):
            with pytest.raises(InputError, match=words):
                idefics3.convert({**fields, **change}, tensors, "here")

    def test_the_published_config(self):
        path = TESTS / "data" / "smolvlm_256m_instruct" / "config.json"
        config = idefics3.read_config(json.loads(path.read_text()), Compute(), "here")
        assert (config.side, config.tile_tokens, config.image_token_id) == (32, 64, 49190)
        text = config.text
        assert (text.width, text.depth, text.heads, text.kv_heads) == (576, 30, 9, 3)
        assert (text.head_dim, text.mlp_dim, text.vocab_size) == (64, 1536, 49280)
        assert (text.norm_eps, text.rope_theta) == (1e-5, 100000.0)
        shapes = idefics3.expected_shapes(config)
        parameters = sum(int(np.prod(shape)) for shape in shapes.values())
        assert parameters == 256_484_928
