"""The two towers, each divided where training begins: what is frozen is computed once per run.

Each side of the data goes through two functions: `first`, the frozen beginning of its tower, and
`rest`, which training changes. Either may be the whole tower, or nothing.
"""

from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Array, Float

from ttm_jax.config import Family
from ttm_jax.models.own import OwnTowers
from ttm_jax.models.siglip import SigLIP
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.models.two_tower import Cut, TwoTower
from ttm_jax.trained_part import EVERYTHING, Side, TrainedPart
from ttm_jax.training.trainable import FIRST, LAST, Flat, variables_of


@dataclass(frozen=True)
class Towers:
    """A model of which a part is trained. Hashable: a static argument of compiled functions."""

    module: TwoTower | OwnTowers
    part: TrainedPart = EVERYTHING

    @property
    def family(self) -> Family:
        if isinstance(self.module, OwnTowers):
            return self.module.config.family
        return "siglip" if isinstance(self.module, SigLIP) else "clip"

    @property
    def cut(self) -> Cut:
        """Where the towers are divided of which something is trained."""
        if self.part.last is None:
            return "none"
        return "blocks" if self.part.last else "head"

    def is_divided(self, side: Side) -> bool:
        """Whether a beginning of this tower, or all of it, is frozen."""
        return side not in self.part.sides or self.cut != "none"

    def rest_depth(self, side: Side) -> int:
        """How many blocks of this tower training goes through."""
        if side not in self.part.sides:
            return 0
        depth = self._tower(side).depth
        return depth if self.part.last is None else self.part.last

    def first(self, side: Side, trained: Flat, frozen: Flat, x: Array) -> Float[Array, "n ..."]:
        """From normalised pixels or token ids to what `rest` takes. Nothing here is trained."""
        if side not in self.part.sides:
            return self._apply(self.module, trained, frozen, LAST, f"encode_{side}", x)
        depth = self._tower(side).depth - (self.part.last or 0)
        before = self._with_depth(side, depth)
        return self._apply(before, trained, frozen, FIRST, f"{side}_until", x, cut=self.cut)

    def rest(
        self, side: Side, trained: Flat, frozen: Flat, x: Array, ids: Array | None
    ) -> Float[Array, "n e"]:
        """Embeddings. `x` comes from `first`, or is the data itself if nothing is frozen.

        `ids` are the captions' tokens, for the text side.
        """
        if not self.is_divided(side):
            return self._apply(self.module, trained, frozen, LAST, f"encode_{side}", x)
        if side not in self.part.sides:
            return x
        after = self._with_depth(side, self.part.last or self._tower(side).depth)
        inputs = (x,) if side == "image" else (x, ids)
        return self._apply(after, trained, frozen, LAST, f"{side}_from", *inputs, cut=self.cut)

    def logits(self, trained: Flat, frozen: Flat, images: Array, texts: Array) -> Array:
        """cos x exp(scale) (+ bias)."""
        return self._apply(self.module, trained, frozen, LAST, "logits", images, texts)

    def _apply(
        self, module: Any, trained: Flat, frozen: Flat, half: str, method: str, *x: Any, **more: Any
    ) -> Any:
        return module.apply(variables_of(trained, frozen, half), *x, method=method, **more)

    def _tower(self, side: Side) -> TowerConfig:
        config = self.module.config
        return config.vision if side == "image" else config.text

    def _with_depth(self, side: Side, depth: int) -> TwoTower | OwnTowers:
        """The module with so many blocks in this tower; the other one is not used with it."""
        config: Any = self.module.config
        tower = {"vision" if side == "image" else "text": replace(self._tower(side), depth=depth)}
        make: Any = type(self.module)
        return make(replace(config, **tower))
