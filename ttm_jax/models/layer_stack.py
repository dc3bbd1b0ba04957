"""Run all layers of a stack but the last on the whole input, and the last with a cheaper function.

`lax.scan` could run the first layers only on a copy of their slice of every parameter, and the
gradient would be assembled from padded pieces: for a small batch of a large model those copies cost
as much as a layer, and twice the memory of the parameters. Here each layer is read in place from
the stacked parameters, and its gradient is written in place.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Layer = Callable[[Any, Any], Any]  # (x, parameters) -> x
LastLayer = Callable[[Any, Any, Any], Any]  # (x, parameters, position) -> y


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def run_stack(
    layer: Layer, last: LastLayer, x: Float[Array, "..."], stack: Any, position: Int[Array, "b"]
) -> Float[Array, "..."]:
    """Apply the stack; the leading axis of every leaf of `stack` is the layer axis."""
    depth = _depth(stack)
    x, _ = jax.lax.scan(lambda x, i: (layer(x, _at(stack, i)), None), x, jnp.arange(depth - 1))
    return last(x, _at(stack, depth - 1), position)


def _forward(layer: Layer, last: LastLayer, x: Any, stack: Any, position: Any) -> tuple[Any, Any]:
    """Save what the backward pass of each layer needs, except the parameters themselves."""
    perturbed = [leaf.perturbed for leaf in jax.tree.leaves(stack, is_leaf=_is_primal)]
    x, stack, position = jax.tree.map(
        lambda leaf: leaf.value, (x, stack, position), is_leaf=_is_primal
    )
    depth, structure = _depth(stack), jax.tree.structure(stack)

    def linearise(function: Callable, x: Any, i: Any) -> tuple[Any, Any]:
        leaves = jax.tree.leaves(_at(stack, i))
        trained = [leaf for leaf, moves in zip(leaves, perturbed, strict=True) if moves]

        def of_trained(x: Any, trained: list) -> Any:
            new = iter(trained)
            whole = [next(new) if m else p for p, m in zip(leaves, perturbed, strict=True)]
            return function(x, jax.tree.unflatten(structure, whole))

        y, pull = jax.vjp(of_trained, x, trained)
        return y, _without(pull, leaves)

    x, kept = jax.lax.scan(partial(linearise, layer), x, jnp.arange(depth - 1))
    y, kept_last = linearise(lambda x, p: last(x, p, position), x, depth - 1)
    return y, (stack, _Static(perturbed), kept, kept_last)


def _backward(layer: Layer, last: LastLayer, saved: Any, dy: Any) -> tuple[Any, Any, None]:
    stack, static, kept, kept_last = saved
    perturbed, depth = static.value, _depth(stack)
    leaves, structure = jax.tree.flatten(stack)

    def pull_back(kept: Any, i: Any, dy: Any, gradients: list) -> tuple[Any, list]:
        dx, own = kept.complete(jax.tree.leaves(_at(stack, i)))(dy)
        put = jax.lax.dynamic_update_index_in_dim
        return dx, [put(all_, one, i, 0) for all_, one in zip(gradients, own, strict=True)]

    gradients = [jnp.zeros_like(p) for p, m in zip(leaves, perturbed, strict=True) if m]
    carry = pull_back(kept_last, depth - 1, dy, gradients)
    (dx, gradients), _ = jax.lax.scan(
        lambda carry, inputs: (pull_back(inputs[0], inputs[1], *carry), None),
        carry,
        (kept, jnp.arange(depth - 1)),
        reverse=True,
    )
    new = iter(gradients)
    return dx, jax.tree.unflatten(structure, [next(new) if m else None for m in perturbed]), None


run_stack.defvjp(_forward, _backward, symbolic_zeros=True)


class _Static:
    """A pytree node without leaves, to carry a static value among arrays."""

    def __init__(self, value: Any) -> None:
        self.value = value


jax.tree_util.register_pytree_node(
    _Static, lambda s: ((), s.value), lambda value, _: _Static(value)
)


class _Pull:
    """A VJP function stored without its parameters, which `complete` puts back."""

    def __init__(self, kept: list, places: tuple, structure: Any) -> None:
        self.kept, self.places, self.structure = kept, places, structure

    def complete(self, parameters: list) -> Callable:
        kept = iter(self.kept)
        leaves = [next(kept) if place is None else parameters[place] for place in self.places]
        return jax.tree.unflatten(self.structure, leaves)


jax.tree_util.register_pytree_node(
    _Pull, lambda p: (p.kept, (p.places, p.structure)), lambda aux, kept: _Pull(list(kept), *aux)
)


def _without(pull: Any, parameters: list) -> _Pull:
    leaves, structure = jax.tree.flatten(pull)
    where = {id(p): place for place, p in enumerate(parameters)}
    places = tuple(where.get(id(leaf)) for leaf in leaves)
    kept = [leaf for leaf, place in zip(leaves, places, strict=True) if place is None]
    return _Pull(kept, places, structure)


def _is_primal(x: Any) -> bool:
    return isinstance(x, jax.custom_derivatives.CustomVJPPrimal)


def _depth(stack: Any) -> int:
    return jax.tree.leaves(stack)[0].shape[0]


def _at(stack: Any, i: Any) -> Any:
    return jax.tree.map(lambda p: jax.lax.dynamic_index_in_dim(p, i, 0, keepdims=False), stack)
