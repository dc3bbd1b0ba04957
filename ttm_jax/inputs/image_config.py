"""Image settings from a checkpoint's own files."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from PIL import Image

from ttm_jax.config import Family
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_resize import Kind
from ttm_jax.inputs.json_files import read_optional_json
from ttm_jax.inputs.open_clip_files import CONFIG, is_open_clip, read_section, refuse_others

Colour = tuple[float, float, float]

# Settings that do not affect the pixels of an RGB image.
_IGNORED = {
    "image_processor_type",
    "feature_extractor_type",
    "processor_class",
    "auto_map",
    "_valid_processor_keys",
    "data_format",
    "input_data_format",
    "default_to_square",
    "return_tensors",
    "device",
    "disable_grouping",
    "use_fast",
    "do_convert_rgb",  # we always convert: the models have three input channels
}
_KNOWN = {
    "size",
    "crop_size",
    "resample",
    "image_mean",
    "image_std",
    "do_resize",
    "do_center_crop",
    "do_rescale",
    "rescale_factor",
    "do_normalize",
}


@dataclass(frozen=True)
class ImageSettings:
    """How the images of a checkpoint are resized and normalised."""

    kind: Kind
    size: int
    resample: Image.Resampling
    mean: Colour
    std: Colour


DEFAULTS: dict[str, ImageSettings] = {
    "siglip": ImageSettings("squash", 224, Image.Resampling.BICUBIC, (0.5,) * 3, (0.5,) * 3),
    "clip": ImageSettings(
        "shorter_side+center_crop",
        224,
        Image.Resampling.BICUBIC,
        (0.48145466, 0.4578275, 0.40821073),
        (0.26862954, 0.26130258, 0.27577711),
    ),
}


# Of OpenCLIP.
_KINDS: dict[str, Kind] = {"shortest": "shorter_side+rounded_crop", "squash": "squash"}
_INTERPOLATION = {
    "bicubic": Image.Resampling.BICUBIC,
    "random": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
}
_LARGEST = 8192  # pixels on a side


def read_image_settings(folder: str | os.PathLike, family: Family) -> ImageSettings:
    """Read `processor_config.json` or `preprocessor_config.json`, else use the family's defaults.

    Without either file the size is that of `config.json`, if given there. Of OpenCLIP's folders,
    `open_clip_config.json` is read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; expected one with a checkpoint's files")
    if is_open_clip(folder):
        return _from_open_clip(folder)
    file, fields = read_image_fields(folder)
    if file.exists():
        return _parse(fields, file, DEFAULTS[family])
    default = DEFAULTS[family]
    vision = read_optional_json(folder / "config.json").get("vision_config")
    size = vision.get("image_size") if isinstance(vision, dict) else None
    return replace(default, size=size) if _is_size(size) else default


def read_image_fields(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The file with the settings of the image processor, and its content if it exists."""
    file = folder / "processor_config.json"
    nested = read_optional_json(file).get("image_processor")
    if nested is None:  # transformers 4; its file of that name has no image settings
        file = folder / "preprocessor_config.json"
        return file, read_optional_json(file)
    if not isinstance(nested, dict):
        raise InputError(f"{file}: image_processor is {nested!r}; expected a JSON object")
    return file, nested


def _from_open_clip(folder: Path) -> ImageSettings:
    """As open_clip's `image_transform` for evaluation. Its "random" interpolation is bicubic."""
    file, default = folder / CONFIG, DEFAULTS["clip"]
    given = {k: v for k, v in read_section(folder, "preprocess_cfg").items() if v is not None}
    only = {"mode": ("RGB",), "interpolation": tuple(_INTERPOLATION), "resize_mode": tuple(_KINDS)}
    refuse_others(given, only, {"mean", "std", "size", "fill_color"}, f"{file}: preprocess_cfg")
    size = read_section(folder, "model_cfg", "vision_cfg").get("image_size", default.size)
    sides = size if isinstance(size, list) else [size]
    if not all(map(_is_size, sides)) or len(set(sides)) != 1:
        raise _unsupported(file, "image_size", size, "expected a number of pixels")
    mean = read_colour(given, file, "mean", default.mean)
    std = read_colour(given, file, "std", default.std)
    if 0 in std:
        raise _unsupported(file, "std", std, "expected no zero")
    kind = _KINDS[given.get("resize_mode", "shortest")]
    resample = _INTERPOLATION[given.get("interpolation", "bicubic")]
    return ImageSettings(kind, sides[0], resample, mean, std)


def _parse(config: dict[str, Any], file: Path, default: ImageSettings) -> ImageSettings:
    for name, value in config.items():
        # A disabled setting changes nothing, so only enabled ones can be a problem.
        if name not in _KNOWN and name not in _IGNORED and value not in (None, False):
            raise _unsupported(file, name, value, "CLIP and SigLIP processors do not have it")
    for name in ("do_resize", "do_rescale"):
        if config.get(name) is False:
            raise _unsupported(file, name, False, "expected true")
    factor = config.get("rescale_factor", 1 / 255)
    if not isinstance(factor, float) or not math.isclose(factor, 1 / 255, rel_tol=1e-6):
        raise _unsupported(file, "rescale_factor", factor, "expected 1/255")
    kind, size = _geometry(config, file, default)
    mean, std = default.mean, default.std
    if config.get("do_normalize", True) is False:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    elif config.get("do_normalize", True):
        mean = read_colour(config, file, "image_mean", mean)
        std = read_colour(config, file, "image_std", std)
    if 0 in std:
        raise _unsupported(file, "image_std", std, "expected no zero")
    return ImageSettings(kind, size, read_resample(config, file, default.resample), mean, std)


def _geometry(config: dict[str, Any], file: Path, default: ImageSettings) -> tuple[Kind, int]:
    """Kind of resize and output size; a crop, if any, must have the same size."""
    given = config.get("size")
    crops = config.get("do_center_crop")
    if crops is None:
        crops = default.kind != "squash"
    if given is None:
        kind, size = default.kind, default.size
    elif _is_size(given):  # the notation of old CLIP files
        kind, size = default.kind, given
    else:
        kind, size = _sides(given, file, "size")
    if kind != "squash" and not crops:
        raise _unsupported(file, "do_center_crop", crops, "shortest_edge resizing needs a crop")
    crop = config.get("crop_size")
    if crops and crop is not None:
        side = crop if _is_size(crop) else _sides(crop, file, "crop_size")[1]
        if side != size:
            raise _unsupported(file, "crop_size", crop, f"expected the same as size, {size}")
    return kind, size


def _sides(value: Any, file: Path, name: str) -> tuple[Kind, int]:
    """`{"shortest_edge": 224}`, `{"height": 224, "width": 224}` or `[224, 224]`."""
    if isinstance(value, list) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    if isinstance(value, dict):
        value = {key: side for key, side in value.items() if side is not None}
        sides = list(value.values())
        if all(map(_is_size, sides)) and len(set(sides)) == 1:
            if value.keys() == {"shortest_edge"}:
                return "shorter_side+center_crop", sides[0]
            if value.keys() == {"height", "width"}:
                return "squash", sides[0]
    raise _unsupported(
        file, name, value, "expected 224, {'shortest_edge': 224} or {'height': 224, 'width': 224}"
    )


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST


def _is_colour(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= 1000  # also refuses nan


def read_resample(
    config: dict[str, Any], file: Path, default: Image.Resampling
) -> Image.Resampling:
    """The filter, by Pillow's number."""
    value = config.get("resample")
    if value is None:
        return default
    try:
        return Image.Resampling(value)
    except (ValueError, TypeError):
        known = ", ".join(f"{r.value} ({r.name.lower()})" for r in Image.Resampling)
        raise _unsupported(file, "resample", value, f"expected one of {known}") from None


def read_colour(config: dict[str, Any], file: Path, name: str, default: Colour) -> Colour:
    """A mean or a spread, of each channel or of all."""
    value = config.get(name)
    if value is None:
        return default
    values = value if isinstance(value, list) else [value] * 3
    if len(values) != 3 or not all(_is_colour(v) for v in values):
        raise _unsupported(file, name, value, "expected three numbers, none beyond 1000")
    red, green, blue = map(float, values)
    return red, green, blue


def _unsupported(file: Path, name: str, value: Any, expected: str) -> InputError:
    return InputError(f"{file}: {name} is {value!r}, which is not supported; {expected}")
