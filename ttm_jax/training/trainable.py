"""What is trained: everything (the paper), one tower, the heads, or a low-rank adapter.

A `Split` keeps the trained and the frozen leaves apart, as two flat dicts from path to array, so
that gradients and optimizer state exist for the trained ones only.
"""

import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict

from ttm_jax.config import Train
from ttm_jax.errors import InputError

Params = dict[str, Any]
Flat = dict[str, Any]  # arrays by path, "img/head/kernel"; on the device or on the host

# Scale and bias of the logits are trained along whatever else is.
_LOGIT = r"t|b"
_PATTERNS: dict[str, str] = {
    "all": r".*",
    "image": rf"img/.*|{_LOGIT}",
    "text": rf"txt/.*|{_LOGIT}",
    "heads": rf"img/MAPHead_0/.*|(img|txt)/head/.*|{_LOGIT}",
    "lora": _LOGIT,
}
# Attention and MLP matrices of the stacked blocks, with the number of their input axes.
_ADAPTED = re.compile(
    r".*/(en|de)coderblock/(MultiHeadDotProductAttention_0/(query|key|value|out)"
    r"|MlpBlock_0/(Dense_\d|gate|up|down))/kernel"
)


@dataclass(frozen=True)
class Split:
    """Trained and frozen leaves; "lora/..." paths in `trained` are adapter matrices."""

    trained: Flat
    frozen: Flat


def present(params: Params) -> Params:
    """Refuse the parameters of a model that was given away (`run_ttm(donate=True)`)."""
    if not params:
        raise InputError(
            "this model has no parameters any more: it was given to a run with donate=True; "
            "load it again"
        )
    return params


def split_params(
    params: Params, train: Train, rank: int = 0, key: jax.Array | None = None
) -> Split:
    """Divide a parameter tree; for "lora" add zero-effect adapters of this rank."""
    flat = flatten_dict(present(params), sep="/")
    pattern = re.compile(_PATTERNS[train])
    trained = {path: x for path, x in flat.items() if pattern.fullmatch(path)}
    frozen = {path: x for path, x in flat.items() if path not in trained}
    if train == "lora":
        key = jax.random.key(0) if key is None else key
        trained |= init_adapters(flat, rank, key)
    return Split(trained, frozen)


def init_adapters(flat: Flat, rank: int, key: jax.Array) -> Flat:
    """A gaussian and a zero matrix for each adapted kernel: at first the product is zero."""
    adapters: Flat = {}
    for index, path in enumerate(sorted(p for p in flat if _ADAPTED.fullmatch(p))):
        depth, *sizes = flat[path].shape
        inputs = 2 if path.endswith("/out/kernel") else 1
        fan_in = int(jnp.prod(jnp.array(sizes[:inputs])))
        down = jax.random.normal(
            jax.random.fold_in(key, index), (depth, *sizes[:inputs], rank), jnp.float32
        )
        name = path.removesuffix("kernel")
        adapters[f"lora/{name}a"] = down * fan_in**-0.5
        adapters[f"lora/{name}b"] = jnp.zeros((depth, rank, *sizes[inputs:]), jnp.float32)
    return adapters


def variables(trained: Flat, frozen: Flat) -> dict[str, Params]:
    """What a model is applied to: {"params": ...} and, with adapters, {"lora": ...}."""
    leaves = {**trained, **frozen}
    result = {"params": unflatten_dict(_without_adapters(leaves), sep="/")}
    adapters = {p.removeprefix("lora/"): x for p, x in leaves.items() if p.startswith("lora/")}
    if adapters:
        result["lora"] = unflatten_dict(adapters, sep="/")
    return result


def state_leaves(tree: dict[str, Any]) -> Flat:
    """The other way: the leaves of `variables(...)`, adapters under "lora/"."""
    leaves = flatten_dict(tree["params"], sep="/")
    adapters = flatten_dict(tree.get("lora", {}), sep="/")
    return leaves | {f"lora/{path}": x for path, x in adapters.items()}


def merge_params(trained: Flat, frozen: Flat) -> Params:
    """An ordinary parameter tree, with the adapters multiplied out and added to their kernels."""
    leaves = {**trained, **frozen}
    merged = _without_adapters(leaves)
    for path in merged:
        name = "lora/" + path.removesuffix("kernel")
        if f"{name}a" in leaves:
            down, up = leaves[f"{name}a"], leaves[f"{name}b"]
            depth, rank = down.shape[0], down.shape[-1]
            product = jnp.einsum(
                "lir,lro->lio",
                down.reshape(depth, -1, rank),
                up.reshape(depth, rank, -1),
                precision="highest",
            )
            merged[path] = merged[path] + product.reshape(merged[path].shape)
    return unflatten_dict(merged, sep="/")


def _without_adapters(leaves: Flat) -> Flat:
    return {path: x for path, x in leaves.items() if not path.startswith("lora/")}
