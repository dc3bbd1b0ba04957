"""COCO and Flickr30k, the test splits of Karpathy and Fei-Fei (2015), for matching without groups.

The lists are those of https://github.com/salesforce/BLIP, `coco_karpathy_test.json` and
`flickr30k_test.json` at https://storage.googleapis.com/sfr-vision-language-research/datasets: a
list of objects with image (`val2014/COCO_val2014_....jpg`, `flickr30k-images/....jpg`) and caption,
a list of five or more. An assignment is one-to-one, so each image is listed with its first caption:
`load_benchmark("coco_5k").dataset.ungrouped()` is 5,000 x 5,000.
"""

from pathlib import Path

from ttm_jax.data.benchmarks.json_entries import read_entries
from ttm_jax.data.groups import Group


def read_groups(folder: Path, annotation: str) -> list[Group]:
    """1x1: an image and the first of its captions."""
    return [
        Group(
            id=entry.key,
            images=(entry.file("image", folder),),
            captions=(entry.texts("caption")[0],),
            truth=(0,),
        )
        for entry in read_entries(folder / annotation, list)
    ]
