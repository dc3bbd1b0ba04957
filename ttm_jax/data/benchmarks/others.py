"""Benchmarks that people use today and that are not in the paper."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ttm_jax.data.benchmarks import (
    aro,
    hub_pairs,
    imagecode,
    json_pairs,
    karpathy,
    sugarcrepe_pp,
    valse,
)
from ttm_jax.data.benchmarks.benchmark import Benchmark
from ttm_jax.data.groups import Group

Read = Callable[[Path], list[Group]]
_FILES = "the files of the release were not at hand"
_COUNT = "no exact number of groups is published"


def _other(
    name: str, groups: int, shape: tuple[int, int], about: str, licence: str, read: Read,
    *annotations: str, source: str = "", shares: str = "", exif: bool = False,
    unverified: str = "",
) -> Benchmark:  # fmt: skip
    return Benchmark(
        name, source or name, groups, shape, about, licence, exif, in_paper=False, read=read,
        annotations=annotations, shares=shares, unverified=unverified,
    )  # fmt: skip


def _sugarcrepe_pp(subset: str, rows: int, about: str) -> Benchmark:
    """Two groups per row: each of the two right captions against the wrong one."""
    return _other(
        f"sugarcrepe_pp_{subset}", 2 * rows, (1, 2), f"{about}, against each of two captions",
        "CC-BY-4.0", partial(sugarcrepe_pp.read_groups, subset=subset),
        f"{sugarcrepe_pp.FOLDER}/{subset}.json", source="sugarcrepe_pp", shares="sugarcrepe",
    )  # fmt: skip


def _aro(kind: str, groups: int, about: str) -> Benchmark:
    file = f"visual_genome_{kind}.json"
    return _other(
        f"aro_vg_{kind}", groups, (1, 2), about, "MIT", partial(aro.read_pairs, annotation=file),
        file, source="aro", unverified=_FILES,
    )  # fmt: skip


def _valse(piece: str) -> Benchmark:
    return _other(
        f"valse_{piece.replace('-', '_')}", 0, (1, 2), f"{piece}: a caption and its foil",
        "see its repository", partial(valse.read_groups, piece=piece), f"{piece}.json",
        source="valse", unverified=f"{_FILES}; {_COUNT} there",
    )  # fmt: skip


OTHERS = (
    _sugarcrepe_pp("replace_rel", 1406, "a relation replaced"),
    _sugarcrepe_pp("swap_att", 666, "two attributes swapped"),
    _sugarcrepe_pp("swap_obj", 245, "two objects swapped"),
    _sugarcrepe_pp("replace_att", 788, "an attribute replaced"),
    _sugarcrepe_pp("replace_obj", 1652, "an object replaced"),
    _aro("relation", 23937, "ARO: who is where, with the two objects exchanged"),
    _aro("attribution", 28748, "ARO: two objects with their attributes exchanged"),
    _other(
        "aro_coco_order", 25010, (1, 5), "ARO: a caption of COCO in five orders of its words",
        "MIT", aro.read_orders, exif=True,
    ),
    _other(
        "aro_flickr_order", 5000, (1, 5), "ARO: a caption of Flickr30k in five orders", "MIT",
        aro.read_orders, exif=True,
        unverified="the columns are those that mteb reads; its card was not at hand",
    ),
    _other(
        "cola", 210, (2, 2), "Cola: attributes of two objects exchanged", "MIT",
        json_pairs.read_cola, json_pairs.COLA,
        unverified="read to its README and an older version of the list",
    ),
    _other(
        "bivlc", 2933, (2, 2), "BiVLC: SugarCrepe with a generated image for the wrong caption",
        "MIT", hub_pairs.read_bivlc, exif=True,
    ),
    _other(
        "vismin", 2084, (2, 2), "VisMin: an edited image and its caption", "CC-BY-4.0",
        hub_pairs.read_vismin, exif=True,
        unverified="that the hub's Parquet copy has the columns of its card",
    ),
    _other(
        "eqben_small", 0, (2, 2), "EqBen's small subset: pictures that differ a little", "MIT",
        json_pairs.read_eqben, json_pairs.EQBEN, unverified=f"{_FILES}; {_COUNT}",
    ),
    _other(
        "naturalbench_retrieval", 0, (2, 2), "NaturalBench: photographs that CLIP confuses",
        "Apache-2.0", json_pairs.read_naturalbench, json_pairs.NATURALBENCH,
        unverified=f"{_FILES}; {_COUNT}: the paper says 1,200, its Table 7 fits 1,227",
    ),
    *(_valse(piece) for piece in valse.PIECES),
    _other(
        "coco_5k", 5000, (1, 1), "COCO, Karpathy's test split, for matching without groups",
        "COCO's terms", partial(karpathy.read_groups, annotation="coco_karpathy_test.json"),
        "coco_karpathy_test.json", source="coco",
    ),
    _other(
        "flickr30k_1k", 1000, (1, 1), "Flickr30k, Karpathy's test split, without groups",
        "research only, a form", partial(karpathy.read_groups, annotation="flickr30k_test.json"),
        "flickr30k_test.json", source="flickr30k",
    ),
    _other(
        "imagecode", 2302, (10, 1), "ImageCoDe: which of ten similar images is described",
        "MIT and AFL-3.0", imagecode.read_groups, imagecode.ANNOTATION,
        unverified="the folder in image-sets.zip",
    ),
)  # fmt: skip
