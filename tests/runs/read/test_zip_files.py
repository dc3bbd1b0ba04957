"""Archives that are damaged, or that unpack to far more than they should."""

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from ttm_jax.errors import InputError
from ttm_jax.runs.read.zip_files import open_zip


def archive(tmp_path: Path, files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return path


def read(path: Path, name: str = "a", most: int = 100, members: int = 3) -> bytes:
    with open_zip(path, "SCORE_BYTES", members) as found:
        return found.read(name, most)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_read(tmp_path, compression):
    assert read(archive(tmp_path, {"a": b"x" * 100, "b": b""}, compression)) == b"x" * 100


def test_a_bomb_is_never_unpacked(tmp_path):
    path = archive(tmp_path, {"a": bytes(200_000_000)}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**6
    tracemalloc.start()
    with pytest.raises(InputError, match="a has 200000000 bytes; expected at most 100"):
        read(path)
    # The same archive, with a lie about the size in its directory.
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<L", 200_000_000), struct.pack("<L", 100)))
    with pytest.raises(InputError, match=r"a is damaged|not as long as the archive says"):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_too_many_members(tmp_path):
    path = archive(tmp_path, {str(number): b"" for number in range(10_000)})
    with pytest.raises(InputError, match="more than 3 members"):
        read(path)
    # A directory that says it has few members, but is long all the same.
    data = bytearray(path.read_bytes())
    struct.pack_into("<HH", data, len(data) - 14, 2, 2)
    path.write_bytes(data)
    with pytest.raises(InputError, match="more than 3 members"):
        read(path)


def test_more_members_than_fit_into_16_bits(tmp_path):
    path = archive(tmp_path, {str(number): b"x" for number in range(70_000)})
    assert read(path, "69999", members=70_000) == b"x"
    with pytest.raises(InputError, match="more than 60000 members"):
        read(path, "69999", members=60_000)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression(tmp_path, compression):
    with pytest.raises(InputError, match="compressed in an unusual way"):
        read(archive(tmp_path, {"a": b"x"}, compression))


def test_damage(tmp_path):
    path = archive(tmp_path, {"a": b"x" * 50})
    data = path.read_bytes()
    for broken, message in (
        (b"", "too short"),
        (data[:-1], "no directory at its end"),
        (data + b"\0", "no directory at its end"),
        (data[:-6] + b"\xff\xff\xff\x7f\0\0", r"a\.zip: a is damaged"),
        (data.replace(b"xx", b"xy", 1), "a is damaged: Bad CRC-32"),
    ):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=message):
            read(path)


def test_a_name_twice(tmp_path):
    path = tmp_path / "a.zip"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a", b"x")
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("a", b"y")
    path.write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match="a name appears twice"):
        read(path)
