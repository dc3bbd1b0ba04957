"""ARO (Yuksekgonul et al. 2023): relations, attributes, and the order of words.

VG-Relation and VG-Attribution are published at
https://github.com/mertyg/vision-language-models-are-bows (MIT), whose `dataset_zoo/aro_datasets.py`
reads them: a list of objects with image_path, bbox_x, bbox_y, bbox_w, bbox_h, true_caption,
false_caption, and relation_name or attributes; the images are in `images/`, and the box is what the
captions are about. COCO-Order and Flickr30k-Order are made anew by that program, with random
orders; the fixed copies that mteb uses (https://huggingface.co/datasets/gowitheflow/ARO-COCO-order
and ARO-Flickr-Order) are read here, as Parquet with images, correct_caption and hard_text_1 to 4.
"""

from pathlib import Path

from ttm_jax.data.benchmarks.json_entries import Entry, read_entries
from ttm_jax.data.benchmarks.parquet import find_test_files, read_rows
from ttm_jax.data.groups import Group
from ttm_jax.inputs.image_decode import ImageFile, NamedBytes

IMAGES = "images"
_ORDERS = ("correct_caption", *(f"hard_text_{i}" for i in range(1, 5)))


def read_pairs(folder: Path, annotation: str) -> list[Group]:
    """The first caption is the right one; tagged with the relation, or with both attributes."""
    return [_pair(folder / IMAGES, entry) for entry in read_entries(folder / annotation, list)]


def _pair(images: Path, entry: Entry) -> Group:
    x, y, width, height = (entry.number(f"bbox_{name}") for name in "xywh")
    if not width or not height:
        raise entry.error(f"the box is {width} x {height} pixels")
    has_relation = isinstance(entry.values, dict) and "relation_name" in entry.values
    tag = entry.text("relation_name") if has_relation else "_".join(entry.texts("attributes"))
    path = entry.file("image_path", images)
    return Group(
        id=entry.key,
        images=(ImageFile(path, exif=False, box=(x, y, x + width, y + height)),),
        captions=(entry.text("true_caption"), entry.text("false_caption")),
        truth=(0,),
        tags=(tag,),
    )


def read_orders(folder: Path) -> list[Group]:
    """1x5: the caption, and the same words in four other orders.

    A picture is in five rows; its bytes are kept once.
    """
    groups, pictures = [], dict[bytes, NamedBytes]()
    for position, row in enumerate(read_rows(find_test_files(folder), ("images", *_ORDERS), ())):
        image = row.image("images")
        groups.append(
            Group(
                id=str(position),
                images=(pictures.setdefault(image.data, image),),
                captions=tuple(row.text(column) for column in _ORDERS),
                truth=(0,),
            )
        )
    return groups
