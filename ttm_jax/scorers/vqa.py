"""SmolVLM as a user meets it: images and captions in, P("Yes") out (VQAScore).

The model is asked whether the image shows the caption; the score is the probability that its
answer begins with "Yes".
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float32

from ttm_jax import sharding
from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.models.smolvlm import SmolVLM, SmolVLMConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.preprocess import ImageSource
from ttm_jax.scorers import vqa_memory
from ttm_jax.scorers.vqa_inputs import Pools, Sizes, read_pools
from ttm_jax.scorers.vqa_scoring import VQA, Normalise, score_pairs
from ttm_jax.trainable import Params
from ttm_jax.vlm_images import TileProcessor
from ttm_jax.vlm_prompt import PromptTokenizer

if TYPE_CHECKING:
    from ttm_jax.scorers.vqa_task import VQATask

QUESTION = 'Does this image show "{text}"? Please answer "Yes" or "No".'


@dataclass(frozen=True)
class VQASettings:
    """How the model is asked. The question is the paper's; on the rest the paper is silent."""

    question: str = QUESTION
    """`{text}` is where the caption goes."""
    answers: tuple[str, str] = ("Yes", "No")
    """One token each."""
    normalise: Normalise = "vocabulary"
    """vocabulary: P("Yes") among all tokens, which is what VQAScore is. answers: P("Yes") divided
    by P("Yes") + P("No")."""
    splitting: bool | None = None
    """Cut images into tiles; None: as the checkpoint's files say (SmolVLM's: yes)."""

    def __post_init__(self) -> None:
        if len(self.answers) != 2 or self.answers[0] == self.answers[1]:
            raise InputError(f"answers are {self.answers}; expected two different ones")


DEFAULT_SETTINGS = VQASettings()


@dataclass(frozen=True, eq=False)
class VQAModel:
    """A SmolVLM with what it needs to read images and captions."""

    config: SmolVLMConfig
    params: Params = field(repr=False)
    tiles: TileProcessor
    prompt: PromptTokenizer = field(repr=False)
    settings: VQASettings = DEFAULT_SETTINGS
    folder: Path | None = None
    source: str = "memory"

    def __post_init__(self) -> None:
        if self.tiles.size != self.config.image_size:
            raise InputError(
                f"the image processor makes tiles of {self.tiles.size} px; this model takes "
                f"{self.config.image_size} px"
            )
        if self.prompt.image_token_id != self.config.image_token_id:
            raise InputError(
                f"<image> is token {self.prompt.image_token_id} of the tokenizer and "
                f"{self.config.image_token_id} of the model: are they of the same checkpoint?"
            )

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        source: str,
        *,
        files_from: Path | None = None,
        compute: Compute | None = None,
    ) -> "VQAModel":
        """From a Hugging Face folder; tokenizer and processor may come from another."""
        from ttm_jax.weights import idefics3

        config, params = idefics3.load(folder, compute=compute or Compute())
        files = files_from or folder
        prompt = PromptTokenizer.from_folder(files, config.tile_tokens)
        tiles = TileProcessor.from_folder(files)
        return cls(config, params, tiles, prompt, folder=files, source=source)

    @property
    def module(self) -> SmolVLM:
        return SmolVLM(self.config)

    def with_compute(self, compute: Compute) -> "VQAModel":
        """The same model computing in another dtype, precision or memory regime."""
        return replace(self, config=self.config.with_compute(compute))

    def with_settings(self, settings: VQASettings) -> "VQAModel":
        """The same model asked in another way."""
        return replace(self, settings=settings)

    def describe(self) -> dict[str, Any]:
        """The settings, for the record of a run: with others, scores mean something else."""
        return {**asdict(self.settings), "splitting": self.processor.splitting}

    @property
    def processor(self) -> TileProcessor:
        return self.tiles.with_splitting(self.settings.splitting)

    def save(
        self, folder: str | Path, *, dtype: Literal["float32", "bfloat16"] = "float32"
    ) -> None:
        """A Hugging Face folder that transformers loads, with tokenizer and processor files."""
        from ttm_jax.weights import idefics3

        params = jax.tree.map(np.asarray, self.params)
        idefics3.save(Path(folder), self.config, params, dtype=dtype, extra_files_from=self.folder)

    def score(
        self, images: Sequence[ImageSource], captions: Sequence[str], *, batch_size: int = 0
    ) -> Float32[np.ndarray, "image text"]:
        """P("Yes") of every image with every caption; each image is read once."""
        mesh = sharding.make_mesh(jax.devices()[:1])
        pools, sizes = self.read(images, captions)
        data = sharding.put(pools, sharding.replicated(mesh))
        state = {"params": sharding.put(self.params, sharding.replicated(mesh))}
        image, text = np.indices((len(sizes.tiles), len(sizes.question)), np.int32)
        pairs = np.stack([image.reshape(-1), text.reshape(-1)], axis=1)
        size = batch_size or self.batch_size(sizes, mesh)
        found = score_pairs(self.vqa(mesh), state, data, sizes, pairs, size)
        return found.reshape(image.shape)

    def vqa(self, mesh: Mesh) -> VQA:
        yes, no = (self.prompt.answer_id(answer) for answer in self.settings.answers)
        return VQA(self.module, self.tiles, (yes, no), self.settings.normalise, mesh)

    def read(
        self, images: Sequence[ImageSource] | np.ndarray, captions: Sequence[str] | np.ndarray
    ) -> tuple[Pools, Sizes]:
        return read_pools(
            self.processor,
            self.prompt,
            self.settings.question,
            images,
            captions,
            self.config.text.max_positions,
        )

    def batch_size(self, sizes: Sizes, mesh: Mesh) -> int:
        """Images that are read at once."""
        return vqa_memory.images_at_once(self.config, int(sizes.prefix.max()), mesh)

    def bind(self, dataset: GroupedDataset, config: TTMConfig, mesh: Mesh, seed: int) -> "VQATask":
        """This model on this dataset, as the Test-Time Matching loop wants it."""
        from ttm_jax.scorers.vqa_task import bind

        return bind(self, dataset, config, mesh, seed)
