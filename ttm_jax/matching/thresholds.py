"""Selection of matchings to train on: the thresholds of Algorithm 1 and the initial coverage rule.

A matching that is not unique is never selected, whatever tau: see the note on ties in `match.py`.
"""

import math

import numpy as np
from jaxtyping import Bool, Real

from ttm_jax.errors import InputError


def select(
    margin: Real[np.ndarray, " group"], unique: Bool[np.ndarray, " group"], tau: float | int
) -> Bool[np.ndarray, " group"]:
    """Groups to train on: those with a unique best matching and a margin >= tau (Alg. 1)."""
    return (margin >= _number(tau, "tau")) & unique


def select_global(
    similarity: Real[np.ndarray, " image"],
    unique: Bool[np.ndarray, " image"],
    tau: float | int,
) -> Bool[np.ndarray, " image"]:
    """Pairs to train on: the fraction 1 - tau of all pairs with the highest similarity (App. B.1).

    Of n pairs, the first `floor(n (1 - tau) + 1e-10)` are taken, then every pair whose similarity
    is at least that of the last one; none if that number is 0. Pairs that are not unique count
    towards n but are never taken, and their similarity is ignored: it depends on the data order.
    """
    tau = _number(tau, "tau")
    if not 0 <= tau <= 1:
        raise InputError(
            f"tau is {tau}; for a global matching it is the fraction left out, from 0 to 1"
        )
    pairs = int(np.isfinite(similarity).sum())
    wanted = math.floor(pairs * (1 - tau) + 1e-10)
    usable = np.sort(similarity[unique])[::-1]
    if wanted == 0 or usable.size == 0:
        return np.zeros(similarity.shape, bool)
    return unique & (similarity >= usable[min(wanted, usable.size) - 1])


def tau_for_coverage(
    margin: Real[np.ndarray, " group"], unique: Bool[np.ndarray, " group"], coverage: float | int
) -> float:
    """The highest tau that selects at least this fraction of the groups, without using labels.

    The paper starts with 15 to 30 % of the groups (Sec. 4.6). If fewer groups than that have a
    unique matching, tau is 0, which selects all of them. For a global matching, tau is already a
    fraction: 1 - coverage.
    """
    coverage = _number(coverage, "coverage")
    if not 0 < coverage <= 1:
        raise InputError(f"coverage is {coverage}; expected a fraction above 0 and at most 1")
    wanted = math.ceil(coverage * len(margin) - 1e-10)
    usable = np.sort(margin[unique])[::-1]
    return float(usable[wanted - 1]) if wanted <= usable.size else 0.0


def _number(value: float | int, name: str) -> float:
    if math.isnan(value):
        raise InputError(f"{name} is nan; expected a number")
    return float(value)
