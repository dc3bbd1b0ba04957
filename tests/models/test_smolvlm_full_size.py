"""SmolVLM-256M and SmolVLM2-256M, of the same sizes, with random weights beside transformers."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from smolvlm_files import unpack

from ttm_jax.inputs.preprocess import normalise
from ttm_jax.inputs.vlm_images import TileProcessor
from ttm_jax.inputs.vlm_prompt import PromptTokenizer, ask
from ttm_jax.scorers.vqa.model import VQAModel
from ttm_jax.weights import idefics3
from ttm_jax.weights.checkpoint_files import Tensors

CAPTIONS = ["a cat on a mat", "some plants surrounding a lightbulb"]


def picture(width: int, height: int) -> np.ndarray:
    coarse = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return np.kron(coarse, np.ones((-(-height // 8), -(-width // 8), 1), np.uint8))[:height, :width]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Idefics3", "SmolVLM"])
def test_full_size(tmp_path, kind):
    """Logits agree to 1e-3 for an image in one tile, and for one in 1 x 4 tiles plus the whole."""
    torch = pytest.importorskip("torch")
    import transformers

    folder = unpack(tmp_path)
    file = folder / "config.json"
    fields = json.loads(file.read_text().replace("idefics3", kind.lower()))
    file.write_text(json.dumps(fields))
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config").from_pretrained(folder)
    config.dtype = torch.float32
    theirs = getattr(transformers, f"{kind}ForConditionalGeneration")(config).eval().float()
    weights = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    tensors = Tensors({name: x.shape for name, x in weights.items()}, weights.__getitem__)
    ours, params = idefics3.convert(fields, tensors, "random")
    prompt = PromptTokenizer.from_folder(folder, ours.tile_tokens)
    model = VQAModel(ours, params, TileProcessor.from_folder(folder), prompt)
    for splitting, image in ((False, picture(300, 200)), (True, picture(640, 150))):
        settings = type(model.settings)(splitting=splitting)
        model = model.with_settings(settings)
        tiles = model.processor(image)
        assert (tiles.rows, tiles.columns) == ((1, 4) if splitting else (0, 0))
        pixels = normalise(tiles.pixels, model.tiles.mean, model.tiles.std)
        question = ask(settings.question, CAPTIONS)[0]
        ids = prompt.image_part(tiles.rows, tiles.columns) + prompt.question_part(question)
        with torch.inference_mode():
            expected = theirs(
                input_ids=torch.tensor([ids]),
                pixel_values=torch.from_numpy(pixels).permute(0, 3, 1, 2)[None],
            ).logits[0]
        assert expected.std() > 0.5, "the logits must differ for this to mean anything"
        whole = model.module.apply(
            {"params": params},
            jnp.asarray(pixels),
            jnp.asarray([ids], jnp.int32),
            method="everything",
        )
        np.testing.assert_allclose(whole[0], expected.numpy(), rtol=0, atol=1e-3)
        # And the score, with the shared prefix.
        probability = expected[-1].softmax(dim=-1)[prompt.answer_id("Yes")].item()
        scores = model.score([image], CAPTIONS)
        np.testing.assert_allclose(scores[0, 0], probability, rtol=1e-3)
