"""Winoground (Thrush et al. 2022): 400 groups of two images and two captions of the same words.

Published as https://huggingface.co/datasets/facebook/winoground (gated; its terms allow research
only): Parquet files `data/test-*` with the columns id, image_0, image_1, caption_0, caption_1, tag,
secondary_tag, num_main_preds and collapsed_tag, as its card says.
"""

from pathlib import Path

from ttm_jax.data.benchmarks.parquet import Row, find_test_files, read_rows
from ttm_jax.data.groups import Group

_NEEDED = ("id", "image_0", "image_1", "caption_0", "caption_1")
_TAGS = ("collapsed_tag", "secondary_tag", "num_main_preds", "tag")


def annotation_files(folder: Path) -> list[Path]:
    return find_test_files(folder)


def read_groups(folder: Path) -> list[Group]:
    """Image i belongs to caption i."""
    return [
        Group(
            id=str(row.values["id"]),
            images=(row.image("image_0"), row.image("image_1")),
            captions=(row.text("caption_0"), row.text("caption_1")),
            truth=(0, 1),
            tags=_tags(row),
        )
        for row in read_rows(find_test_files(folder), _NEEDED, _TAGS)
    ]


def _tags(row: Row) -> tuple[str, ...]:
    """From coarse to fine: what was swapped, the special kind, the predicates, the exact swap."""
    coarse, special = row.values.get("collapsed_tag"), row.values.get("secondary_tag")
    predicates, fine = row.values.get("num_main_preds"), row.values.get("tag")
    tags = [coarse, special, _predicates(predicates), f"tag: {fine}" if fine else None]
    return tuple(str(tag) for tag in tags if tag)


def _predicates(count: int | None) -> str | None:
    if count is None:
        return None
    return "1 main predicate" if count == 1 else f"{count} main predicates"
