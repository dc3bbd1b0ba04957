"""VQAScore with SmolVLM: from images and captions to P("Yes").

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

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageSource
from ttm_jax.inputs.vlm_images import TileProcessor
from ttm_jax.inputs.vlm_prompt import PromptTokenizer
from ttm_jax.inputs.vqa_prompts import PAPER_PROMPT
from ttm_jax.models.smolvlm import SmolVLM, SmolVLMConfig
from ttm_jax.models.transformer import Compute
from ttm_jax.scorers.vqa import memory
from ttm_jax.scorers.vqa.inputs import Pools, Sizes, read_pools
from ttm_jax.scorers.vqa.scoring import VQA, Normalise, score_pairs
from ttm_jax.training import sharding
from ttm_jax.training.trainable import Params, present

if TYPE_CHECKING:
    from ttm_jax.scorers.vqa.task import VQATask


@dataclass(frozen=True)
class VQASettings:
    """How the model is prompted. The question is the paper's; the rest is not specified there."""

    question: str = PAPER_PROMPT
    """`{text}` is replaced by the caption."""
    answers: tuple[str, str] = ("Yes", "No")
    """Each must be a single token."""
    normalise: Normalise = "vocabulary"
    """vocabulary: P("Yes") among all tokens, which is the definition of VQAScore. answers: P("Yes")
    divided by P("Yes") + P("No")."""
    splitting: bool | None = None
    """Split images into tiles; None: as the checkpoint's files say (SmolVLM's: yes)."""

    def __post_init__(self) -> None:
        if len(self.answers) != 2 or self.answers[0] == self.answers[1]:
            raise InputError(f"answers are {self.answers}; expected two different strings")


DEFAULT_SETTINGS = VQASettings()


@dataclass(frozen=True, eq=False)
class VQAModel:
    """A SmolVLM with its image processor and tokenizer."""

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
                f"the image processor makes tiles of {self.tiles.size} px; this model expects "
                f"{self.config.image_size} px"
            )
        if self.prompt.image_token_id != self.config.image_token_id:
            raise InputError(
                f"<image> is token {self.prompt.image_token_id} in the tokenizer and "
                f"{self.config.image_token_id} in the model: are they from the same checkpoint?"
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
        """Load a Hugging Face folder; tokenizer and processor may come from another one."""
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
        """The same model with another dtype, precision or rematerialisation."""
        return replace(self, config=self.config.with_compute(compute))

    def with_settings(self, settings: VQASettings) -> "VQAModel":
        """The same model with other prompt settings."""
        return replace(self, settings=settings)

    def describe(self) -> dict[str, Any]:
        """The settings, recorded with a run because they change the meaning of the scores."""
        return {**asdict(self.settings), "splitting": self.processor.splitting}

    @property
    def processor(self) -> TileProcessor:
        return self.tiles.with_splitting(self.settings.splitting)

    def save(
        self, folder: str | Path, *, dtype: Literal["float32", "bfloat16"] = "float32"
    ) -> None:
        """Save a Hugging Face folder for transformers, with tokenizer and processor files."""
        from ttm_jax.weights import idefics3

        params = jax.tree.map(np.asarray, self.params)
        idefics3.save(Path(folder), self.config, params, dtype=dtype, extra_files_from=self.folder)

    def release(self) -> None:
        """Let the parameters go; the model is of no use afterwards."""
        self.params.clear()

    def score(
        self, images: Sequence[ImageSource], captions: Sequence[str], *, batch_size: int = 0
    ) -> Float32[np.ndarray, "image text"]:
        """P("Yes") of every image with every caption; each image is encoded once."""
        mesh = sharding.make_mesh(jax.devices()[:1])
        pools, sizes = self.read(images, captions)
        data = sharding.put(pools, sharding.replicated(mesh))
        state = {"params": sharding.put(present(self.params), sharding.replicated(mesh))}
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
        """Number of images encoded at once."""
        return memory.images_at_once(self.config, int(sizes.prefix.max()), mesh)

    def bind(self, dataset: GroupedDataset, config: TTMConfig, mesh: Mesh, seed: int) -> "VQATask":
        """Bind this model to a dataset as a task for the Test-Time Matching loop."""
        from ttm_jax.scorers.vqa.task import bind

        return bind(self, dataset, config, mesh, seed)
