"""VQAScore speed: shared prefixes compared with whole prompts, and with transformers and PyTorch.

    python benchmarks/vqascore.py               # SmolVLM-256M, one tile per image; takes minutes
    python benchmarks/vqascore.py --tiles 17    # as SmolVLM splits a square image
    python benchmarks/vqascore.py --quick       # a tiny model: does it run?

Every image is asked about 2, then 4 captions. "shared" is what `model.score` does: an image is
encoded once and shared by its questions. "plain" is the same model in JAX on the whole prompt of
every pair; PyTorch does the same under `inference_mode`, with only the last position's logits. All
start from tiles and token ids in memory, use float32, and must agree.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tyro
from _results import Results
from _sides import Parts, Side, cores, machine, make_console, take_turns

CAPTIONS = (2, 4)
IMAGE, PAD, YES, NO = 60, 2, 7, 8  # in the tiny and in the large vocabulary
COMMON = 5  # tokens that every question starts with: 'Does this image show "'
QUESTION = (22, 34)  # range of the number of remaining tokens, with the published tokenizer
AGREE = 1e-3  # relative tolerance between the sides
PAIRS_AT_ONCE = 4  # for the sides that process whole prompts


def torch_config(tiny: bool) -> Any:
    """SmolVLM-256M-Instruct's sizes; `tiny` shrinks all of them."""
    from transformers import Idefics3Config

    tower = {"num_hidden_layers": 2, "num_attention_heads": 2} if tiny else {}
    vision = {
        "hidden_size": 16 if tiny else 768,
        "intermediate_size": 24 if tiny else 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "image_size": 16 if tiny else 512,
        "patch_size": 4 if tiny else 16,
        **tower,
    }
    text = {
        "model_type": "llama",
        "hidden_size": 24 if tiny else 576,
        "intermediate_size": 32 if tiny else 1536,
        "num_hidden_layers": 2 if tiny else 30,
        "num_attention_heads": 3 if tiny else 9,
        "num_key_value_heads": 1 if tiny else 3,
        "head_dim": 8 if tiny else 64,
        "vocab_size": 64 if tiny else 49280,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
        "pad_token_id": PAD,
    }
    return Idefics3Config(
        vision_config=vision, text_config=text, scale_factor=4, image_token_id=IMAGE
    )


def weight_writer(tiny: bool, folder: str) -> Parts:
    """Write the weights in a separate process, so that the calling process stays small."""

    def write() -> tuple[int, int]:
        import torch
        from transformers import Idefics3ForConditionalGeneration

        torch.manual_seed(0)
        config = torch_config(tiny)
        Idefics3ForConditionalGeneration(config).save_pretrained(folder)
        vision = config.vision_config
        side = vision.image_size // vision.patch_size // config.scale_factor
        return vision.image_size, side**2

    return {"write": write}


@dataclass(frozen=True)
class Data:
    """Recipe for the arrays: each process makes its own from the same seed."""

    images: int
    tiles: int
    size: int
    tile_tokens: int

    def arrays(self, captions: int) -> tuple[np.ndarray, list[list[int]], list[list[int]]]:
        """Tiles [image, tile, S, S, 3] (uint8), the start of each prompt, and the questions."""
        rng = np.random.default_rng(0)
        shape = (self.images, self.tiles, self.size, self.size, 3)
        pixels = rng.integers(0, 256, shape, dtype=np.uint8)
        words = list(rng.integers(9, IMAGE, COMMON))
        prefix = [1, 3, 4]
        for _ in range(self.tiles):
            prefix += [5, 6, *[IMAGE] * self.tile_tokens]
        prefixes = [[*prefix, 5, *words] for _ in range(self.images)]
        lengths = rng.integers(*QUESTION, self.images * captions)
        return pixels, prefixes, [list(rng.integers(9, IMAGE, n)) for n in lengths]

    def pairs(self, captions: int) -> np.ndarray:
        """Each image with its own captions."""
        image = np.repeat(np.arange(self.images), captions)
        return np.stack([image, np.arange(len(image))], axis=1).astype(np.int32)


def _load(folder: str) -> tuple[Any, Any]:
    import jax

    from ttm_jax.models.smolvlm import SmolVLM
    from ttm_jax.weights import idefics3

    config, params = idefics3.load(folder)
    # As the package does it: on the CPU, leaves are read where they were loaded.
    place = partial(jax.device_put, device=jax.devices()[0])
    return SmolVLM(config), {"params": jax.tree.map(place, params)}


def shared_parts(folder: str, data: Data) -> Parts:
    import jax

    from ttm_jax.inputs.vlm_images import TileProcessor
    from ttm_jax.inputs.vlm_prompt import lengths, pad
    from ttm_jax.scorers.vqa.inputs import QUESTION_BUCKET, Pools, Sizes
    from ttm_jax.scorers.vqa.memory import images_at_once
    from ttm_jax.scorers.vqa.scoring import VQA, score_pairs
    from ttm_jax.training import sharding

    module, state = _load(folder)
    mesh = sharding.make_mesh(jax.devices()[:1])
    vqa = VQA(module, TileProcessor(), (YES, NO), "vocabulary", mesh)

    def score(captions: int) -> np.ndarray:
        pixels, prefixes, questions = data.arrays(captions)
        sizes = Sizes(
            np.full(data.images, data.tiles, np.int32), lengths(prefixes), lengths(questions)
        )
        index = np.arange(data.images * data.tiles, dtype=np.int32)
        pools = Pools(
            pixels.reshape(-1, *pixels.shape[2:]),
            index.reshape(data.images, data.tiles),
            pad(prefixes),
            sizes.prefix,
            pad(questions, QUESTION_BUCKET),
            sizes.question,
        )
        batch = images_at_once(module.config, len(prefixes[0]), mesh)
        placed = sharding.put(pools, sharding.replicated(mesh))
        return score_pairs(vqa, state, placed, sizes, data.pairs(captions), batch)

    return {str(captions): lambda captions=captions: score(captions) for captions in CAPTIONS}


def _whole_prompts(data: Data, captions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normalised tiles, ids and lengths of the whole prompts, padded on the right."""
    from ttm_jax.inputs.preprocess import normalise
    from ttm_jax.inputs.vlm_prompt import lengths, pad

    pixels, prefixes, questions = data.arrays(captions)
    prompts = [prefixes[i] + questions[t] for i, t in data.pairs(captions)]
    return normalise(pixels, (0.5,) * 3, (0.5,) * 3), pad(prompts, 8), lengths(prompts)


def plain_parts(folder: str, data: Data) -> Parts:
    import jax
    import jax.numpy as jnp

    module, state = _load(folder)

    @jax.jit
    def run(state: Any, pixels: Any, ids: Any, length: Any) -> Any:
        apply = module.apply

        def encode(tile: Any) -> Any:
            return apply(state, tile, method="encode_tiles")

        features = jax.lax.map(encode, pixels.swapaxes(0, 1)).swapaxes(0, 1)
        logits = apply(
            state, features.reshape(len(ids), -1, features.shape[-1]), ids, length - 1, method="at"
        )
        return jnp.exp(logits[:, YES] - jax.nn.logsumexp(logits, axis=-1))

    def score(captions: int) -> np.ndarray:
        pixels, ids, length = _whole_prompts(data, captions)
        image = data.pairs(captions)[:, 0]
        found = []
        for i in range(0, len(ids), PAIRS_AT_ONCE):
            part = slice(i, i + PAIRS_AT_ONCE)
            found.append(run(state, pixels[image[part]], ids[part], length[part]))
        return np.concatenate(found)

    return {str(captions): lambda captions=captions: score(captions) for captions in CAPTIONS}


def torch_parts(folder: str, data: Data) -> Parts:
    import torch
    from transformers import Idefics3ForConditionalGeneration

    torch.set_num_threads(cores())
    model = Idefics3ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.inference_mode()
    def score(captions: int) -> np.ndarray:
        pixels, ids, length = _whole_prompts(data, captions)
        image = data.pairs(captions)[:, 0]
        found = []
        for i in range(0, len(ids), PAIRS_AT_ONCE):
            part = slice(i, i + PAIRS_AT_ONCE)
            # Pad on the left, so that the answer follows the last position of every row.
            rows = [row[:n] for row, n in zip(ids[part], length[part], strict=True)]
            longest = max(map(len, rows))
            left = [np.pad(row, (longest - len(row), 0), constant_values=PAD) for row in rows]
            mask = [np.arange(longest) >= longest - len(row) for row in rows]
            logits = model(
                input_ids=torch.from_numpy(np.stack(left)).long(),
                attention_mask=torch.from_numpy(np.stack(mask)).long(),
                pixel_values=torch.from_numpy(pixels[image[part]]).permute(0, 1, 4, 2, 3),
                logits_to_keep=1,
                use_cache=False,
            ).logits[:, -1]
            found.append(logits.softmax(dim=-1)[:, YES].numpy())
        return np.concatenate(found)

    return {str(captions): lambda captions=captions: score(captions) for captions in CAPTIONS}


def check_agreement(captions: int, results: tuple[np.ndarray, ...]) -> None:
    for name, other in zip(("plain", "PyTorch"), results[1:], strict=True):
        difference = float(np.abs(results[0] / other - 1).max())
        if difference > AGREE:
            raise SystemExit(
                f"{captions} captions: shared and {name} scores differ by {difference:.1e} of each"
            )


def main(
    images: int = 4,
    tiles: int = 1,
    repeats: int = 3,
    quick: bool = False,
    json: Path | None = None,
) -> None:
    """Time the three variants in alternating turns.

    Args:
        images: number of different images, each with its own captions.
        tiles: tiles per image: 1 without splitting, 17 for a square, 13 for 4:3.
        repeats: number of turns; medians are shown.
        quick: use a tiny model, few images and two turns.
        json: file to write the rows to as well.
    """
    images, repeats = (min(images, 3), min(repeats, 2)) if quick else (images, repeats)
    results = Results("VQAScore")
    make_console().print(machine())
    with TemporaryDirectory() as folder:
        writer = Side("weights", weight_writer, quick, folder)
        data = Data(images, tiles, *writer.run("write")[1])
        writer.close()
        sides = [
            Side("shared", shared_parts, folder, data, huge_pages=True),
            Side("plain", plain_parts, folder, data, huge_pages=True),
            Side("PyTorch", torch_parts, folder, data),
        ]
        for captions in CAPTIONS:
            check_agreement(captions, tuple(side.run(str(captions))[1] for side in sides))
            ours, plain, theirs = take_turns(sides, str(captions), repeats)
            label, count = f"{captions} captions per image", images * captions
            results.turns(label, "pairs/s", ours, theirs, count)
            results.turns(label, "pairs/s; against every prompt in full", ours, plain, count)
        shared, plain_peak, theirs_peak = (side.peak_gb for side in sides)
        results.values("all", "peak memory, GB", shared, theirs_peak)
        results.values("all", "peak memory, GB; every prompt in full", shared, plain_peak)
        for side in sides:
            side.close()
    results.show(f"VQAScore, {tiles} tiles per image")
    results.save(json)


if __name__ == "__main__":
    tyro.cli(main)
