"""What the data check counts: orientations, repeated images, repeated captions."""

import csv
import io

import benchmark_layouts as layouts
import numpy as np
import pytest
from PIL import Image

from ttm_jax.data.benchmarks.catalogue import load_benchmark
from ttm_jax.data.benchmarks.facts import Facts, find_facts
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.inputs.preprocess import NamedBytes


def jpeg(number: int, orientation: int | None = None) -> bytes:
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    buffer = io.BytesIO()
    Image.new("RGB", (12, 8), (number, 0, 0)).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


def test_a_benchmark_with_everything(tmp_path):
    folder = layouts.write_mmvp(tmp_path)
    images = folder / "MLLM_VLM Images" / "Orientation"
    for number, orientation in ((1, 6), (2, 8), (3, 1), (4, None)):
        (images / f"{number}.jpg").write_bytes(jpeg(number, orientation))
    (images / "6.jpg").write_bytes((images / "5.jpg").read_bytes())  # two names, one picture
    rows = list(csv.reader((folder / "Questions.csv").read_text(encoding="utf-8").splitlines()))
    rows[10][2] = rows[11][2] = rows[20][2]
    with (folder / "Questions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    facts = find_facts(load_benchmark("mmvp_vlm", tmp_path).dataset)
    assert facts == Facts(
        images=269,
        oriented=2,
        exif=False,
        repeated_images=1,
        copied_images=1,
        captions=268,
        repeated_captions=1,
    )
    assert facts.lines() == [
        "2 of 269 images have an EXIF orientation other than 1 (ignored when they are decoded)",
        "1 of 269 images occur more than once (1 under several names)",
        "1 of 268 captions occur more than once",
    ]


def test_images_that_several_groups_share(tmp_path):
    """SugarCrepe: one file in several groups is no copy."""
    layouts.write_sugarcrepe(tmp_path, "swap_obj")
    dataset = load_benchmark("sugarcrepe_swap_obj", tmp_path).dataset
    facts = find_facts(dataset)
    uses = np.bincount(dataset.blocks[0].image_index.reshape(-1))
    assert facts.images == 224
    assert facts.repeated_images == (uses > 1).sum() > 0
    assert facts.copied_images == 0


def test_orientation_is_applied_or_not(tmp_path):
    layouts.write_winoground(tmp_path, 400)
    lines = find_facts(load_benchmark("winoground", tmp_path).dataset).lines()
    assert lines[0].endswith("(applied when they are decoded)")


def test_what_cannot_be_read_is_left_out():
    images = (NamedBytes("a", jpeg(1)), NamedBytes("b", b"no picture"))
    dataset = GroupedDataset.from_groups([Group("g", images, ("x", "x"), (0, 1))])
    facts = find_facts(dataset)
    assert (facts.images, facts.captions, facts.repeated_captions) == (1, 1, 1)


def test_pictures_in_memory_count_too():
    image = np.zeros((4, 4, 3), np.uint8)
    dataset = GroupedDataset.from_groups([Group("g", (image, image.copy()), ("x", "y"))])
    facts = find_facts(dataset)
    assert (facts.images, facts.oriented, facts.copied_images) == (1, 0, 1)


def test_preprocessed_arrays_have_no_facts():
    images = np.zeros((1, 2, 4, 4, 3), np.uint8)
    dataset = GroupedDataset.from_arrays(images, np.zeros((1, 2, 3), np.int32))
    with pytest.raises(TypeError, match="about image files"):
        find_facts(dataset)
