"""Damage to the files of a run folder, drawn at random from a seed: by field, by line, by byte."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hostile import EVERYTHING, PathInFile, replaced
from PIL import Image

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 10**6, 2**31, 2**53 + 1, 10**17, -(10**17), 10**40, 0.5,
    -0.5, 1e-320, 3.5e38, 1e308, -1e308, float("nan"), float("inf"), "", "x", "2x2", EVERYTHING, [],
    {}, [0], [None], ["x"], {"x": 1}, [[[[0]]]], [1, 0, 1, 0], "\ud800",
)  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """What one file becomes; None: it is removed."""

    path: Path
    how: str
    content: bytes | None


def mutate(folder: Path, random: Random) -> Mutation:
    """One change to one file of the folder. The folder itself is left alone."""
    path = random.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
    before = path.read_bytes()
    kinds: list[Callable[[bytes, Random], tuple[str, bytes | None]]] = [_bytes]
    if path.suffix in (".json", ".jsonl"):
        kinds += [_field, _field, _field, _key]
    if path.suffix == ".jsonl":
        kinds += [_lines]
    if path.suffix == ".npz":
        kinds += [_arrays, _arrays]
    if path.suffix == ".zip":
        kinds += [_pictures]
    how, after = random.choice(kinds)(before, random)
    return Mutation(path, how, after)


def _bytes(data: bytes, random: Random) -> tuple[str, bytes | None]:
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.choice((1, 2, 8, 100)))
    noise = random.randbytes(random.choice((1, 2, 8, 100)))
    changed = {
        "flip": data[:at]
        + bytes(b ^ (1 << random.randrange(8)) for b in data[at:end])
        + data[end:],
        "cut": data[:at],
        "remove": data[:at] + data[end:],
        "insert": data[:at] + noise + data[at:],
        "overwrite": data[:at] + noise + data[at + len(noise) :],
        "repeat": data[:end] + data[at:],
        "zeros": data[:at] + bytes(end - at) + data[end:],
        "empty": b"",
        "gone": None,
        "other": random.choice((b"PK\5\6", b"null\n", b"[]\n", b"{}\n", b"\xff\xfe", b"[" * 10**5)),
    }
    how = random.choice(list(changed))
    return f"bytes: {how} at {at}", changed[how]


def _places(value: Any, path: PathInFile = ()) -> Iterator[PathInFile]:
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(item, (*path, key))


def _load(data: bytes) -> list[Any]:
    """The objects of a file: one, or one per line."""
    try:
        return [json.loads(data)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in data.split(b"\n") if line]


def _dump(content: list[Any]) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in content).encode("utf-8", "surrogatepass")


def _field(data: bytes, random: Random) -> tuple[str, bytes]:
    content = _load(data)
    where = random.choice([path for path in _places(content) if path])
    value = random.choice(VALUES)
    return f"field {where} = {value!r:.60}", _dump(replaced(content, where, lambda old: value))


def _key(data: bytes, random: Random) -> tuple[str, bytes]:
    """Remove, rename or repeat a key, or change the length of a list."""
    content = _load(data)
    parents = [p for p in _places(content) if p and isinstance(_at(content, p), dict | list)]
    where = random.choice(parents)

    def change(old: Any) -> Any:
        if isinstance(old, list):
            return random.choice((old[1:], old + old[:1], old[::-1], old * 2))
        keys = list(old)
        if not keys:
            return {"x": 0}
        key = random.choice(keys)
        rest = {k: v for k, v in old.items() if k != key}
        return random.choice((rest, {**rest, EVERYTHING: old[key]}, {**old, "x": 1}))

    after = _dump(replaced(content, where, change))
    if random.random() < 0.2:
        after = after.replace(b"{", b'{"iteration": 0, "iteration": 1, ', 1)
    return f"keys of {where}", after


def _at(value: Any, path: PathInFile) -> Any:
    for key in path:
        value = value[key]
    return value


def _lines(data: bytes, random: Random) -> tuple[str, bytes]:
    lines = data.splitlines(keepends=True)
    at = random.randrange(len(lines))
    other = random.randrange(len(lines))
    swapped = lines.copy()
    swapped[at], swapped[other] = swapped[other], swapped[at]
    changed = {
        "repeat": [*lines[:at], lines[at], *lines[at:]],
        "remove": lines[:at] + lines[at + 1 :],
        "swap": swapped,
        "blank": [*lines[:at], b"\n", *lines[at:]],
        "end": lines[: at + 1],
        "cut": [*lines[:at], lines[at][: random.randrange(len(lines[at]))]],
        "append": [*lines, random.choice((b"{", b"{}\n", b'{"iteration": 99}\n', b"\xff"))],
        "returns": [line.replace(b"\n", b"\r\n") for line in lines],
    }
    how = random.choice(list(changed))
    return f"lines: {how} {at}", b"".join(changed[how])


def _arrays(data: bytes, random: Random) -> tuple[str, bytes]:
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    if "scores" not in arrays:
        return _weights(arrays, random)
    scores, truth = arrays["scores"], arrays.get("truth")
    odd = scores.copy()
    odd.flat[random.randrange(odd.size)] = random.choice((np.nan, np.inf, -np.inf, 1e38, 0))
    changed: dict[str, dict[str, Any]] = {
        "object": {**arrays, "scores": scores.astype(object)},
        "text": {**arrays, "scores": scores.astype(str)},
        "complex": {**arrays, "scores": scores.astype(complex)},
        "whole": {**arrays, "scores": scores.astype(int)},
        "double": {**arrays, "scores": scores.astype(float)},
        "half": {**arrays, "scores": scores.astype(np.float16)},
        "columns": {**arrays, "scores": np.asfortranarray(scores)},
        "fewer": {**arrays, "scores": scores[:-1]},
        "flat": {**arrays, "scores": scores.reshape(-1)},
        "turned": {**arrays, "scores": scores.transpose(2, 1, 0)},
        "none": {**arrays, "scores": scores[:0]},
        "value": {**arrays, "scores": odd},
        "structured": {**arrays, "scores": np.zeros(3, [("x", "f4"), ("y", "i4")])},
        "nothing": {},
        "more": {**arrays, "more": scores},
        "no scores": {"truth": scores},
        "no truth": {"scores": scores},
    }
    if truth is not None:
        changed["other truth"] = {**arrays, "truth": truth[:, ::-1]}
        changed["truth outside"] = {**arrays, "truth": truth + 5}
        changed["truth of floats"] = {**arrays, "truth": truth.astype(float)}
        changed["same caption"] = {**arrays, "truth": np.zeros_like(truth)}
    how = random.choice(list(changed))
    buffer = io.BytesIO()
    save = random.choice((np.savez, np.savez_compressed))
    save(buffer, **changed[how])
    return f"arrays: {how}", buffer.getvalue()


def _weights(arrays: dict[str, np.ndarray], random: Random) -> tuple[str, bytes]:
    """One array of a model becomes another."""
    name = random.choice(list(arrays))
    old = arrays.pop(name)
    one = old.reshape(-1)
    new: dict[str, np.ndarray | None] = {
        "gone": None,
        "object": old.astype(object),
        "text": old.astype(str),
        "whole": old.astype(int),
        "half": old.astype(np.float16),
        "flat": one,
        "more axes": old[None],
        "fewer": one[: one.size // 2],
        "none": one[:0],
        "number": one[:1].reshape(()),
        "turned": old.T,
        "nan": np.full_like(old, np.nan, dtype=np.float32),
        "longer": np.concatenate([old.reshape(old.shape or (1,))] * 2),
        "structured": np.zeros(3, [("x", "f4"), ("y", "i4")]),
    }
    how = random.choice(list(new))
    if (changed := new[how]) is not None:
        arrays[name] = changed
    if random.random() < 0.1:
        arrays[random.choice(("x", "params/img/more", "../x"))] = one[:1]
    buffer = io.BytesIO()
    save = random.choice((np.savez, np.savez_compressed))
    save(buffer, **arrays)  # type: ignore[arg-type]
    return f"{name}: {how}", buffer.getvalue()


def _pictures(data: bytes, random: Random) -> tuple[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(files))
    buffer = io.BytesIO()
    Image.new("RGB", (5000, 3)).save(buffer, "jpeg")
    png = io.BytesIO()
    Image.new("RGB", (5, 3)).save(png, "png")
    changed = {
        "missing": {k: v for k, v in files.items() if k != name},
        "more": {**files, "99.jpg": files[name]},
        "elsewhere": {f"../{k}": v for k, v in files.items()},
        "wide": {**files, name: buffer.getvalue()},
        "png": {**files, name: png.getvalue()},
        "cut": {**files, name: files[name][: random.randrange(len(files[name]))]},
        "noise": {**files, name: random.randbytes(300)},
        "empty": {**files, name: b""},
        "bomb": {**files, name: files[name] + bytes(10**7)},
        "turned": dict(reversed(files.items())),
    }
    how = random.choice(list(changed))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", random.choice((0, 8, 12, 14))) as archive:
        for key, value in changed[how].items():
            archive.writestr(key, value)
    return f"pictures: {how}", written.getvalue()
