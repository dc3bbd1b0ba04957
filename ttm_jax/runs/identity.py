"""The identity of a run: settings, seed, initial parameters and data.

The identity is stored as `config.json` in the run folder, and its fingerprint in every checkpoint,
so that a checkpoint of another run is always detected.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from ttm_jax.config import TTMConfig
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.matching.large.pair_scores import PairScores


def identity(
    config: TTMConfig,
    seed: int,
    dataset: GroupedDataset,
    source: str,
    params: dict[str, Any],
    inputs: Iterable[Any],
    scoring: dict[str, Any],
) -> dict[str, Any]:
    """The identity of a run, in JSON types.

    `params` are the initial parameters by path. `inputs` are the arrays that the model reads
    (preprocessed images and tokens), so different pixels or another tokenizer make another run.
    """
    asked = {"scoring": scoring} if scoring else {}
    return plain(
        {
            "config": asdict(config),
            "seed": seed,
            "model": {"source": source, "checksum": checksum(params), **asked},
            "dataset": {
                "name": dataset.name,
                "groups": len(dataset),
                "shapes": {f"{b.shape[0]}x{b.shape[1]}": len(b) for b in dataset.blocks},
                "checksum": dataset_checksum(dataset),
                "inputs": array_checksum(*inputs),
            },
        }
    )


def fingerprint(identity: dict[str, Any]) -> str:
    """A short, reproducible hash of an identity."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def checksum(leaves: dict[str, Any]) -> str:
    """CRC-32 over a flat dict of arrays, in the order of their names."""
    return array_checksum(*(leaves[name] for name in sorted(leaves)))


def array_checksum(*arrays: Any) -> str:
    """CRC-32 over the bytes of several arrays in order."""
    value = 0
    for array in arrays:
        value = zlib.crc32(np.ascontiguousarray(array).data, value)
    return f"{value:08x}"


def scores_checksum(*scores: Any) -> str:
    """CRC-32 over the scores of all blocks; of `PairScores`, over all that is stored."""
    arrays: list[Any] = []
    for block in scores:
        arrays += block.arrays().values() if isinstance(block, PairScores) else [block]
    return array_checksum(*arrays)


def dataset_checksum(dataset: GroupedDataset) -> str:
    """CRC-32 over ids, captions, indices and pixels given as arrays, but not the truth."""
    value = 0
    for block in dataset.blocks:
        value = zlib.crc32("\n".join(block.ids).encode(), value)
        value = zlib.crc32(block.image_index.tobytes() + block.text_index.tobytes(), value)
    if isinstance(dataset.captions, np.ndarray):
        value = zlib.crc32(np.ascontiguousarray(dataset.captions).tobytes(), value)
    else:
        value = zlib.crc32("\n".join(dataset.captions).encode(), value)
    for image in dataset.images:
        if isinstance(image, np.ndarray):
            value = zlib.crc32(np.ascontiguousarray(image).tobytes(), value)
    return f"{value:08x}"


def differences(old: Any, new: Any, name: str = "") -> Any:
    """The fields that differ, as "name: old -> new"."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{name}.{key}".lstrip("."))
    elif old != new:
        yield f"{name}: {old} -> {new}"


def plain(value: Any) -> Any:
    """Convert to JSON types; NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
