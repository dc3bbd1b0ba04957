"""What the margins of a model are worth, without labels: comparison with decoys.

A decoy pairs the captions of a group with the images of another group. No matching of it is right,
so its margin shows what the noise of the model looks like. As in target-decoy methods elsewhere in
science, the share of decoys above a threshold, relative to the share of groups above it, bounds the
share of wrong matchings among those groups.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int32
from scipy.stats import norm

from ttm_jax.errors import InputError

DRAWS = 10  # decoys per group
_RESAMPLES = 1000
_BLOCK = 100  # resamples in memory at once


@dataclass(frozen=True, eq=False)
class Margins:
    """The margins of groups and of their decoys.

    `usable` is false where the best matching is not unique: such a group is never selected.
    `chance` is the probability that a random matching of the group is right.
    """

    groups: Float64[np.ndarray, " group"]
    usable: Bool[np.ndarray, " group"]
    decoys: Float64[np.ndarray, "group draw"]
    chance: Float64[np.ndarray, " group"]


@dataclass(frozen=True)
class Estimate:
    """A share from 0 to 1 with its 95 % interval, by resampling groups."""

    value: float
    low: float
    high: float


def draw_partners(
    ids: Sequence[str],
    captions: Sequence[frozenset[str]],
    images: Sequence[frozenset[int]],
    draws: int,
    seed: int,
) -> Int32[np.ndarray, "group draw"]:
    """For each group, the groups whose images its decoys use.

    Groups are put in a random circle that depends on their ids and captions and on the seed, not on
    their order or on any label. Each group takes the next ones that share no caption and no image
    with it: `draws` of them, or as many as every group can have.

    Raises:
        InputError: A group has no possible partner.
    """
    count = len(ids)
    circle = sorted(range(count), key=lambda group: _place(ids[group], captions[group], seed))
    found: list[list[int]] = [[] for _ in ids]
    for place, group in enumerate(circle):
        for step in range(1, count):
            other = circle[(place + step) % count]
            if captions[other] & captions[group] or images[other] & images[group]:
                continue
            found[group].append(other)
            if len(found[group]) == draws:
                break
    fewest = min(map(len, found))
    if not fewest:
        lonely = ids[[len(others) for others in found].index(0)]
        raise InputError(
            f"group {lonely!r} has no decoys: all other groups share images or captions with it"
        )
    return np.asarray([others[:fewest] for others in found], np.int32)


def estimate_precision(margins: Margins, tau: float) -> Estimate:
    """The share of right matchings among the groups whose margin is at least tau.

    1 - (1 - chance) P(decoy >= tau) / P(group >= tau). This is cautious: it counts a group as noise
    as often as a decoy of it reaches tau, although many such groups are right.
    """
    selected = ((margins.groups >= tau) & margins.usable).astype(np.float64)
    noise = (1 - margins.chance) * (margins.decoys >= tau).mean(axis=1)
    return _one_minus_ratio(noise, selected)


def estimate_accuracy(margins: Margins) -> Estimate:
    """The share of all groups whose matching is right.

    Groups that the model knows nothing about have margins like those of decoys, and few others have
    margins below the median decoy. So the share of such groups is at most P(group < median) /
    P(decoy < median), and of them the share `chance` is right by luck (compare Storey's estimate of
    the share of true null hypotheses).
    """
    median = float(np.median(margins.decoys))
    low = ((margins.groups < median) | ~margins.usable) * (1 - margins.chance)
    return _one_minus_ratio(low, (margins.decoys < median).mean(axis=1))


def knows_nothing(margins: Margins) -> float:
    """The p-value of the hypothesis that groups have no larger margins than their decoys.

    If the hypothesis holds, a group and its decoys can be exchanged, so the rank of the group among
    them is uniform. The p-value is that of the mean rank over all groups.
    """
    groups, draws = margins.decoys.shape
    own = np.where(margins.usable, margins.groups, 0.0)[:, None]
    above = (own > margins.decoys).mean(axis=1) + 0.5 * (own == margins.decoys).mean(axis=1)
    deviation = math.sqrt((draws + 2) / (12 * draws * groups))
    return float(norm.sf((float(above.mean()) - 0.5) / deviation))


def tau_for_precision(margins: Margins, wanted: float) -> float | None:
    """The lowest tau from which on the estimated precision is at least this; None if there is none.

    A threshold that selects fewer than 5 groups is not considered: its estimate means little.
    """
    best = None
    usable = np.sort(margins.groups[margins.usable])[::-1]
    for tau in usable[4:]:
        if estimate_value(margins, float(tau)) < wanted:
            break
        best = float(tau)
    return best


def estimate_value(margins: Margins, tau: float) -> float:
    """The value of `estimate_precision`, without its interval."""
    selected = (margins.groups >= tau) & margins.usable
    noise = (1 - margins.chance) * (margins.decoys >= tau).mean(axis=1)
    return _share(float(noise.sum()), float(selected.sum()))


def _one_minus_ratio(
    above: Float64[np.ndarray, " group"], below: Float64[np.ndarray, " group"]
) -> Estimate:
    """1 - sum(above) / sum(below) within [0, 1], and its interval from resampled groups."""
    rng = np.random.default_rng(0)
    count = len(above)
    values = []
    for _ in range(_RESAMPLES // _BLOCK):
        times = rng.multinomial(count, np.full(count, 1 / count), size=_BLOCK)
        values += [_share(a, b) for a, b in zip(times @ above, times @ below, strict=True)]
    low, high = np.quantile(values, [0.025, 0.975])
    value = _share(float(above.sum()), float(below.sum()))
    return Estimate(value, min(float(low), value), max(float(high), value))


def _share(above: float, below: float) -> float:
    return min(1.0, max(0.0, 1 - above / below)) if below > 0 else 0.0


def _place(identity: str, texts: frozenset[str], seed: int) -> bytes:
    """Where on the circle a group stands."""
    text = "\x1f".join([str(seed), identity, *sorted(texts)])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
