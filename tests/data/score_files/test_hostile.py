"""Score files that promise more than they hold: refused by their sizes, before memory is taken."""

import io
import json
import os
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from ttm_jax.data.score_files.numpy_format import read_array
from ttm_jax.data.score_files.read import read_score_file
from ttm_jax.errors import InputError

SCORES = np.arange(24, dtype=np.float32).reshape(6, 2, 2)


def npy(array, version=None) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version=version)
    return buffer.getvalue()


def header(shape, descr="'<f8'", version=1, length=None) -> bytes:
    """The start of an .npy file, as promised, with nothing behind it."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    size = struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


def npz(members: dict[str, bytes], compression=zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return buffer.getvalue()


def refused(path, data: bytes, matrix: bool = False) -> str:
    """The error, in one line; it must take next to no memory to find it."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            read_score_file(path, matrix)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30 << 20
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert path.read_bytes() == data
    return message


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("shape", ["(1000000000, 1, 1)", "(10**9,)", "(999999, 999999, 999999)"])
def test_a_header_that_promises_a_billion(tmp_path, version, shape):
    shape = str(eval(shape))
    data = header(shape, version=version) + bytes(100)
    message = refused(tmp_path / "s.npy", data)
    assert "at most 2147483648 are read" in message
    assert "at most 2147483648 are read" in refused(tmp_path / "s.npz", npz({"scores.npy": data}))


def test_a_header_that_promises_a_little_more_or_less(tmp_path):
    assert "promises 80 bytes, 72 follow" in refused(
        tmp_path / "s.npy", header((10, 1, 1)) + bytes(72)
    )
    assert "promises 80 bytes, 88 follow" in refused(
        tmp_path / "s.npy", header((10, 1, 1)) + bytes(88)
    )


def test_a_header_without_end(tmp_path):
    data = header((1, 1, 1), version=2, length=2**32 - 1)
    assert "has a header of 4294967295 bytes" in refused(tmp_path / "s.npy", data)
    data = header((1, 1, 1), version=1, length=60_000) + bytes(70_000)
    assert "has a header of 60000 bytes" in refused(tmp_path / "s.npy", data)


@pytest.mark.parametrize(
    ("descr", "message"),
    [
        ("'|O'", "holds Python objects; pickles are not opened"),
        ("[('a', '<f8'), ('b', '<i4')]", "expected plain numbers"),
        ("[('a', '|O')]", "pickles are not opened"),
        ("('<f8', (3,))", "numpy file|expected plain numbers|shape|promises"),
        ("'<U8'", "expected plain numbers"),
        ("'|S8'", "expected plain numbers"),
        ("'<c16'", "expected plain numbers"),
        ("'<M8[s]'", "expected plain numbers"),
        ("'|V8'", "expected plain numbers"),
        ("'|V0'", "expected plain numbers"),
        ("'no type'", "cannot be read as a numpy file"),
        ("7", "cannot be read as a numpy file|expected plain numbers"),
        ("__import__('os')", "cannot be read as a numpy file"),
    ],
)
def test_other_types_than_numbers(tmp_path, descr, message):
    import re

    data = header((1, 1, 1), descr) + bytes(8)
    assert re.search(message, refused(tmp_path / "s.npy", data))
    refused(tmp_path / "s.npz", npz({"scores.npy": data}))


@pytest.mark.parametrize(
    "shape",
    ["(-1, 2, 2)", "(0, 2, 2)", "(10**18, 0)", "(1.5,)", "'x'", "7", "None", "()", "(True, 1, 1)"],
)
def test_odd_shapes(tmp_path, shape):
    refused(tmp_path / "s.npy", header(shape.replace("10**18", str(10**18))) + bytes(8))


def test_tags_of_no_width_are_not_a_billion_tags(tmp_path):
    tags = header("(1000000000000,)", "'<U0'")
    assert "tags" in refused(tmp_path / "s.npz", npz({"scores.npy": npy(SCORES), "tags.npy": tags}))
    tags = header("(1000000000000, 0)", "'<U1'")
    assert "tags" in refused(tmp_path / "s.npz", npz({"scores.npy": npy(SCORES), "tags.npy": tags}))


def test_a_zip_bomb(tmp_path):
    """An honest header with a gigabyte of zeros behind it, in a megabyte."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("scores.npy", "w", force_zip64=True) as member,
    ):
        member.write(header((1 << 27, 1, 1)))
        for _ in range(256):
            member.write(bytes(1 << 22))
    data = buffer.getvalue()
    assert len(data) < 10 << 20
    assert "bytes that unpack to 1073" in refused(tmp_path / "s.npz", data)


def test_a_zip_that_lies_about_its_sizes(tmp_path):
    data = bytearray(npz({"scores.npy": npy(np.zeros((1 << 20, 1, 1)))}))
    entry = data.index(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = (1000).to_bytes(4, "little")
    refused(tmp_path / "s.npz", bytes(data))
    data[entry + 24 : entry + 28] = (2**32 - 2).to_bytes(4, "little")
    assert "at most 2147483648 are read" in refused(tmp_path / "s.npz", bytes(data))


def test_encrypted_and_unknown_compression(tmp_path):
    data = bytearray(npz({"scores.npy": npy(SCORES)}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    assert "scores is encrypted" in refused(tmp_path / "s.npz", bytes(data))
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        packed = npz({"scores.npy": npy(SCORES)}, method)
        assert f"(method {method})" in refused(tmp_path / "s.npz", packed)
    data = bytearray(npz({"scores.npy": npy(SCORES)}))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = data.index(signature) + offset
        data[at : at + 2] = (99).to_bytes(2, "little")
    assert "(method 99)" in refused(tmp_path / "s.npz", bytes(data))


def test_two_arrays_of_one_name(tmp_path):
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as file:
        warnings.simplefilter("ignore")
        file.writestr("scores.npy", npy(SCORES))
        file.writestr("scores.npy", npy(SCORES + 1))
    assert "two arrays of one name" in refused(tmp_path / "s.npz", buffer.getvalue())


def test_pickles_are_not_opened(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'evil'}",)

    buffer = io.BytesIO()
    np.save(buffer, np.array([Evil()], object), allow_pickle=True)
    assert "pickles are not opened" in refused(tmp_path / "s.npy", buffer.getvalue())
    refused(tmp_path / "s.npz", npz({"scores.npy": buffer.getvalue()}))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "group,image,caption,score\na,100000000,100000000,1\n",
            "has 1 scores; expected all pairs",
        ),
        ("group,image,caption,score\na,0,99999999,1\n", "has 1 scores; expected all pairs"),
        ("group,image,caption,score\na,9999999999,0,1\n", "is not a whole number"),
        ("group,image,caption,score\na,-1,0,1\na,1,0,1\n", "is not a whole number"),
        ("group,image,caption,score\na," + "9" * 5000 + ",0,1\n", "is not a whole number"),
        ("s_0_0,s_100000000_100000000\n1,2\n", "2 score columns up to"),
        ("s_0_0,s_" + "9" * 5000 + "_0\n1,2\n", "is not s_<image>_<caption>"),
        ("s_0_0,s_00_0\n1,2\n", "is not s_<image>_<caption>"),
        ("s_0_0\n" + "9" * 200_000 + "\n", "cannot be read as CSV"),
        ("s_0_0\n\0\n", "is not a number|CSV"),
        ("s_0_0\n1e999\n", ""),
    ],
)
def test_a_few_bytes_of_csv(tmp_path, text, message):
    path = tmp_path / "s.csv"
    path.write_text(text)
    try:
        found = read_score_file(path)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert not message or any(part in str(error) for part in message.split("|"))  # noqa: PT017
    else:
        assert message == ""
        assert found.scores.size < 10


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"scores": [["1", "2"]]}, "something that is not a number"),
        ({"scores": [[True, False]]}, "something that is not a number"),
        ({"scores": [[None, 1]]}, "something that is not a number"),
        ({"scores": [[10**400, 1]]}, "a number that is too large"),
        ({"scores": [[[1, 2]]]}, "something that is not a number"),
        ({"scores": []}, "are not rows of numbers"),
        ({"scores": [[]]}, "are not rows of numbers"),
        ({"scores": {"a": 1}}, "are not rows of numbers"),
        ({"scores": [[1, 2]], "truth": [10**400]}, "expected the caption index"),
        ({"scores": [[1, 2]], "truth": [2**31]}, "expected the caption index"),
        ({"scores": [[1, 2]], "truth": [-2]}, "expected the caption index"),
        ({"scores": [[1, 2]], "truth": None}, "expected the caption index"),
        ({"scores": [[1, 2]], "tags": {"a": 1}}, "tags are not strings"),
    ],
)
def test_lines_of_json(tmp_path, line, message):
    text = json.dumps(line)
    assert message in refused(tmp_path / "s.jsonl", text.encode())


def test_files_that_are_none(tmp_path):
    for name in ("s.npz", "s.npy", "s.csv", "s.jsonl"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InputError, match="it is a pipe, a socket or a device"):
            read_score_file(tmp_path / name)
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match="it is a folder"):
            read_score_file(tmp_path / name)
        with pytest.raises(InputError, match="does not exist"):
            read_score_file(tmp_path / "none" / name)
        with pytest.raises(InputError, match="File name too long"):
            read_score_file(tmp_path / ("x" * 300 + name))


def test_what_numpy_writes_is_read(tmp_path):
    for dtype in ("<f2", "<f4", "<f8", ">f8", "<i4", "|u1", "|b1"):
        scores = SCORES.astype(dtype)
        np.save(tmp_path / "s.npy", scores)
        np.testing.assert_array_equal(read_score_file(tmp_path / "s.npy").scores, scores)
        for save in (np.savez, np.savez_compressed):
            tags = np.array([["a", ""], *[["b", "c"]] * 5])
            save(tmp_path / "s.npz", scores=scores, truth=np.zeros((6, 2), int), tags=tags, more=1)
            found = read_score_file(tmp_path / "s.npz")
            np.testing.assert_array_equal(found.scores, scores)
            assert found.tags == (("a",), *[("b", "c")] * 5)
    np.save(tmp_path / "f.npy", np.asfortranarray(SCORES))
    np.testing.assert_array_equal(read_array(tmp_path / "f.npy", "scores"), SCORES)
    (tmp_path / "v.npy").write_bytes(npy(SCORES, (2, 0)))
    np.testing.assert_array_equal(read_array(tmp_path / "v.npy", "scores"), SCORES)


def test_the_limit_can_be_raised_and_lowered(tmp_path, monkeypatch):
    np.save(tmp_path / "s.npy", SCORES)
    monkeypatch.setenv("TTM_JAX_MAX_SCORE_BYTES", str(SCORES.nbytes))
    read_score_file(tmp_path / "s.npy")
    monkeypatch.setenv("TTM_JAX_MAX_SCORE_BYTES", str(SCORES.nbytes - 1))
    with pytest.raises(InputError, match="TTM_JAX_MAX_SCORE_BYTES changes this"):
        read_score_file(tmp_path / "s.npy")
