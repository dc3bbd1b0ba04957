"""Benchmarks of two images and two captions that the hub stores as Parquet with pictures inside.

BiVLC (Miranda et al. 2024), https://huggingface.co/datasets/imirandam/BiVLC (MIT): image, caption,
negative_image, negative_caption, type and subtype. VisMin (Awal et al. 2024),
https://huggingface.co/datasets/mair-lab/vismin-bench (CC-BY-4.0): image_0, text_0, image_1, text_1,
id and category; its files are Arrow, of which the hub keeps a copy as Parquet.
"""

from pathlib import Path

from ttm_jax.data.benchmarks.parquet import Row, find_test_files, read_rows
from ttm_jax.data.groups import Group


def read_bivlc(folder: Path) -> list[Group]:
    """Image i belongs to caption i; tagged with the change (`replace`) and with what (`obj`)."""
    columns = ("image", "negative_image", "caption", "negative_caption")
    rows = read_rows(find_test_files(folder), columns, ("type", "subtype"))
    return [_group(str(i), row, columns, ("type", "subtype")) for i, row in enumerate(rows)]


def read_vismin(folder: Path) -> list[Group]:
    """Image i belongs to caption i; the tag is what differs: object, attribute, counting, ..."""
    columns = ("image_0", "image_1", "text_0", "text_1")
    rows = read_rows(find_test_files(folder), (*columns, "id"), ("category",))
    return [_group(str(row.values["id"]), row, columns, ("category",)) for row in rows]


def _group(identity: str, row: Row, columns: tuple[str, ...], tags: tuple[str, ...]) -> Group:
    first, second, caption, other = columns
    found = (row.values.get(tag) for tag in tags)
    return Group(
        id=identity,
        images=(row.image(first), row.image(second)),
        captions=(row.text(caption), row.text(other)),
        truth=(0, 1),
        tags=tuple(str(tag) for tag in found if tag),
    )
