"""Groups of images and captions: the one form in which all data reaches the engine.

Every distinct image and every distinct caption stands once in a pool; a group is rows of indices
into the pools. Groups of the same shape lie together in a `Block`, so that scores, matchings and
margins are plain arrays `[group, image, text]`; mixed shapes are several blocks.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32, Integer, UInt8

from ttm_jax.errors import InputError
from ttm_jax.preprocess import ImageSource, NamedBytes

UNKNOWN = -1  # in `truth`: nobody knows the caption of this image


@dataclass(frozen=True)
class Group:
    """A few images and captions that belong together.

    `truth[i]` is the index of the caption of image i (`None`: unknown). With more images than
    captions, an image that no caption describes has truth -1.
    """

    id: str
    images: tuple[ImageSource, ...]
    captions: tuple[str, ...]
    truth: tuple[int, ...] | None = None
    tags: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.images), len(self.captions)


@dataclass(frozen=True, eq=False)
class Block:
    """All groups of one shape, as indices into the pools of the dataset."""

    ids: tuple[str, ...]
    image_index: Int32[np.ndarray, "group image"]
    text_index: Int32[np.ndarray, "group text"]
    truth: Int32[np.ndarray, "group image"] | None = None
    tags: tuple[tuple[str, ...], ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.image_index.shape[1], self.text_index.shape[1]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class GroupedDataset:
    """Blocks of groups over a pool of images and a pool of captions.

    The pools hold files and strings, or arrays that are ready for a model (`from_arrays`).
    """

    name: str
    images: Sequence[ImageSource] | UInt8[np.ndarray, "n h w 3"] | Float32[np.ndarray, "n h w 3"]
    captions: Sequence[str] | Int32[np.ndarray, "m length"]
    blocks: tuple[Block, ...]

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    @property
    def is_preprocessed(self) -> bool:
        return isinstance(self.images, np.ndarray)

    @property
    def has_truth(self) -> bool:
        return all(block.truth is not None for block in self.blocks)

    @classmethod
    def from_groups(cls, groups: Sequence[Group], name: str = "dataset") -> "GroupedDataset":
        """Pool the distinct images and captions; groups keep their order within each shape."""
        if not groups:
            raise InputError(f"{name}: no groups; expected at least one")
        images, captions = _Pool(), _Pool()
        by_shape: dict[tuple[int, int], list[Group]] = {}
        for group in groups:
            check_group(group)
            by_shape.setdefault(group.shape, []).append(group)
        blocks = []
        for members in by_shape.values():
            known = [g.truth is not None for g in members]
            if any(known) != all(known):
                first = members[known.index(False)].id
                raise InputError(
                    f"{name}: group {first!r} has no truth but others of its shape have; "
                    "give the truth of all groups or of none"
                )
            blocks.append(
                Block(
                    ids=tuple(g.id for g in members),
                    image_index=_int32(
                        [[images.add(_key(x), x) for x in g.images] for g in members]
                    ),
                    text_index=_int32([[captions.add(c, c) for c in g.captions] for g in members]),
                    truth=_int32([g.truth for g in members]) if all(known) else None,
                    tags=tuple(g.tags for g in members),
                )
            )
        return cls(name, tuple(images.items), tuple(captions.items), tuple(blocks))

    @classmethod
    def from_arrays(
        cls,
        images: UInt8[np.ndarray, "group image h w 3"] | Float32[np.ndarray, "group image h w 3"],
        token_ids: Integer[np.ndarray, "group text length"],
        truth: Integer[np.ndarray, "group image"] | None = None,
        name: str = "arrays",
    ) -> "GroupedDataset":
        """Arrays that are already preprocessed: uint8 will be normalised, float32 is normalised."""
        count, n_images = images.shape[:2]
        if token_ids.shape[0] != count:
            raise InputError(
                f"images are of {count} groups, token_ids of {token_ids.shape[0]}; "
                "the first axis of both counts groups"
            )
        n_texts = token_ids.shape[1]
        block = Block(
            ids=tuple(str(g) for g in range(count)),
            image_index=np.arange(count * n_images, dtype=np.int32).reshape(count, n_images),
            text_index=np.arange(count * n_texts, dtype=np.int32).reshape(count, n_texts),
            truth=None if truth is None else np.asarray(truth, np.int32),
            tags=((),) * count,
        )
        return cls(
            name,
            images.reshape(-1, *images.shape[2:]),
            np.asarray(token_ids, np.int32).reshape(-1, token_ids.shape[2]),
            (block,),
        )

    def without_truth(self) -> "GroupedDataset":
        return replace(self, blocks=tuple(replace(b, truth=None) for b in self.blocks))

    def limit(self, count: int) -> "GroupedDataset":
        """The first `count` groups, for a quick look; the pools shrink with them."""
        return self.select(range(min(count, len(self))))

    def select(self, rows: Sequence[int]) -> "GroupedDataset":
        """The groups with these positions (counted through the blocks in order)."""
        kept, start = [], 0
        for block in self.blocks:
            inside = [r - start for r in rows if start <= r < start + len(block)]
            start += len(block)
            if inside:
                kept.append(
                    Block(
                        ids=tuple(block.ids[r] for r in inside),
                        image_index=block.image_index[inside],
                        text_index=block.text_index[inside],
                        truth=None if block.truth is None else block.truth[inside],
                        tags=tuple(block.tags[r] for r in inside) if block.tags else (),
                    )
                )
        images, image_map = _compact(self.images, [b.image_index for b in kept])
        captions, text_map = _compact(self.captions, [b.text_index for b in kept])
        blocks = tuple(
            replace(b, image_index=image_map[b.image_index], text_index=text_map[b.text_index])
            for b in kept
        )
        return GroupedDataset(self.name, images, captions, blocks)

    def ungrouped(self) -> "GroupedDataset":
        """One group of all images and all captions: the paper's non-grouped variant (Sec. 3.2.1).

        Repeated captions stay repeated: the assignment is one-to-one over what the data lists.
        """
        truths, offset = [], 0
        for block in self.blocks:
            count, n_texts = block.text_index.shape
            if block.truth is not None:
                base = offset + np.arange(count, dtype=np.int32)[:, None] * n_texts
                truths.append(np.where(block.truth < 0, UNKNOWN, block.truth + base).reshape(-1))
            offset += count * n_texts
        block = Block(
            ids=(self.name,),
            image_index=np.concatenate([b.image_index.reshape(-1) for b in self.blocks])[None],
            text_index=np.concatenate([b.text_index.reshape(-1) for b in self.blocks])[None],
            truth=_int32([np.concatenate(truths)]) if self.has_truth else None,
            tags=((),),
        )
        return replace(self, blocks=(block,))


def check_group(group: Group) -> None:
    """Refuse an empty group and a truth that points outside it or twice at one caption."""
    n_images, n_texts = group.shape
    if not n_images or not n_texts:
        raise InputError(
            f"group {group.id!r} has {n_images} images and {n_texts} captions; it needs one of each"
        )
    if group.truth is None:
        return
    known = [t for t in group.truth if t != UNKNOWN]
    if len(group.truth) != n_images:
        raise InputError(
            f"group {group.id!r}: truth has {len(group.truth)} entries for {n_images} images"
        )
    if any(not 0 <= t < n_texts for t in known):
        raise InputError(
            f"group {group.id!r}: truth {list(group.truth)} points outside its {n_texts} captions "
            "(they count from 0)"
        )
    if len(set(known)) != len(known):
        raise InputError(f"group {group.id!r}: truth {list(group.truth)} uses a caption twice")
    if len(known) != min(n_images, n_texts):
        raise InputError(
            f"group {group.id!r}: truth {list(group.truth)} pairs {len(known)} of "
            f"{min(n_images, n_texts)}; give every pair, or no truth at all"
        )


class _Pool:
    """Distinct items in the order of their first appearance."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._position: dict[Hashable, int] = {}

    def add(self, key: Hashable, item: Any) -> int:
        position = self._position.setdefault(key, len(self.items))
        if position == len(self.items):
            self.items.append(item)
        return position


def _key(image: ImageSource) -> Hashable:
    """What makes two images the same: the file, the place inside a file, or the object."""
    if isinstance(image, (str, Path)):
        return str(image)
    return image.name if isinstance(image, NamedBytes) else id(image)


def _int32(rows: Any) -> np.ndarray:
    return np.asarray(rows, np.int32)


def _compact(pool: Any, indices: list[np.ndarray]) -> tuple[Any, np.ndarray]:
    """The part of a pool that is still used, and the map from old to new positions."""
    used = np.unique(np.concatenate([i.reshape(-1) for i in indices]))
    new = np.full(len(pool), UNKNOWN, np.int32)
    new[used] = np.arange(len(used), dtype=np.int32)
    kept = pool[used] if isinstance(pool, np.ndarray) else tuple(pool[i] for i in used)
    return kept, new
