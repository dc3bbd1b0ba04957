"""EXIF orientation in the published layouts: applied or not as in the paper's program."""

import io
import json
from pathlib import Path

import benchmark_layouts as layouts
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageOps

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS, load_benchmark
from ttm_jax.data.folder_reader import read_folder
from ttm_jax.data.folder_writer import write_folder
from ttm_jax.inputs.image_decode import decode_rgb, encoded_bytes
from ttm_jax.inputs.preprocess import ImageProcessor
from ttm_jax.inputs.vlm_images import TileProcessor
from ttm_jax.scorers.api.images import data_url, inspect_images

ORIENTATION = 0x0112


def turned_jpeg(orientation: int) -> bytes:
    """A photograph as a camera stores it that was held on its side."""
    with Image.open(io.BytesIO(layouts.picture(0xA5C3B7))) as image:
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=95, exif=exif)
    return buffer.getvalue()


def _mmvp(root: Path, data: bytes) -> str:
    folder = layouts.write_mmvp(root)
    (folder / "MLLM_VLM Images" / "Orientation" / "1.jpg").write_bytes(data)
    return "mmvp_vlm"


def _sugarcrepe(root: Path, data: bytes) -> str:
    folder = layouts.write_sugarcrepe(root, "swap_obj")
    first = json.loads((folder / "swap_obj.json").read_text())["0"]["filename"]
    (folder / "val2017" / first).write_bytes(data)
    return "sugarcrepe_swap_obj"


def _whatsup(root: Path, data: bytes) -> str:
    folder = layouts.write_whatsup(root, "b")
    (folder / "controlled_clevr" / "mug_left_of_fork.jpeg").write_bytes(data)
    return "whatsup_b"


def _winoground(root: Path, data: bytes) -> str:
    folder = layouts.write_winoground(root)
    _put_into_parquet(folder / "test-00000-of-00002.parquet", "image_0", data)
    return "winoground"


def _colorswap(root: Path, data: bytes) -> str:
    folder = layouts.write_colorswap(root)
    _put_into_parquet(folder / "test-00000-of-00001.parquet", "image_1", data)
    return "colorswap"


def _put_into_parquet(path: Path, column: str, data: bytes) -> None:
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[0][column]["bytes"] = data
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


WRITERS = {
    "mmvp_vlm": (_mmvp, False),
    "sugarcrepe_swap_obj": (_sugarcrepe, False),
    "whatsup_b": (_whatsup, False),
    "winoground": (_winoground, True),
    "colorswap": (_colorswap, True),
}


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def first_image(name: str, root: Path, **choice):
    loaded = load_benchmark(name, root, **choice)
    return loaded, loaded.dataset.images[loaded.dataset.blocks[0].image_index[0, 0]]


def decoded(source) -> np.ndarray:
    return np.asarray(decode_rgb(source, encoded_bytes(source)))


def test_the_catalogue_says_it_of_every_benchmark():
    paper = [benchmark for benchmark in BENCHMARKS.values() if benchmark.in_paper]
    assert {benchmark.source for benchmark in paper if benchmark.exif} == {
        "winoground",
        "colorswap",
    }
    assert sum(benchmark.exif for benchmark in paper) == 2


@pytest.mark.parametrize("orientation", [6, 3])
@pytest.mark.parametrize("name", WRITERS)
def test_as_published_and_as_chosen(tmp_path, name, orientation):
    write, applied = WRITERS[name]
    data = turned_jpeg(orientation)
    assert write(tmp_path, data) == name
    stored = np.asarray(opened(data).convert("RGB"))  # what the paper's program does with files
    upright = np.asarray(ImageOps.exif_transpose(opened(data)).convert("RGB"))  # what datasets does
    assert stored.shape != upright.shape or (stored != upright).any()
    loaded, image = first_image(name, tmp_path)
    np.testing.assert_array_equal(decoded(image), upright if applied else stored)
    assert loaded.exif == applied
    assert loaded.dataset.name == name
    assert loaded.summary()["exif"] == ("applied" if applied else "ignored")
    for choice, expected in (("on", upright), ("off", stored)):
        loaded, image = first_image(name, tmp_path, exif=choice)
        np.testing.assert_array_equal(decoded(image), expected)
        is_other = (choice == "on") != applied
        # a run with other pixels is another run
        assert loaded.dataset.name == (f"{name}_exif_{choice}" if is_other else name)


@pytest.mark.parametrize("name", ["mmvp_vlm", "winoground"])
def test_the_choice_reaches_every_processor(tmp_path, name):
    write, _ = WRITERS[name]
    write(tmp_path / "data", turned_jpeg(6))
    images = {c: first_image(name, tmp_path / "data", exif=c)[1] for c in ("on", "off")}
    pixels = {}
    for processor in (
        ImageProcessor.for_family("siglip", 32),
        ImageProcessor.for_family("clip", 16),
    ):
        for choice, image in images.items():
            # One cache for both choices: its keys must tell them apart.
            (pixels[choice],) = processor.batch([image], cache_dir=tmp_path / "cache")
            np.testing.assert_array_equal(
                pixels[choice], processor(Image.fromarray(decoded(image)))
            )
            (again,) = processor.batch([image], cache_dir=tmp_path / "cache")
            np.testing.assert_array_equal(again, pixels[choice])
        assert (pixels["on"] != pixels["off"]).any()
        as_stored = ImageProcessor(**{**vars(processor), "exif": False})
        for image in images.values():  # a processor that ignores EXIF ignores it everywhere
            (found,) = as_stored.batch([image], cache_dir=tmp_path / "cache")
            np.testing.assert_array_equal(found, pixels["off"])
    tiles = {c: TileProcessor(size=16, longest=32)(image) for c, image in images.items()}
    assert (
        tiles["on"].pixels.shape != tiles["off"].pixels.shape
        or (tiles["on"].pixels != tiles["off"].pixels).any()
    )
    on, off = inspect_images([images["on"], images["off"]])
    assert (on.width, on.height) == (off.height, off.width)
    assert on.sha256 != off.sha256  # answers are cached by it
    assert data_url(images["on"], "keep", None) != data_url(images["off"], "keep", None)


def test_one_batch_with_both_choices(tmp_path):
    """The same file, once upright and once as stored, is two pictures."""
    write, _ = WRITERS["mmvp_vlm"]
    write(tmp_path, turned_jpeg(6))
    images = [first_image("mmvp_vlm", tmp_path, exif=c)[1] for c in ("on", "off", "on")]
    processor = ImageProcessor.for_family("siglip", 32)
    first, second, third = processor.batch(images)
    assert (first != second).any()
    np.testing.assert_array_equal(first, third)


@pytest.mark.parametrize("name", ["mmvp_vlm", "winoground"])
@pytest.mark.parametrize("choice", ["on", "off"])
def test_a_folder_written_from_a_benchmark_shows_the_same_pictures(tmp_path, name, choice):
    """Own folders apply EXIF, so an orientation that is ignored must not be written."""
    write, _ = WRITERS[name]
    write(tmp_path / "data", turned_jpeg(6))
    dataset = load_benchmark(name, tmp_path / "data", exif=choice).dataset.limit(3)
    again = read_folder(write_folder(dataset, tmp_path / "own"))
    for before, after in zip(dataset.images, again.images, strict=True):
        np.testing.assert_array_equal(decoded(after), decoded(before))


def test_own_folders_apply_it(tmp_path):
    data = turned_jpeg(6)
    (tmp_path / "a.jpg").write_bytes(data)
    line = {"id": 1, "images": ["a.jpg"], "captions": ["a", "b"]}
    (tmp_path / "groups.jsonl").write_text(json.dumps(line))
    (image,) = read_folder(tmp_path).images
    upright = ImageOps.exif_transpose(opened(data)).convert("RGB")
    np.testing.assert_array_equal(decoded(image), np.asarray(upright))
