"""Build a `GroupedDataset` of distinct groups from the name of a variant and a seed."""

import zlib

import numpy as np

from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.data.world.captions import draw_wording, say
from ttm_jax.data.world.render import render
from ttm_jax.data.world.variants import Draft, find_variant
from ttm_jax.errors import InputError

# See training.py: no random stream is shared with the training images.
BENCHMARK_STREAM, WORDING_STREAM = 3, 4
SPLITS = ("train", "test")
STRONGEST_SHIFT = 3.0
DISPLAY_SIZE = 160
ATTEMPTS = 300


def make(
    variant: str,
    groups: int = 200,
    seed: int = 0,
    shift: float = 1.0,
    size: int = DISPLAY_SIZE,
    split: str = "test",
) -> GroupedDataset:
    """Generate a benchmark; the same arguments always give the same images and captions.

    The `train` split draws new groups from the distribution of the training images, without shift.
    `shift` is the strength of the test split's shift: 0 none, 1 moderate, 2 strong.
    """
    made = []
    for number, draft in enumerate(drafts(variant, groups, seed, shift, split)):
        wording = draw_wording(_rng(WORDING_STREAM, variant, seed, split, number))
        made.append(
            Group(
                id=f"{variant}-{split}-{seed}-{number:04d}",
                images=tuple(render(scene, size) for scene in draft.scenes),
                captions=tuple(say(claim, wording) for claim in draft.claims),
                truth=tuple(range(len(draft.scenes))),
                tags=draft.tags,
            )
        )
    return GroupedDataset.from_groups(made, name=f"world-{variant}-{split}")


def drafts(
    variant: str, groups: int = 200, seed: int = 0, shift: float = 1.0, split: str = "test"
) -> list[Draft]:
    """The content of the same groups, before rendering and wording.

    No two groups have the same content, so even in the pool a caption is true of one image only.
    """
    _check(variant, groups, seed, shift, split)
    kept: list[Draft] = []
    seen: set[frozenset[tuple[str, str | None]]] = set()
    for number in range(groups):
        for attempt in range(ATTEMPTS):
            rng = _rng(BENCHMARK_STREAM, variant, seed, split, number, attempt)
            draft = find_variant(variant).draft(rng, shift if split == "test" else 0.0)
            spoken_of = {
                frozenset((m.shape, m.color) for m in claim.mentions) for claim in draft.claims
            }
            if not spoken_of & seen:
                break
        else:
            raise InputError(
                f"{variant}: found only {number} distinct groups; "
                f"ask for at most {number} instead of {groups}"
            )
        seen |= spoken_of
        kept.append(draft)
    return kept


def _check(variant: str, groups: int, seed: int, shift: float, split: str) -> None:
    find_variant(variant)
    if split not in SPLITS:
        raise InputError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    if groups < 1:
        raise InputError(f"groups is {groups}; expected at least 1")
    if seed < 0:
        raise InputError(f"seed is {seed}; expected 0 or more")
    if not 0.0 <= shift <= STRONGEST_SHIFT:
        raise InputError(f"shift is {shift}; expected 0 (none) to {STRONGEST_SHIFT:g}; 1 is usual")


def _rng(
    stream: int, variant: str, seed: int, split: str, number: int, attempt: int = 0
) -> np.random.Generator:
    name = zlib.crc32(variant.encode())  # unlike hash(), the same in every process
    return np.random.default_rng([stream, seed, name, SPLITS.index(split), number, attempt])
