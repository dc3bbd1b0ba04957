"""VALSE (Parcalabescu et al. 2022): a caption, and a foil that differs in one phenomenon.

Published as https://github.com/Heidelberg-NLP/VALSE: `data/<piece>.json`, an object whose values
have dataset, image_file, linguistic_phenomena, caption, foil, and mturk with the votes of three
annotators. As its README asks, only the validated entries are used: those where at least two chose
the caption and not the foil. The images are those of other datasets, and are not published with it.
"""

from pathlib import Path

from ttm_jax.data.benchmarks.json_entries import Entry, read_entries
from ttm_jax.data.groups import Group

IMAGES = "images"
PIECES = (
    "existence", "plurals", "counting-small-quant", "counting-adversarial", "counting-hard",
    "relations", "action-replacement", "actant-swap", "coreference-standard", "coreference-hard",
    "foil-it",
)  # fmt: skip
_VOTES = 2


def read_groups(folder: Path, piece: str) -> list[Group]:
    """The first caption is the right one; the images are in `images/<dataset>/`."""
    groups = []
    for entry in read_entries(folder / f"{piece}.json", dict):
        votes = Entry(entry.path, f"{entry.key}, mturk", _mturk(entry))
        if votes.number("caption") < _VOTES:
            continue
        images = folder / IMAGES
        source = entry.file("dataset", images)
        groups.append(
            Group(
                id=entry.key,
                images=(entry.file("image_file", source),),
                captions=(entry.text("caption"), entry.text("foil")),
                truth=(0,),
                tags=(entry.text("linguistic_phenomena"),),
            )
        )
    return groups


def _mturk(entry: Entry) -> object:
    return entry.values.get("mturk") if isinstance(entry.values, dict) else entry.values
