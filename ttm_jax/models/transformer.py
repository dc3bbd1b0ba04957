"""The transformer shared by SigLIP, CLIP and SmolVLM's vision tower: block, encoder, MAP head.

Parameter names are big_vision's, with the layers of an encoder stacked on a leading axis. Its
scanned checkpoints therefore have the same tree, and compile time does not grow with depth.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ttm_jax.models.attention import attend
from ttm_jax.models.layer_stack import run_stack
from ttm_jax.models.rotary import Turns, turn

Remat = Literal["none", "dots", "block"]
Activation = Literal["gelu_tanh", "gelu", "quick_gelu"]


@dataclass(frozen=True)
class Compute:
    """How to compute, independent of the parameters: nothing here changes their shapes or values.

    Parameters stay float32. `precision` applies to every matrix product: "highest" keeps float32
    exact on TPU, where the default would round to bfloat16 and blur small margins. `remat` trades
    time for memory in the backward pass: "block" keeps only the input of each block, "dots" also
    the outputs of the dense layers, "none" keeps everything.
    """

    dtype: Literal["float32", "bfloat16"] = "float32"
    precision: Literal["highest", "high", "default"] = "highest"
    remat: Remat = "none"


@dataclass(frozen=True)
class TowerConfig:
    """Sizes of one transformer tower."""

    width: int
    depth: int
    heads: int
    mlp_dim: int
    activation: Activation = "gelu_tanh"
    norm_eps: float = 1e-6
    causal: bool = False
    compute: Compute = Compute()

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


def quick_gelu(x: Array) -> Array:
    return x * nn.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu_tanh": partial(nn.gelu, approximate=True),
    "gelu": partial(nn.gelu, approximate=False),
    "quick_gelu": quick_gelu,
}


def layer_norm(config: TowerConfig, name: str) -> nn.LayerNorm:
    # The fast variance E[x^2] - E[x]^2 loses digits: parity with PyTorch needs the two-pass one.
    return nn.LayerNorm(
        epsilon=config.norm_eps, use_fast_variance=False, dtype=config.compute.dtype, name=name
    )


class Linear(nn.Module):
    """A dense layer over arbitrary axes, written as an einsum: "bnw,whd->bhnd" splits into heads.

    If the variables have a "lora" collection, its low-rank term is added without forming the full
    matrix, so that a frozen kernel needs no gradient.
    """

    spec: str
    sizes: tuple[int, ...]  # shape of the kernel
    compute: Compute
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        source, weight, result = re.split(",|->", self.spec)
        inputs = sum(letter in source for letter in weight)
        kernel_init = nn.initializers.xavier_uniform(
            tuple(range(inputs)), tuple(range(inputs, len(weight)))
        )
        kernel = self.param("kernel", kernel_init, self.sizes)
        x, kernel = (a.astype(self.compute.dtype) for a in (x, kernel))
        einsum = partial(jnp.einsum, precision=self.compute.precision)
        y = einsum(self.spec, x, kernel)
        if self.has_variable("lora", "a"):
            down: Any = self.get_variable("lora", "a").astype(x.dtype)  # [inputs..., rank]
            up: Any = self.get_variable("lora", "b").astype(x.dtype)  # [rank, outputs...]
            rest = "".join(letter for letter in source if letter not in weight)
            low = einsum(f"{source},{weight[:inputs]}r->{rest}r", x, down)
            y = y + einsum(f"{rest}r,r{weight[inputs:]}->{result}", low, up)
        if not self.use_bias:
            return y
        bias = self.param("bias", nn.initializers.zeros, self.sizes[inputs:])
        shape = [n if axis in weight else 1 for n, axis in zip(y.shape, result, strict=True)]
        return y + bias.astype(y.dtype).reshape(shape)


class Attention(nn.Module):
    """Multi-head attention from `x` to `context`, with big_vision's parameter names and shapes."""

    config: TowerConfig

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "b q w"],
        context: Float[Array, "b n w"],
        positions: Int[Array, "b q"] | None = None,
        keys: Bool[Array, "b n"] | None = None,
        turns: Turns | None = None,
    ) -> Float[Array, "b q w"]:
        """`positions` are those of the rows of `x`, for a causal tower; `keys` are not padding.

        With `turns` (rotary positions), x and context are the same tokens.
        """
        c = self.config
        sizes = (c.width, c.heads, c.head_dim)
        to_heads = partial(Linear, "bnw,whd->bhnd", sizes, c.compute)
        query, key = to_heads(name="query")(x), to_heads(name="key")(context)
        if turns is not None:
            query, key = turn(query, turns), turn(key, turns)
        y = attend(
            query,
            key,
            to_heads(name="value")(context),
            causal=c.causal,
            positions=positions,
            keys=keys,
            precision=c.compute.precision,
        )
        return Linear("bhnd,hdw->bnw", (*sizes[1:], c.width), c.compute, name="out")(y)


class Mlp(nn.Module):
    config: TowerConfig

    @nn.compact
    def __call__(self, x: Float[Array, "b n w"]) -> Float[Array, "b n w"]:
        c = self.config
        dense = partial(Linear, "bnw,wo->bno", compute=c.compute)
        x = dense(sizes=(c.width, c.mlp_dim), name="Dense_0")(x)
        return dense(sizes=(c.mlp_dim, c.width), name="Dense_1")(ACTIVATIONS[c.activation](x))


class Block(nn.Module):
    """Pre-norm attention and MLP, each with a residual."""

    config: TowerConfig

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "b n w"],
        only: Int[Array, "b"] | None = None,
        keys: Bool[Array, "b n"] | None = None,
        turns: Turns | None = None,
    ) -> Float[Array, "b q w"]:
        """With `only`, output only one position per row: exact, at a fraction of the cost.

        Keys and values still use every position; queries, output projection and MLP use one.
        """
        c = self.config
        context = layer_norm(c, "LayerNorm_0")(x)
        if only is None:
            rows, query, positions = x, context, None
        else:
            rows, query = take_position(x, only), take_position(context, only)
            positions = only[:, None]
        attention = Attention(c, name="MultiHeadDotProductAttention_0")
        x = rows + attention(query, context, positions, keys, turns)
        return x + Mlp(c, name="MlpBlock_0")(layer_norm(c, "LayerNorm_1")(x))


def take_position(x: Float[Array, "b n w"], position: Int[Array, "b"]) -> Float[Array, "b 1 w"]:
    return jnp.take_along_axis(x, position[:, None, None], axis=1)


class Encoder(nn.Module):
    """`depth` blocks, scanned over their stacked parameters, then the final norm."""

    config: TowerConfig

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "b n w"],
        only: Int[Array, "b"] | None = None,
        norm: bool = True,
        keys: Bool[Array, "b n"] | None = None,
        turns: Turns | None = None,
    ) -> Float[Array, "b q w"]:
        """With `only`, the last block and the norm run at that position only: [B, 1, D].

        Without `norm` the output is that of the last block, for further blocks. `keys`, which are
        what is no padding, and `turns`, rotary positions, do not go together with `only`.
        """
        c = self.config
        block = Block(c, parent=None)
        layers = {"params": self.param("encoderblock", partial(_init_stacked, block, x.shape))}
        if self.has_variable("lora", "encoderblock"):
            layers["lora"] = self.get_variable("lora", "encoderblock")
        apply: Any = block.apply
        step = rematerialise(
            lambda x, layer: apply(layer, x, keys=keys, turns=turns), c.compute.remat
        )
        if only is None:
            x, _ = jax.lax.scan(lambda x, layer: (step(x, layer), None), x, layers)
        else:
            x = run_stack(step, lambda x, layer, only: apply(layer, x, only), x, layers, only)
        return layer_norm(c, "encoder_norm")(x) if norm else x


def _init_stacked(block: Block, shape: tuple[int, ...], key: Array) -> Any:
    sample = jnp.zeros((1, *shape[1:]), block.config.compute.dtype)
    keys = jax.random.split(key, block.config.depth)
    return jax.vmap(lambda k: block.init(k, sample)["params"])(keys)


def rematerialise(step: Callable, remat: Remat) -> Callable:
    if remat == "none":
        return step
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable if remat == "dots" else None
    return jax.checkpoint(step, prevent_cse=False, policy=policy)


class MAPHead(nn.Module):
    """Multi-head attention pooling with a learned probe, as in SigLIP's image tower."""

    config: TowerConfig

    @nn.compact
    def __call__(
        self, x: Float[Array, "b n w"], keys: Bool[Array, "b n"] | None = None
    ) -> Float[Array, "b w"]:
        c = self.config
        probe = self.param("probe", nn.initializers.xavier_uniform(), (1, 1, c.width))
        probe = jnp.broadcast_to(probe.astype(x.dtype), (x.shape[0], 1, c.width))
        x = Attention(c, name="MultiHeadDotProductAttention_0")(probe, x, keys=keys)
        return (x + Mlp(c, name="MlpBlock_0")(layer_norm(c, "LayerNorm_0")(x)))[:, 0]


class PatchEmbedding(nn.Module):
    """Embeds non-overlapping patches with one matrix product instead of a strided convolution.

    Images of three axes (with the batch) are cut into patches already.
    """

    width: int
    patch: int
    use_bias: bool
    compute: Compute

    @nn.compact
    def __call__(self, pixels: Float[Array, "b ..."]) -> Float[Array, "b n width"]:
        p = self.patch
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (p, p, 3, self.width))
        x = pixels.astype(self.compute.dtype)
        if x.ndim == 4:
            b, h, w, _ = x.shape
            # Like a convolution of stride p, drop pixels that fill no patch (384 = 27*14 + 6).
            x = x[:, : h // p * p, : w // p * p]
            x = x.reshape(b, h // p, p, w // p, p, 3).transpose(0, 1, 3, 2, 4, 5)
            x = x.reshape(b, -1, p * p * 3)  # [B, N, P*P*3]
        kernel = kernel.astype(self.compute.dtype).reshape(-1, self.width)
        x = jnp.dot(x, kernel, precision=self.compute.precision)
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, (self.width,))
            x = x + bias.astype(x.dtype)[None, None, :]
        return x
