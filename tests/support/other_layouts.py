"""Small copies of the benchmarks that are not in the paper, in exactly their published layouts."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmark_layouts import picture

_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_picture(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(number, "PNG" if path.suffix == ".png" else "JPEG"))


def _parquet(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {dict: _IMAGE, str: pa.string(), int: pa.int64()}
    schema = pa.schema([(name, kinds[type(value)]) for name, value in rows[0].items()])
    pq.write_table(pa.Table.from_pylist(rows, schema), path)


def _stored(number: int) -> dict:
    return {"bytes": picture(number), "path": f"{number}.png"}


def sugarcrepe_pp(root: Path, subset: str = "swap_obj", rows: int = 3) -> Path:
    folder = root / "sugarcrepe"
    entries = [
        {
            "id": i, "filename": f"{i // 2:012}.jpg", "caption": f"a cat on dog {i}",
            "caption2": f"dog {i} carries a cat", "negative_caption": f"a dog on cat {i}",
        }
        for i in range(rows)
    ]  # fmt: skip
    write_json(folder / "pp" / f"{subset}.json", entries)
    for entry in entries:
        write_picture(folder / "val2017" / entry["filename"], entry["id"] // 2)
    return folder


def aro(root: Path, kind: str, rows: int = 3) -> Path:
    folder = root / "aro"
    tags = {
        "relation": {"relation_name": "on"},
        "attribution": {"attributes": ["red", "wet"]},
    }[kind]
    entries = [
        {
            "image_path": f"{i}.jpg", "bbox_x": 2 * i, "bbox_y": 1, "bbox_w": 8, "bbox_h": 4,
            "true_caption": f"cup {i} is on the box", "false_caption": f"the box is on cup {i}",
            **tags,
        }
        for i in range(rows)
    ]  # fmt: skip
    write_json(folder / f"visual_genome_{kind}.json", entries)
    for i in range(rows):
        write_picture(folder / "images" / f"{i}.jpg", i + 1)
    return folder


def aro_order(root: Path, source: str, rows: int = 4) -> Path:
    folder = root / source
    others = {f"hard_text_{i}": f"order {i}" for i in range(1, 5)}
    table = [
        {"images": _stored(i // 2), "correct_caption": f"caption {i}", **others}
        for i in range(rows)
    ]
    _parquet(folder / "data" / "test-00000-of-00001.parquet", table)
    return folder


def bivlc(root: Path, rows: int = 3) -> Path:
    table = [
        {
            "image": _stored(2 * i), "caption": f"a cat {i}", "negative_caption": f"a dog {i}",
            "negative_image": _stored(2 * i + 1), "type": "replace", "subtype": "obj",
        }
        for i in range(rows)
    ]  # fmt: skip
    _parquet(root / "bivlc" / "data" / "test-00000-of-00001.parquet", table)
    return root / "bivlc"


def vismin(root: Path, rows: int = 3) -> Path:
    """The hub's conversion: the authors' files are Arrow."""
    table = [
        {
            "image_0": _stored(2 * i), "text_0": f"{i} cats", "image_1": _stored(2 * i + 1),
            "text_1": f"{i + 1} cats", "id": f"id-{i}", "category": "counting",
        }
        for i in range(rows)
    ]  # fmt: skip
    _parquet(root / "vismin" / "default" / "test" / "0000.parquet", table)
    return root / "vismin"


def cola(root: Path, rows: int = 3) -> Path:
    folder, base = root / "cola", "https://cs-people.bu.edu/array/data/vg_gqa_images"
    entries = [
        [f"{base}/{2 * i}.jpg", f"red cup on box {i}", f"{base}/{2 * i + 1}.jpg", f"wet cup {i}"]
        for i in range(rows)
    ]
    write_json(folder / "COLA_multiobjects_matching_benchmark.json", entries)
    for number in range(2 * rows):
        write_picture(folder / "images" / "vg" / f"{number}.jpg", number)
    return folder


def naturalbench(root: Path, rows: int = 3) -> Path:
    folder = root / "naturalbench_retrieval"
    entries = [
        {
            "index": i, "image_0": f"{2 * i}.jpg", "image_1": f"{2 * i + 1}.jpg",
            "caption_0": f"a man {i}", "caption_1": f"a woman {i}",
        }
        for i in range(rows)
    ]  # fmt: skip
    write_json(folder / "metadata.json", entries)
    for number in range(2 * rows):
        write_picture(folder / "images" / f"{number}.jpg", number)
    return folder


def eqben(root: Path) -> Path:
    """One pair of pictures, and one of arrays, whose channels are blue, green, red."""
    folder = root / "eqben_small"
    names = [("eqbensd/0a.png", "eqbensd/0b.png"), ("eqbenyoucook2/0.npy", "eqbenyoucook2/1.npy")]
    entries = [
        {"image0": a, "caption0": f"first {a}", "image1": b, "caption1": f"second {b}"}
        for a, b in names
    ]
    write_json(folder / "all_select.json", entries)
    for number, name in enumerate(names[0]):
        write_picture(folder / "images" / name, number)
    for number, name in enumerate(names[1]):
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.zeros((4, 6, 3), np.uint8)
        pixels[..., 0] = 200 + number
        np.save(path, pixels)
    return folder


def valse(root: Path, piece: str = "actant-swap", rows: int = 4) -> Path:
    """The last entry was not validated."""
    folder = root / "valse"
    entries = {
        f"actions_test_{i}": {
            "dataset": "SWiG", "original_split": "test", "dataset_idx": f"exercising_{i}.jpg",
            "linguistic_phenomena": "actions", "image_file": f"exercising_{i}.jpg",
            "caption": "A man exercises his torso.", "classes": "man", "classes_foil": "torso",
            "mturk": {"foil": 0, "caption": 3 if i < rows - 1 else 1, "other": 0},
            "foil": "A torso exercises for a man.",
        }
        for i in range(rows)
    }  # fmt: skip
    write_json(folder / f"{piece}.json", entries)
    for i in range(rows - 1):
        write_picture(folder / "images" / "SWiG" / f"exercising_{i}.jpg", i)
    return folder


def karpathy(root: Path, source: str, rows: int = 3) -> Path:
    name, inside = {
        "coco": ("coco_karpathy_test.json", "val2014/COCO_val2014_{:012}.jpg"),
        "flickr30k": ("flickr30k_test.json", "flickr30k-images/{}.jpg"),
    }[source]
    entries = [
        {"image": inside.format(i), "caption": [f"caption {i} {j}" for j in range(5)]}
        for i in range(rows)
    ]
    write_json(root / source / name, entries)
    for i, entry in enumerate(entries):
        write_picture(root / source / entry["image"], i)
    return root / source


def imagecode(root: Path) -> Path:
    folder = root / "imagecode"
    sets = {
        "open-images-1_a": {"5": "A deer head is mounted.", "0": "Some grass. "},
        "MSR-VTT-videoTestVideo_video1-shot1_0": {"9": "A man stands."},
    }
    write_json(folder / "valid_data.json", sets)
    for name in sets:
        for i in range(10):  # frames of a video are numbered with gaps
            write_picture(folder / "image-sets" / name / f"img{7 * i}.jpg", i)
    return folder
