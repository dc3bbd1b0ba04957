"""What a dataset contains, in one line. Light: commands say it before they load a model."""

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.plain_text import one_line


def describe(dataset: GroupedDataset, config: TTMConfig) -> str:
    """Counts and shapes in one line."""
    truth = "known" if dataset.has_truth else "unknown"
    images, captions = len(dataset.images), len(dataset.captions)
    name = one_line(dataset.name)
    if config.matching == "global":
        block = dataset.ungrouped().blocks[0]
        rows, columns = block.shape
        counts = f"{_count(rows, 'image')} and {_count(columns, 'caption')}"
        return f"{name}: {counts} without groups, truth {truth}"
    shapes = ", ".join(f"{len(b)} of {b.shape[0]}x{b.shape[1]}" for b in dataset.blocks)
    return (
        f"{name}: {_count(len(dataset), 'group')} ({shapes}), {_count(images, 'image')} and "
        f"{_count(captions, 'caption')} in all, truth {truth}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
