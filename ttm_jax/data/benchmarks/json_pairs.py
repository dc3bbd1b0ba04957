"""Benchmarks of two images and two captions that are a list in JSON beside their pictures.

Cola (Ray et al. 2023), https://github.com/arijitray1993/COLA (MIT), the setting with several
objects: a list of [link to image 1, caption 1, link to image 2, caption 2], with the pictures of
Visual Genome in `images/vg` of https://huggingface.co/datasets/array/cola. NaturalBench-Retrieval
(Li et al. 2024), NaturalBench-Retrieval.zip of https://huggingface.co/datasets/BaiqiL/NaturalBench
(Apache-2.0): `metadata.json`, a list of objects with index, image_0, image_1, caption_0 and
caption_1, and `images/`. EqBen (Wang et al. 2023), the small subset for multimodal language models
of https://github.com/Wangt-CN/EqBen (MIT): `all_select.json`, a list of objects with image0,
image1, caption0 and caption1, and `images/`, where the frames of YouCook2 are arrays (.npy, BGR).
"""

from pathlib import Path

import numpy as np

from ttm_jax.data.benchmarks.json_entries import Entry, read_entries
from ttm_jax.data.groups import Group
from ttm_jax.inputs.image_decode import ImageSource

COLA = "COLA_multiobjects_matching_benchmark.json"
COLA_IMAGES = "images/vg"
NATURALBENCH = "metadata.json"
EQBEN = "all_select.json"
_IMAGES = "images"


def read_cola(folder: Path) -> list[Group]:
    """Image i belongs to caption i. Of a link, only the name of the picture counts."""
    groups = []
    for entry in read_entries(folder / COLA, list):
        links = (entry.text(0), entry.text(2))
        names = Entry(entry.path, entry.key, [link.rpartition("/")[2] for link in links])
        images = tuple(names.file(i, folder / COLA_IMAGES) for i in range(2))
        groups.append(_group(entry.key, images, (entry.text(1), entry.text(3))))
    return groups


def read_naturalbench(folder: Path) -> list[Group]:
    """Image i belongs to caption i."""
    groups = []
    for entry in read_entries(folder / NATURALBENCH, list):
        images = tuple(entry.file(f"image_{i}", folder / _IMAGES) for i in range(2))
        captions = (entry.text("caption_0"), entry.text("caption_1"))
        groups.append(_group(str(entry.number("index")), images, captions))
    return groups


def read_eqben(folder: Path) -> list[Group]:
    """Image i belongs to caption i; the tag is the folder, which is where the images are from."""
    groups = []
    for entry in read_entries(folder / EQBEN, list):
        images = tuple(entry.file(f"image{i}", folder / _IMAGES) for i in range(2))
        captions = (entry.text("caption0"), entry.text("caption1"))
        source = images[0].relative_to(folder / _IMAGES).parts[0]
        pictures = tuple(_picture(entry, image) for image in images)
        groups.append(_group(entry.key, pictures, captions, (source,)))
    return groups


def _group(
    identity: str,
    images: tuple[ImageSource, ...],
    captions: tuple[str, ...],
    tags: tuple[str, ...] = (),
) -> Group:
    return Group(identity, images, captions, truth=(0, 1), tags=tags)


def _picture(entry: Entry, path: Path) -> ImageSource:
    """A path, or the pixels of an array; an array that is not there is reported as a file is."""
    if path.suffix != ".npy" or not path.is_file():
        return path
    try:
        pixels = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise entry.error(f"{path} cannot be read as an array") from error
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise entry.error(f"{path} holds {pixels.dtype} {pixels.shape}; expected a uint8 picture")
    return np.ascontiguousarray(pixels[:, :, ::-1])
