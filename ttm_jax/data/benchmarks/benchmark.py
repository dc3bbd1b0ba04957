"""What the catalogue says of a benchmark."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ttm_jax.data.benchmarks import whatsup
from ttm_jax.data.groups import Group


@dataclass(frozen=True)
class Benchmark:
    """One variant of a benchmark: a name for `load_benchmark` and `ttm data`."""

    name: str
    source: str
    """What it is a variant of: `sugarcrepe`, `whatsup`, ...; also a name for `ttm data`."""
    groups: int
    """How many groups are published; 0 if no exact number is, and then none is checked."""
    shape: tuple[int, int]
    about: str
    licence: str
    """Of the annotations. Pictures of other datasets keep their owners' terms."""
    exif: bool = False
    """Whether the paper's program (https://github.com/yinglunz/test-time-matching, dataset.py)
    applies the EXIF orientation of images. It reads Winoground and ColorSwap with `datasets`, which
    does; it opens the files of the others with a plain `Image.open(...).convert("RGB")`. Of a
    benchmark that is not in the paper: whether the authors' own program does."""
    in_paper: bool = True
    unverified: str = ""
    """What could not be seen in the publisher's own files, cards or programs; empty if nothing."""
    read: Callable[[Path], list[Group]] | None = None
    """Reads the groups from the folder, of those that are not in the paper."""
    annotations: tuple[str, ...] = ()
    """The files that list the groups, of the same; empty for the Parquet files of a test split."""
    shares: str = ""
    """The source whose folder it shares because the pictures are the same."""
    subset: str = ""
    """Of SugarCrepe: the name of the annotation file."""
    part: whatsup.Part = "a"
    """Of WhatsUp."""
    relations: tuple[whatsup.Relation, ...] = ()
    """Of WhatsUp's 2x2 variants: the two opposite ones."""

    @property
    def folder(self) -> str:
        """Where its files are in the data directory."""
        return self.shares or self.source
