"""Two functions and a parameter tree that somebody else wrote, with the interface of our towers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ttm_jax.config import Family
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.models.two_tower import TwoTowerConfig, unit

LEAVES = "own"  # beside the scale `t` and the bias `b`
# Of the functions nothing is known: what is estimated from sizes counts their products as nothing.
UNKNOWN = TowerConfig(width=1, depth=0, heads=1, mlp_dim=1)
Encode = Callable[[Any, Any], Any]
Params = dict[str, Any]


@dataclass(frozen=True)
class OwnConfig(TwoTowerConfig):
    """The functions, and how the leaves of their parameter tree are named. Hashable."""

    image_function: Encode
    text_function: Encode
    family: Family
    has_bias: bool
    structure: Any
    """The tree definition of the parameters."""
    names: tuple[str, ...]
    """The names of its leaves, in order."""

    def leaves(self, tree: Any) -> dict[str, Any]:
        """The leaves by name."""
        return dict(zip(self.names, jax.tree.leaves(tree), strict=True))

    def tree(self, leaves: dict[str, Any]) -> Any:
        """The other way."""
        return jax.tree.unflatten(self.structure, [leaves[name] for name in self.names])


@dataclass(frozen=True)
class OwnTowers:
    """What is used of a `TwoTower`. Not a Flax module: the functions may make modules themselves.

    Embeddings are brought to length 1 here.
    """

    config: OwnConfig

    def apply(self, variables: dict[str, Any], *inputs: Array, method: str) -> Array:
        """One of the methods below under these parameters."""
        call: Any = getattr(self, method)
        return call(variables["params"], *inputs)

    def encode_image(self, params: Params, pixels: Float[Array, "n h w 3"]) -> Float[Array, "n e"]:
        tree = self.config.tree(params[LEAVES])
        return unit(self.config.image_function(tree, pixels))

    def encode_text(self, params: Params, ids: Int[Array, "m length"]) -> Float[Array, "m e"]:
        tree = self.config.tree(params[LEAVES])
        return unit(self.config.text_function(tree, ids))

    def logits(
        self, params: Params, image: Float[Array, "n e"], text: Float[Array, "m e"]
    ) -> Float[Array, "n m"]:
        """cos x exp(scale) (+ bias)."""
        cosine = jnp.einsum("ne,me->nm", image, text, precision=self.config.text.compute.precision)
        scaled = cosine * jnp.exp(params["t"])[None]
        return scaled + params["b"][None] if self.config.has_bias else scaled
