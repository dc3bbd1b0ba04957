"""Model folders that are broken in every way: they load, or one line says what is wrong.

Mutations by field (a field of a JSON file is removed, or gets a value of another type or size) and
by byte (a file is cut, emptied, or has bytes changed). `COUNT` of them are drawn with fixed seeds;
the long tests draw more.
"""

import json
import random
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from model_folders import make_folder
from safetensors.numpy import load_file, save_file

from ttm_jax.errors import InputError
from ttm_jax.load import load_model

COUNT = 120
VALUES = (
    None, True, -1, 0, 10**9, 10**12, 10**400, 0.5, float("nan"), float("inf"), -1e300, "", "x",
    "\x1b[31m", [], [[]], {}, {"a": {"b": None}}, ["224", 224], [1e9, 1e9, 1e9],
)  # fmt: skip
NESTED = "[" * 100_000


@pytest.fixture(scope="module", params=["siglip", "clip"])
def whole(request, tmp_path_factory) -> Path:
    return make_folder(tmp_path_factory.mktemp(request.param), request.param)


def fields(value, path=()):
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields(inner, (*path, key))


def put(value, path, new):
    if not path:
        return new
    head, *rest = path
    return {**value, head: put(value[head], rest, new)}


def without(value, path):
    head, *rest = path
    if not rest:
        return {key: inner for key, inner in value.items() if key != head}
    return {**value, head: without(value[head], rest)}


def mutate_field(file: Path, rng: random.Random) -> str:
    content = json.loads(file.read_text())
    path = rng.choice([place for place in fields(content) if place] or [()])
    if path and rng.random() < 0.2:
        changed, what = without(content, path), "removed"
    else:
        value = rng.choice(VALUES)
        changed, what = put(content, path, value), f"{value!r:.30}"
    file.write_text(json.dumps(changed))
    return f"{file.name} {'.'.join(path)}: {what}"


def mutate_bytes(file: Path, rng: random.Random) -> str:
    data = bytearray(file.read_bytes())
    way = rng.choice(["cut", "empty", "flip", "insert", "nested", "binary"])
    if way == "cut":
        del data[rng.randrange(len(data)) :]
    elif way == "empty":
        data.clear()
    elif way == "flip":
        for _ in range(rng.randint(1, 20)):
            data[rng.randrange(min(len(data), 4096))] ^= rng.randint(1, 255)
    elif way == "insert":
        place = rng.randrange(len(data))
        data[place:place] = rng.randbytes(50)
    elif way == "nested":
        data = bytearray(NESTED.encode())
    else:
        data = bytearray(rng.randbytes(2000))
    file.write_bytes(data)
    return f"{file.name}: {way}"


def mutate(folder: Path, rng: random.Random) -> str:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    file = rng.choice(files)
    if file.suffix == ".json" and rng.random() < 0.7:
        return mutate_field(file, rng)
    return mutate_bytes(file, rng)


def try_mutations(whole: Path, tmp_path: Path, seeds: range) -> int:
    refused = 0
    for seed in seeds:
        rng = random.Random(seed)
        folder = shutil.copytree(whole, tmp_path / "model")
        what = mutate(folder, rng)
        before = {path: path.read_bytes() for path in folder.iterdir()}
        message = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load_model(folder)
        except InputError as error:
            message = str(error)
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, {what}: {error!r}") from error
        assert "\n" not in message, what
        assert {path: path.read_bytes() for path in folder.iterdir()} == before, what
        shutil.rmtree(folder)
    return refused


def test_mutations(whole, tmp_path):
    assert try_mutations(whole, tmp_path, range(COUNT)) > COUNT // 2


@pytest.mark.parametrize("kind", [["clip"], {"clip": 1}, 7, None])
def test_a_model_type_that_is_no_name(whole, tmp_path, kind):
    folder = shutil.copytree(whole, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": kind}))
    with pytest.raises(InputError, match=r"config\.json: model_type is "):
        load_model(folder)


@pytest.mark.slow
def test_many_mutations(whole, tmp_path):
    try_mutations(whole, tmp_path, range(COUNT, COUNT + 1500))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(whole, tmp_path, value):
    folder = shutil.copytree(whole, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    name = sorted(tensors)[3]
    tensors[name].flat[1] = value
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"{name} has NaN or infinite values"):
        load_model(folder)


def test_a_file_instead_of_its_folder(whole):
    with pytest.raises(InputError, match="expected the folder that holds it"):
        load_model(whole / "model.safetensors")


def test_sizes_are_compared_and_not_allocated(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    for tower, key, size in (
        ("text_config", "vocab_size", 10**12),
        ("vision_config", "num_hidden_layers", 10**9),
        ("text_config", "hidden_size", 2**23),
    ):
        changed = put(config, (tower, key), size)
        (folder / "config.json").write_text(json.dumps(changed))
        with pytest.raises(InputError):
            load_model(folder)
