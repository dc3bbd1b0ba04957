"""What is trained: everything (the paper), a tower, the last blocks, the heads, or an adapter.

A `Split` keeps the trained and the frozen leaves apart, as two flat dicts from path to array, so
that gradients and optimizer state exist for the trained ones only. The layers of a tower are
stacked in one array; where only the last ones are trained, it is kept in two parts, "first/PATH"
and "last/PATH".
"""

import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict

from ttm_jax.errors import InputError
from ttm_jax.trained_part import TrainedPart, parse_train

Params = dict[str, Any]
Flat = dict[str, Any]  # arrays by path, "img/head/kernel"; on the device or on the host

FIRST, LAST, LORA = "first/", "last/", "lora/"
_TOWERS = {"image": "img/", "text": "txt/"}
# Scale and bias of the logits are trained along whatever else is.
_LOGIT = ("t", "b")
_HEADS = re.compile(r"img/MAPHead_0/.*|(img|txt)/head/.*")
_FINAL_NORM = re.compile(r".*/encoder_norm/.*")
_STACK = re.compile(r".*/encoderblock/.*")
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


def split_params(params: Params, train: str, rank: int = 0, key: jax.Array | None = None) -> Split:
    """Divide a parameter tree; for an adapter, add matrices of this rank, without effect yet."""
    part, flat = parse_train(train), flatten_dict(present(params), sep="/")
    trained: Flat = {}
    frozen: Flat = {}
    for path, leaf in flat.items():
        (trained if _is_trained(path, part) else frozen)[path] = leaf
    if part.last:
        for path in [path for path in flat if _STACK.fullmatch(path) and _concerns(path, part)]:
            first, last = _cut(path, flat[path], part.last, train)
            frozen.pop(path)
            frozen[FIRST + path] = first
            (frozen if part.lora else trained)[LAST + path] = last
    if part.lora:
        trained |= _adapters(flat, part, rank, jax.random.key(0) if key is None else key)
    return Split(trained, frozen)


def _concerns(path: str, part: TrainedPart) -> bool:
    """Whether a leaf belongs to a tower of which something is trained."""
    return path.startswith(tuple(_TOWERS[side] for side in part.sides))


def _is_trained(path: str, part: TrainedPart) -> bool:
    """Stacked layers of which only the last are trained are not; they are cut later."""
    if path in _LOGIT:
        return True
    if part.lora:
        return False
    if part.last is None:
        # Everything means everything, also leaves outside of both towers.
        return len(part.sides) == 2 or _concerns(path, part)
    if not _concerns(path, part):
        return False
    return bool(_HEADS.fullmatch(path) or (part.last and _FINAL_NORM.fullmatch(path)))


def _cut(path: str, leaf: Any, last: int, train: str) -> tuple[Any, Any]:
    depth = leaf.shape[0]
    if last >= depth:
        tower = "image" if path.startswith(_TOWERS["image"]) else "text"
        raise InputError(
            f"train {train}: the {tower} tower has {depth} blocks; expected last:1 to "
            f"last:{depth - 1}, or all"
        )
    return leaf[: depth - last], leaf[depth - last :]


def _adapters(flat: Flat, part: TrainedPart, rank: int, key: jax.Array) -> Flat:
    """A gaussian and a zero matrix for each adapted kernel: at first the product is zero."""
    adapters: Flat = {}
    for index, path in enumerate(sorted(p for p in flat if _ADAPTED.fullmatch(p))):
        if not _concerns(path, part):
            continue
        depth, *sizes = flat[path].shape
        depth = part.last or depth
        inputs = 2 if path.endswith("/out/kernel") else 1
        fan_in = int(jnp.prod(jnp.array(sizes[:inputs])))
        down = jax.random.normal(
            jax.random.fold_in(key, index), (depth, *sizes[:inputs], rank), jnp.float32
        )
        name = path.removesuffix("kernel")
        adapters[f"{LORA}{name}a"] = down * fan_in**-0.5
        adapters[f"{LORA}{name}b"] = jnp.zeros((depth, rank, *sizes[inputs:]), jnp.float32)
    return adapters


def variables(trained: Flat, frozen: Flat) -> dict[str, Params]:
    """What a whole model is applied to: {"params": ...} and, with adapters, {"lora": ...}."""
    leaves = {**trained, **frozen}
    result = {"params": unflatten_dict(_whole(leaves), sep="/")}
    adapters = _adapters_in(leaves)
    return {**result, "lora": adapters} if adapters else result


def variables_of(trained: Flat, frozen: Flat, half: str) -> dict[str, Params]:
    """The same with only the first or the last layers of the stacks that are in two parts.

    Nothing is copied. Adapters belong to the last layers.
    """
    leaves = {**trained, **frozen}
    other = LAST if half == FIRST else FIRST
    own = {
        path.removeprefix(half): leaf
        for path, leaf in leaves.items()
        if not path.startswith((other, LORA))
    }
    result = {"params": unflatten_dict(own, sep="/")}
    adapters = _adapters_in(leaves) if half == LAST else {}
    return {**result, "lora": adapters} if adapters else result


def state_leaves(tree: dict[str, Any]) -> Flat:
    """The other way: the leaves of `variables(...)`, adapters under "lora/"."""
    leaves = flatten_dict(tree["params"], sep="/")
    adapters = flatten_dict(tree.get("lora", {}), sep="/")
    return leaves | {f"{LORA}{path}": x for path, x in adapters.items()}


def trained_leaves(tree: dict[str, Any], like: Flat) -> Flat:
    """The trained leaves in the content of `variables(...)`; `like` has their paths and shapes."""
    leaves = state_leaves(tree)
    return {
        path: leaves[path.removeprefix(LAST)][-leaf.shape[0] :]
        if path.startswith(LAST)
        else leaves[path]
        for path, leaf in like.items()
    }


def merge_params(trained: Flat, frozen: Flat) -> Params:
    """An ordinary parameter tree, with the adapters multiplied out and added to their kernels."""
    leaves = {**trained, **frozen}
    merged = _whole(leaves)
    for path in merged:
        name = LORA + path.removesuffix("kernel")
        if f"{name}a" in leaves:
            down, up = leaves[f"{name}a"], leaves[f"{name}b"]
            depth, rank = down.shape[0], down.shape[-1]
            product = jnp.einsum(
                "lir,lro->lio",
                down.reshape(depth, -1, rank),
                up.reshape(depth, rank, -1),
                precision="highest",
            )
            kernel = jnp.asarray(merged[path])
            merged[path] = kernel.at[-depth:].add(product.reshape(depth, *kernel.shape[1:]))
    return unflatten_dict(merged, sep="/")


def _whole(leaves: Flat) -> Flat:
    """Without adapters, and with all layers of a stack in one array again."""
    whole = {p: x for p, x in leaves.items() if not p.startswith((FIRST, LAST, LORA))}
    for path in [path for path in leaves if path.startswith(FIRST)]:
        name = path.removeprefix(FIRST)
        whole[name] = jnp.concatenate([leaves[path], leaves[LAST + name]])
    return whole


def _adapters_in(leaves: Flat) -> Params:
    found = {p.removeprefix(LORA): x for p, x in leaves.items() if p.startswith(LORA)}
    return unflatten_dict(found, sep="/")
