"""ColorSwap (Burapacheep et al. 2024): 300 groups whose two captions swap the colour words.

Published as https://huggingface.co/datasets/stanfordnlp/colorswap (MIT), read here from the test
split in Parquet: image_1, image_2, caption_1, caption_2, and beside them id, image_source and
caption_source (https://github.com/Top34051/colorswap shows an example).
"""

from pathlib import Path

from ttm_jax.data.benchmarks.parquet import find_test_files, read_rows
from ttm_jax.data.groups import Group

_NEEDED = ("image_1", "image_2", "caption_1", "caption_2")
_WANTED = ("id", "image_source", "caption_source")


def annotation_files(folder: Path) -> list[Path]:
    return find_test_files(folder)


def read_groups(folder: Path) -> list[Group]:
    """Image i belongs to caption i. Without a column `id`, groups are numbered from 0."""
    groups = []
    for position, row in enumerate(read_rows(find_test_files(folder), _NEEDED, _WANTED)):
        sources = {
            "image": row.values.get("image_source"),
            "caption": row.values.get("caption_source"),
        }
        groups.append(
            Group(
                id=str(row.values.get("id", position)),
                images=(row.image("image_1"), row.image("image_2")),
                captions=(row.text("caption_1"), row.text("caption_2")),
                truth=(0, 1),
                tags=tuple(f"{what}: {source}" for what, source in sources.items() if source),
            )
        )
    return groups
