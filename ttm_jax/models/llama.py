"""The Llama decoder of SmolVLM: RMSNorm, rotary positions, grouped-query attention, gated MLP.

A sequence can be processed in two parts. `prefix` computes the keys and values of every layer for
the part that several questions share; `after` processes the questions, each attending to the prefix
and itself. The results equal those of processing every sequence as a whole.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ttm_jax.models.attention import attend
from ttm_jax.models.prefix_attention import attend_after_prefix
from ttm_jax.models.transformer import Compute, Linear, rematerialise

DEFAULT_COMPUTE = Compute()
# Keys and values of every layer, each [layer, b, kv head, position, d].
Cache = tuple[Array, Array]


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a Llama decoder; `kv_heads` divides `heads`."""

    width: int
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_dim: int
    vocab_size: int
    max_positions: int
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    compute: Compute = DEFAULT_COMPUTE


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps), in float32, times a learned scale."""

    eps: float
    compute: Compute

    @nn.compact
    def __call__(self, x: Float[Array, "... w"]) -> Float[Array, "... w"]:
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:])
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + self.eps)
        y = y.astype(self.compute.dtype)
        return y * scale.astype(y.dtype).reshape((1,) * (y.ndim - 1) + (-1,))


def rotate(
    x: Float[Array, "b h n d"], positions: Int[Array, "b n"], theta: float
) -> Float[Array, "b h n d"]:
    """Rotary position embedding; rotated pairs are half the width apart, as in Llama."""
    half = x.shape[-1] // 2
    frequency = 1.0 / theta ** (np.arange(half, dtype=np.float32) / half)
    angle = positions.astype(jnp.float32)[:, None, :, None] * frequency[None, None, None]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


class GroupedAttention(nn.Module):
    """Causal attention in which several query heads share one key-value head."""

    config: DecoderConfig

    def setup(self) -> None:
        c = self.config
        linear = partial(Linear, compute=c.compute, use_bias=False)
        to_heads = partial(linear, "bnw,whd->bhnd")
        self.query = to_heads((c.width, c.heads, c.head_dim))
        self.key = to_heads((c.width, c.kv_heads, c.head_dim))
        self.value = to_heads((c.width, c.kv_heads, c.head_dim))
        self.out = linear("bhnd,hdw->bnw", (c.heads, c.head_dim, c.width))

    def keys_values(
        self, x: Float[Array, "b n w"], positions: Int[Array, "b n"]
    ) -> tuple[Float[Array, "b k n d"], Float[Array, "b k n d"]]:
        return rotate(self.key(x), positions, self.config.rope_theta), self.value(x)

    def __call__(
        self,
        x: Float[Array, "b n w"],
        positions: Int[Array, "b n"],
        prefix: tuple[Array, Array, Array] | None = None,
    ) -> tuple[Float[Array, "b n w"], tuple[Array, Array]]:
        """Return the output and the keys and values of `x`. `prefix`: keys, values and lengths."""
        c = self.config
        query = rotate(self.query(x), positions, c.rope_theta)
        key, value = self.keys_values(x, positions)
        b, _, n, d = query.shape
        shared = c.heads // c.kv_heads
        grouped = query.reshape(b, c.kv_heads, shared * n, d)  # heads sharing keys become rows
        if prefix is None:
            row = jnp.tile(jnp.arange(n)[None], (b, shared))
            precision = c.compute.precision
            y = attend(grouped, key, value, causal=True, positions=row, precision=precision)
        else:
            y = attend_after_prefix(grouped, (key, value), prefix, c.compute.precision)
        return self.out(y.reshape(b, c.heads, n, d)), (key, value)


class GatedMlp(nn.Module):
    config: DecoderConfig

    @nn.compact
    def __call__(self, x: Float[Array, "b n w"]) -> Float[Array, "b n w"]:
        c = self.config
        dense = partial(Linear, "bnw,wo->bno", compute=c.compute, use_bias=False)
        gate = dense(sizes=(c.width, c.mlp_dim), name="gate")(x)
        up = dense(sizes=(c.width, c.mlp_dim), name="up")(x)
        return dense(sizes=(c.mlp_dim, c.width), name="down")(nn.silu(gate) * up)


class DecoderBlock(nn.Module):
    config: DecoderConfig

    def setup(self) -> None:
        c = self.config
        self.RMSNorm_0 = RMSNorm(c.norm_eps, c.compute)
        self.RMSNorm_1 = RMSNorm(c.norm_eps, c.compute)
        self.MultiHeadDotProductAttention_0 = GroupedAttention(c)
        self.MlpBlock_0 = GatedMlp(c)

    def __call__(
        self,
        x: Float[Array, "b n w"],
        positions: Int[Array, "b n"],
        prefix: tuple[Array, Array, Array] | None = None,
    ) -> tuple[Float[Array, "b n w"], tuple[Array, Array]]:
        attended, cache = self.MultiHeadDotProductAttention_0(self.RMSNorm_0(x), positions, prefix)
        x = x + attended
        return x + self.MlpBlock_0(self.RMSNorm_1(x)), cache

    def keys_values(
        self, x: Float[Array, "b n w"], positions: Int[Array, "b n"]
    ) -> tuple[Array, Array]:
        """Only the keys and values: all that a prefix needs from the last layer."""
        return self.MultiHeadDotProductAttention_0.keys_values(self.RMSNorm_0(x), positions)


class Decoder(nn.Module):
    """`depth` blocks scanned over their stacked parameters, then the final norm."""

    config: DecoderConfig

    def setup(self) -> None:
        self.decoderblock = self.param("decoderblock", partial(_init_stacked, self.config))
        self.decoder_norm = RMSNorm(self.config.norm_eps, self.config.compute)

    def _layers(self) -> dict[str, Any]:
        layers = {"params": self.decoderblock}
        if self.has_variable("lora", "decoderblock"):
            layers["lora"] = self.get_variable("lora", "decoderblock")
        return layers

    def __call__(self, x: Float[Array, "b n w"]) -> Float[Array, "b n w"]:
        """Process whole sequences; return every position."""
        apply: Any = DecoderBlock(self.config, parent=None).apply
        positions = _count(x)

        def step(x: Array, layer: Any) -> tuple[Array, None]:
            return apply(layer, x, positions)[0], None

        x, _ = jax.lax.scan(rematerialise(step, self.config.compute.remat), x, self._layers())
        return self.decoder_norm(x)

    def prefix(self, x: Float[Array, "b p w"]) -> Cache:
        """Keys and values of every layer; nothing else of the last layer is computed.

        One scan over all layers: scanning all but the last would copy their parameters.
        """
        apply: Any = DecoderBlock(self.config, parent=None).apply
        positions = _count(x)

        def whole(x: Array, layer: Any) -> tuple[Array, tuple[Array, Array]]:
            return apply(layer, x, positions)

        def keys_values(x: Array, layer: Any) -> tuple[Array, tuple[Array, Array]]:
            return x, apply(layer, x, positions, method="keys_values")

        def step(x: Array, numbered: tuple[Array, Any]) -> tuple[Array, tuple[Array, Array]]:
            number, layer = numbered
            return jax.lax.cond(number < self.config.depth - 1, whole, keys_values, x, layer)

        step = rematerialise(step, self.config.compute.remat)
        return jax.lax.scan(step, x, (jnp.arange(self.config.depth), self._layers()))[1]

    def after(
        self,
        x: Float[Array, "b n w"],
        positions: Int[Array, "b n"],
        cache: Cache,
        length: Int[Array, "prefixes"],
    ) -> Float[Array, "b n w"]:
        """Process continuations of cached prefixes; b is a multiple of the number of prefixes."""
        apply: Any = DecoderBlock(self.config, parent=None).apply

        def step(x: Array, layer: tuple) -> tuple[Array, None]:
            params, key, value = layer
            return apply(params, x, positions, (key, value, length))[0], None

        step = rematerialise(step, self.config.compute.remat)
        x, _ = jax.lax.scan(step, x, (self._layers(), *cache))
        return self.decoder_norm(x)


def _count(x: Float[Array, "b n w"]) -> Int[Array, "b n"]:
    return jnp.broadcast_to(jnp.arange(x.shape[1])[None], x.shape[:2])


def _init_stacked(config: DecoderConfig, key: Array) -> Any:
    block = DecoderBlock(config, parent=None)
    sample = jnp.zeros((1, 1, config.width), config.compute.dtype)
    keys = jax.random.split(key, config.depth)
    return jax.vmap(lambda k: block.init(k, sample, jnp.zeros((1, 1), jnp.int32))["params"])(keys)
