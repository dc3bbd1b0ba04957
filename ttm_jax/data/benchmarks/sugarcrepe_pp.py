"""SugarCrepe++ (Dumpala et al. 2024): SugarCrepe with a second right caption in other words.

Published as https://huggingface.co/datasets/Aman-J/SugarCrepe_pp (CC-BY-4.0): `data/<subset>.json`,
a list of objects with id, filename, caption, caption2 and negative_caption. The images are those of
COCO val2017, shared with SugarCrepe. Each row becomes two groups, one for each right caption; the
authors count a row as right when both are.
"""

from pathlib import Path

from ttm_jax.data.benchmarks.json_entries import read_entries
from ttm_jax.data.benchmarks.sugarcrepe import IMAGES
from ttm_jax.data.groups import Group

FOLDER = "pp"  # SugarCrepe's own lists have the same names


def read_groups(folder: Path, subset: str) -> list[Group]:
    """The first caption of every group is the right one; tagged with the subset and its wording."""
    groups = []
    for entry in read_entries(folder / FOLDER / f"{subset}.json", list):
        image, wrong = entry.file("filename", folder / IMAGES), entry.text("negative_caption")
        row = entry.number("id")
        for number, key in enumerate(("caption", "caption2"), start=1):
            groups.append(
                Group(
                    id=f"{row}-{number}",
                    images=(image,),
                    captions=(entry.text(key), wrong),
                    truth=(0,),
                    tags=(subset, f"caption {number}"),
                )
            )
    return groups
