"""Groups of images and captions: the form in which all data reaches the engine.

Every distinct image and every distinct caption is stored once, in a pool; a group is rows of
indices into the pools. Groups of the same shape are stored together in a `Block`, so that scores,
matchings and margins are plain arrays `[group, image, text]`; mixed shapes are several blocks.
"""

import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32, Integer, UInt8

from ttm_jax.config import Matching
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_decode import ImageSource, NamedBytes, key_of

UNKNOWN = -1  # in `truth`: the caption of this image is unknown


@dataclass(frozen=True)
class Group:
    """A few images and captions that belong together.

    Examples:
        >>> from ttm_jax import Group
        >>> mugs = Group(
        ...     id="mugs",
        ...     images=("a.jpg", "b.jpg"),
        ...     captions=("a mug on a book", "a book on a mug"),
        ...     truth=(0, 1),
        ... )
        >>> mugs.shape
        (2, 2)
    """

    id: str
    """A name, different for every group of a dataset."""
    images: tuple[ImageSource, ...]
    """Paths, encoded bytes, PIL images or uint8 arrays `[height, width, 3]`."""
    captions: tuple[str, ...]
    """The captions, in any order."""
    truth: tuple[int, ...] | None = None
    """The index of the caption of each image; None if unknown. With more images than captions, an
    image that no caption describes has truth -1."""
    tags: tuple[str, ...] = ()
    """Metrics are also reported for the groups with each tag."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of images and captions."""
        return len(self.images), len(self.captions)


@dataclass(frozen=True, eq=False)
class Block:
    """All groups of one shape, as indices into the pools of the dataset."""

    ids: tuple[str, ...]
    """The id of each group."""
    image_index: Int32[np.ndarray, "group image"]
    """Positions in the pool of images."""
    text_index: Int32[np.ndarray, "group text"]
    """Positions in the pool of captions."""
    truth: Int32[np.ndarray, "group image"] | None = None
    """The position, within the group, of each image's caption; None if unknown."""
    tags: tuple[tuple[str, ...], ...] = ()
    """The tags of each group."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.image_index.shape[1], self.text_index.shape[1]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False, repr=False)
class GroupedDataset:
    """Groups of images and captions, in any mixture of shapes.

    Create one with `from_groups` or `from_arrays`, or read it from files with `read_folder` or
    `load_benchmark`. `len(dataset)` is the number of groups, and iterating yields each as a
    `Group`.

    Examples:
        >>> from ttm_jax.data import world
        >>> dataset = world.make("size_swap", groups=2)
        >>> dataset.name, len(dataset), len(dataset.images)
        ('world-size_swap-test', 2, 4)
        >>> [group.shape for group in dataset]
        [(2, 2), (2, 2)]
        >>> dataset.ungrouped().blocks[0].shape
        (4, 4)
    """

    name: str
    """The name that reports show."""
    images: Sequence[ImageSource] | UInt8[np.ndarray, "n h w 3"] | Float32[np.ndarray, "n h w 3"]
    """Every distinct image, once: files and pictures, or an array that is ready for a model."""
    captions: Sequence[str] | Int32[np.ndarray, "m length"]
    """Every distinct caption, once: strings, or token ids."""
    blocks: tuple[Block, ...]
    """The groups, one block per shape."""

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def __iter__(self) -> Iterator[Group]:
        """The groups, shape by shape. Captions that are token ids are written as text."""
        for block in self.blocks:
            for row, identity in enumerate(block.ids):
                yield Group(
                    id=identity,
                    images=tuple(self.images[i] for i in block.image_index[row]),
                    captions=tuple(self.caption_text(int(i)) for i in block.text_index[row]),
                    truth=None if block.truth is None else tuple(block.truth[row].tolist()),
                    tags=block.tags[row] if block.tags else (),
                )

    def __repr__(self) -> str:
        shapes = ", ".join(f"{len(b)} of {b.shape[0]}x{b.shape[1]}" for b in self.blocks)
        truth = "known" if self.has_truth else "unknown"
        return (
            f"GroupedDataset({self.name!r}: {len(self)} group{'s' * (len(self) != 1)} ({shapes}), "
            f"{len(self.images)} images, {len(self.captions)} captions, truth {truth})"
        )

    def caption_text(self, index: int) -> str:
        """A caption of the pool for people.

        Args:
            index: Its position in the pool.

        Returns:
            The caption; of token ids, the ids.
        """
        caption = self.captions[index]
        return caption if isinstance(caption, str) else " ".join(map(str, caption.tolist()))

    def image_name(self, index: int, folder: Path | None = None) -> str:
        """The name of an image of the pool for people.

        Args:
            index: Its position in the pool.
            folder: What paths are shown relative to; None leaves them as they are.

        Returns:
            The path or the name; for pixels in memory, the position.
        """
        image = self.images[index]
        if isinstance(image, str | os.PathLike):
            return os.fspath(image) if folder is None else os.path.relpath(image, folder)
        return image.name if isinstance(image, NamedBytes) else f"image {index}"

    @property
    def is_preprocessed(self) -> bool:
        """Whether the images are an array that is ready for a model."""
        return isinstance(self.images, np.ndarray)

    @property
    def has_truth(self) -> bool:
        """Whether the truth of every group is known."""
        return all(block.truth is not None for block in self.blocks)

    @classmethod
    def from_groups(cls, groups: Sequence[Group], name: str = "dataset") -> "GroupedDataset":
        """Collect groups into a dataset; they keep their order within each shape.

        Args:
            groups: At least one group.
            name: The name that reports show.

        Returns:
            The dataset.

        Raises:
            InputError: There are no groups, a group is empty, a truth is impossible, or only some
                groups of a shape have one.
        """
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
                    f"{name}: group {first!r} has no truth, but other groups of its shape do; "
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
        """Wrap arrays that are already preprocessed.

        Args:
            images: uint8, which is normalised later, or float32, which is normalised already.
            token_ids: The captions, padded to the model's length.
            truth: The index of each image's caption; None if unknown.
            name: The name that reports show.

        Returns:
            The dataset.

        Raises:
            InputError: The arrays are of different numbers of groups.
        """
        count, n_images = images.shape[:2]
        if token_ids.shape[0] != count:
            raise InputError(
                f"images has {count} groups but token_ids has {token_ids.shape[0]}; "
                "the first axis of both is the group axis"
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
        """The same dataset with the truth removed.

        Returns:
            A new dataset.
        """
        return replace(self, blocks=tuple(replace(b, truth=None) for b in self.blocks))

    def limit(self, count: int) -> "GroupedDataset":
        """Use only the first groups.

        Args:
            count: How many; all of them if there are fewer.

        Returns:
            A new dataset with the images and captions of these groups only.
        """
        return self.select(range(min(count, len(self))))

    def select(self, rows: Sequence[int]) -> "GroupedDataset":
        """Choose groups by position.

        Args:
            rows: Positions from 0, counted through the blocks in order.

        Returns:
            A new dataset with the images and captions of these groups only.
        """
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

    def units(self, matching: Matching) -> int:
        """How many things can be selected for training.

        Args:
            matching: Within groups, or global, for which the dataset has to be ungrouped.

        Returns:
            The number of groups, or of images.
        """
        return self.blocks[0].image_index.size if matching == "global" else len(self)

    def ungrouped(self) -> "GroupedDataset":
        """One group of all images and all captions: the paper's non-grouped variant (Sec. 3.2.1).

        Repeated captions stay repeated: the assignment is one-to-one over what the data lists.

        Returns:
            A new dataset with a single group.
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
    """Reject an empty group, and a truth that is out of range or uses a caption twice."""
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
            "(indices start at 0)"
        )
    if len(set(known)) != len(known):
        raise InputError(f"group {group.id!r}: truth {list(group.truth)} uses a caption twice")
    if len(known) != min(n_images, n_texts):
        raise InputError(
            f"group {group.id!r}: truth {list(group.truth)} has {len(known)} of "
            f"{min(n_images, n_texts)} pairs; give every pair, or no truth at all"
        )


class _Pool:
    """Distinct items in order of first appearance."""

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
    return (image.name, image.exif) if isinstance(image, NamedBytes) else key_of(image)


def _int32(rows: Any) -> np.ndarray:
    return np.asarray(rows, np.int32)


def _compact(pool: Any, indices: list[np.ndarray]) -> tuple[Any, np.ndarray]:
    """The entries of a pool that are still used, and the mapping from old to new positions."""
    used = np.unique(np.concatenate([i.reshape(-1) for i in indices]))
    new = np.full(len(pool), UNKNOWN, np.int32)
    new[used] = np.arange(len(used), dtype=np.int32)
    kept = pool[used] if isinstance(pool, np.ndarray) else tuple(pool[i] for i in used)
    return kept, new
