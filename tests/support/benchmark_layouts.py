"""Benchmarks of tiny images in exactly the layouts in which the real ones are published.

Every image differs from all others, so that a test can identify it. Another `picture` makes them
larger: it gets the number of an image and its format.
"""

import csv
import io
import json
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from paths import TESTS
from PIL import Image

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS

ASSETS = TESTS / "assets" / "sugarcrepe"
# https://huggingface.co/datasets/MMVP/MMVP_VLM/tree/main/MLLM_VLM%20Images
MMVP_TYPES = (
    "Orientation",
    "Presence",
    "State",
    "Quantity",
    "Spatial",
    "Color",
    "Structural Character",
    "Text",
    "Camera Perspective",
)
Picture = Callable[[int, str], bytes]
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@cache
def picture(number: int, kind: str = "PNG") -> bytes:
    """An image that encodes its number: 24 stripes, one per bit."""
    image = Image.new("L", (24, 8))
    image.putdata([255 * (number >> x & 1) for _ in range(8) for x in range(24)])
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, kind, quality=95)
    return buffer.getvalue()


def winoground_table(groups: range, picture: Picture = picture) -> pa.Table:
    """The columns and types of the card of facebook/winoground."""
    rows = []
    for i in groups:
        rows.append(
            {
                "id": i,
                "image_0": {"bytes": picture(2 * i, "PNG"), "path": f"ex_{i}_img_0.png"},
                "image_1": {"bytes": picture(2 * i + 1, "PNG"), "path": f"ex_{i}_img_1.png"},
                "caption_0": f"thing {i} on a box",
                "caption_1": f"a box on thing {i}",
                "tag": "Noun" if i % 2 else "Adjective-Color",
                "secondary_tag": "Symbolic" if i % 10 == 0 else "",
                "num_main_preds": 1 + i % 2,
                "collapsed_tag": ("Object", "Relation", "Both")[i % 3],
            }
        )
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("image_0", _IMAGE),
            ("image_1", _IMAGE),
            ("caption_0", pa.string()),
            ("caption_1", pa.string()),
            ("tag", pa.string()),
            ("secondary_tag", pa.string()),
            ("num_main_preds", pa.int32()),
            ("collapsed_tag", pa.string()),
        ]
    )
    return pa.Table.from_pylist(rows, schema)


def write_winoground(root: Path, groups: int = 400, picture: Picture = picture) -> Path:
    folder = root / "winoground" / "data"
    folder.mkdir(parents=True)
    half = groups // 2
    for number, part in enumerate((range(half), range(half, groups))):
        name = f"test-{number:05}-of-00002.parquet"
        pq.write_table(winoground_table(part, picture), folder / name, row_group_size=30)
    return folder


def colorswap_table(
    groups: int, columns: Sequence[str] = (), picture: Picture = picture
) -> pa.Table:
    rows = [
        {
            "id": 700 + i,
            "image_1": {"bytes": picture(2 * i, "PNG"), "path": f"img_{700 + i}_1.png"},
            "image_2": {"bytes": picture(2 * i + 1, "PNG"), "path": f"img_{700 + i}_2.png"},
            "caption_1": f"a red cup and a blue plate {i}",
            "caption_2": f"a blue cup and a red plate {i}",
            "image_source": "midjourney" if i % 2 else "sdxl",
            "caption_source": "human",
        }
        for i in range(groups)
    ]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("image_1", _IMAGE),
            ("image_2", _IMAGE),
            ("caption_1", pa.string()),
            ("caption_2", pa.string()),
            ("image_source", pa.string()),
            ("caption_source", pa.string()),
        ]
    )
    table = pa.Table.from_pylist(rows, schema)
    return table.select(list(columns)) if columns else table


def write_colorswap(root: Path, groups: int = 300, picture: Picture = picture) -> Path:
    folder = root / "colorswap" / "data"
    folder.mkdir(parents=True)
    table = colorswap_table(groups, picture=picture)
    pq.write_table(table, folder / "test-00000-of-00001.parquet")
    # The train split is next to it and must not be read.
    pq.write_table(colorswap_table(2), folder / "train-00000-of-00001.parquet")
    return folder


def write_mmvp(
    root: Path, groups: int = 135, picture: Picture = picture, statements: Sequence[str] = ()
) -> Path:
    folder = root / "mmvp_vlm"
    rows = []
    for number in range(1, 2 * groups + 1):
        kind = MMVP_TYPES[(number - 1) // 30]
        image = folder / "MLLM_VLM Images" / kind / f"{number}.jpg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(picture(number, "JPEG"))
        said = statements[number - 1] if statements else f"butterfly {number}, with feet"
        rows.append([number, kind, said])
    with (folder / "Questions.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Question ID", "Type", "Statement"])
        writer.writerows(rows)
    return folder


def write_sugarcrepe(
    root: Path, subset: str, picture: Picture = picture, entries: dict | None = None
) -> Path:
    """The real annotation of the subset or `entries`, with stand-ins for the COCO images."""
    folder = root / "sugarcrepe"
    (folder / "val2017").mkdir(parents=True, exist_ok=True)
    if entries is None:
        shutil.copy(ASSETS / f"{subset}.json", folder)
    else:
        (folder / f"{subset}.json").write_text(json.dumps(entries))
    for entry in json.loads((folder / f"{subset}.json").read_text()).values():
        image = folder / "val2017" / entry["filename"]
        if not image.exists():
            image.write_bytes(picture(int(image.stem), "JPEG"))
    return folder


def whatsup_entries(part: str) -> list[dict]:
    """As in the release: four images per pair of objects, with the correct caption first."""
    folder = {"a": "controlled_images", "b": "controlled_clevr"}[part]
    count = BENCHMARKS[f"whatsup_{part}"].groups // 4
    pairs = [("beer-bottle", "armchair"), ("pillow", "chair")] if part == "a" else [("mug", "fork")]
    pairs += [(f"thing-{i}", "table") for i in range(count - len(pairs))]
    relations = {
        "left_of": "to the left of",
        "right_of": "to the right of",
        **({"on": "on", "under": "under"} if part == "a" else {}),
        **({"in-front_of": "in front of", "behind": "behind"} if part == "b" else {}),
    }
    entries = []
    for first, second in pairs:
        for relation in relations:
            words = [relations[relation], *(relations[r] for r in relations if r != relation)]
            options = [f"A {first.replace('-', ' ')} {word} a {second}" for word in words]
            path = f"data/{folder}/{first}_{relation}_{second}.jpeg"
            entries.append({"image_path": path, "caption_options": options})
    return entries


def write_whatsup(root: Path, part: str, picture: Picture = picture) -> Path:
    folder = root / "whatsup"
    entries = whatsup_entries(part)
    for number, entry in enumerate(entries):
        image = folder / Path(entry["image_path"]).relative_to("data")
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(picture(number, "JPEG"))
    name = {"a": "controlled_images_dataset.json", "b": "controlled_clevr_dataset.json"}[part]
    (folder / name).write_text(json.dumps(entries))
    return folder
