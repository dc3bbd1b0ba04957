"""The sixteen benchmark variants in their published layouts and numbers of groups.

Pictures have the sizes of real ones; what they show is random.
"""

import io
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.rehearsal.support import captions, layouts, sugarcrepe
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS

SIZES = ((640, 480), (480, 640), (1024, 1024), (1024, 768), (500, 375))
COCO_SIZES = ((640, 480), (480, 640), (640, 427))


def make_source(source: str, origin: Path, tiny: bool = False) -> None:
    """Write everything of one source into `origin/source`, as its authors publish it."""
    picture = partial(make_picture, sizes=((24, 16),) if tiny else SIZES)
    match source:
        case "winoground":
            layouts.write_winoground(origin, picture=picture)
        case "colorswap":
            layouts.write_colorswap(origin, picture=picture)
        case "mmvp_vlm":
            layouts.write_mmvp(origin, picture=picture, statements=captions())
        case "sugarcrepe":
            _write_sugarcrepe(origin, tiny)
        case "whatsup":
            for part in ("a", "b"):
                layouts.write_whatsup(origin, part, picture=picture)
            for name in ("controlled_images", "controlled_clevr"):
                _pack(origin / "whatsup" / name)


def make_picture(
    number: int, kind: str = "PNG", sizes: tuple[tuple[int, int], ...] = SIZES
) -> bytes:
    """Random rectangles; another picture and maybe another size for every number."""
    rng = np.random.default_rng(number)
    size = sizes[number % len(sizes)]
    image = Image.new("RGB", size, _colour(rng))
    draw = ImageDraw.Draw(image)
    for _ in range(30):
        x, y = rng.integers(0, size[0]), rng.integers(0, size[1])
        width, height = rng.integers(2, 3 + size[0] // 3), rng.integers(2, 3 + size[1] // 3)
        draw.rectangle((x, y, x + width, y + height), fill=_colour(rng))
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=90)
    return buffer.getvalue()


def write_two(folder: Path) -> None:
    """Pictures for `ttm score`."""
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.jpg").write_bytes(make_picture(number, "JPEG"))


def _colour(rng: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = rng.integers(0, 256, 3).tolist()
    return red, green, blue


def _write_sugarcrepe(origin: Path, tiny: bool) -> None:
    """Two real annotations; the others list the same pictures and captions in other numbers."""
    picture = partial(make_picture, sizes=((24, 16),) if tiny else COCO_SIZES)
    real = list(sugarcrepe("add_att").values())
    for benchmark in BENCHMARKS.values():
        if benchmark.source != "sugarcrepe":
            continue
        entries = None
        if benchmark.subset not in ("add_att", "swap_obj"):
            entries = {str(i): real[i % len(real)] for i in range(benchmark.groups)}
        layouts.write_sugarcrepe(origin, benchmark.subset, picture=picture, entries=entries)


def _pack(folder: Path) -> None:
    """As `tar czf` does it; the release has the pictures in archives only."""
    with tarfile.open(folder.with_name(f"{folder.name}.tar.gz"), "w:gz", compresslevel=1) as tar:
        tar.add(folder, folder.name)
