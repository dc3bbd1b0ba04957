"""Own folders with what a file system and a careless program can put into them."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from paths import TESTS
from PIL import Image

from ttm_jax.data.folder_reader import read_folder
from ttm_jax.data.folder_writer import write_folder
from ttm_jax.data.groups import Group
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_decode import ImageError, encoded_bytes

GROUP = {"id": "g0", "images": ["a.png", "b.png"], "captions": ["a cat", "a dog"]}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "set"
    made.mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (4, 4)).save(made / name)
    return made


def write(folder: Path, *lines: dict, name: str = "groups.jsonl") -> None:
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_folder(folder)
    message = str(caught.value)
    assert message.isprintable(), message
    return message


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def make_device_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_pipe, make_socket, make_device_link])
def test_no_file_where_an_image_should_be(folder, make):
    """A pipe would be waited for, and a device has no end."""
    (folder / "b.png").unlink()
    make(folder / "b.png")
    write(folder, GROUP)
    message = refused(folder)
    assert "1 of 2 image files cannot be used" in message
    assert "b.png cannot be read: it is a pipe, a socket or a device" in message
    with pytest.raises(ImageError, match="it is a pipe, a socket or a device"):
        encoded_bytes(folder / "b.png")


@pytest.mark.parametrize("make", [make_pipe, make_socket, make_device_link])
@pytest.mark.parametrize("name", ["groups.jsonl", "images.jsonl", "captions.jsonl"])
def test_no_file_where_a_list_should_be(folder, make, name):
    if name != "groups.jsonl":
        write(folder, {"image": "a.png"}, name="images.jsonl")
        write(folder, {"caption": "a cat"}, name="captions.jsonl")
        (folder / name).unlink()
    make(folder / name)
    assert "it is a pipe, a socket or a device" in refused(folder)


def test_links_that_lead_nowhere_or_in_a_circle(folder):
    (folder / "b.png").unlink()
    (folder / "b.png").symlink_to("none.png")
    write(folder, GROUP)
    assert "b.png does not exist" in refused(folder)
    (folder / "b.png").unlink()
    (folder / "b.png").symlink_to("b.png")
    assert "b.png cannot be read: Too many levels of symbolic links" in refused(folder)
    (folder / "groups.jsonl").unlink()
    (folder / "groups.jsonl").symlink_to("groups.jsonl")
    refused(folder)


def test_an_empty_image(folder):
    (folder / "b.png").write_bytes(b"")
    write(folder, GROUP)
    assert "b.png is empty" in refused(folder)


@pytest.mark.parametrize("name", ["x" * 300, "y/" * 3000 + "z", "x" * 100_000])
def test_names_that_are_too_long(folder, name):
    write(folder, GROUP | {"images": ["a.png", name]})
    message = refused(folder)
    assert "File name too long" in message
    assert len(message) < 5000
    with pytest.raises(InputError):
        read_folder(folder / name)


@pytest.mark.parametrize(
    "name", ["new\nline.png", "bell\a.png", "\x1b[2J.png", "right\u202eleft.png"]
)
def test_names_that_would_break_a_line(folder, name):
    write(folder, GROUP | {"images": ["a.png", name]})
    assert "does not exist" in refused(folder)
    shutil.copy(folder / "a.png", folder / name)  # a name that is odd, and fine
    assert len(read_folder(folder).images) == 2


@pytest.mark.parametrize("key", ["id", "images", "captions", "tags"])
def test_half_characters(folder, key):
    value = "half \ud800" if key == "id" else ["a.png", "half \ud800"]
    write(folder, GROUP | {key: value})
    assert "half a character" in refused(folder)


def test_ids_that_would_break_a_line(folder):
    write(folder, GROUP | {"id": "two\nlines"}, GROUP | {"id": "two\nlines"})
    assert r"id 'two\nlines' is already on line 1" in refused(folder)


@pytest.mark.parametrize("name", ["groups.jsonl", "images.jsonl", "captions.jsonl"])
@pytest.mark.parametrize("data", [b"\xff\xfe{", "{}".encode("utf-16"), b'{"id": "\x80"}'])
def test_lists_that_are_not_utf8(folder, name, data):
    if name != "groups.jsonl":
        write(folder, {"image": "a.png"}, name="images.jsonl")
        write(folder, {"caption": "a cat"}, name="captions.jsonl")
    (folder / name).write_bytes(data)
    assert f"{name} line 1: not UTF-8; save the file as UTF-8" in refused(folder)


def test_a_list_that_is_too_large(folder, monkeypatch):
    write(folder, GROUP)
    monkeypatch.setenv("TTM_JAX_MAX_LIST_BYTES", "10")
    assert "at most 10 are read" in refused(folder)


def test_an_image_that_is_too_large(folder, monkeypatch):
    with (folder / "b.png").open("wb") as file:
        file.truncate(1 << 40)  # a hole of a terabyte
    with pytest.raises(ImageError, match="it has 1099511627776 bytes, at most 536870912 are read"):
        encoded_bytes(folder / "b.png")


def test_groups_of_one_image_and_one_caption(folder):
    """Nothing to choose inside a group; a matching over all of them has something to choose."""
    write(
        folder,
        {"id": 0, "images": ["a.png"], "captions": ["a cat"], "truth": [0]},
        {"id": 1, "images": ["b.png"], "captions": ["a dog"], "truth": [0]},
    )
    dataset = read_folder(folder)
    assert [block.shape for block in dataset.blocks] == [(1, 1)]
    (all_together,) = dataset.ungrouped().blocks
    assert all_together.shape == (2, 2)
    assert all_together.truth.tolist() == [[0, 1]]


@pytest.mark.parametrize("ids", [("a", "a"), (1, 1), (1, "1"), ("1", 1)])
def test_ids_that_are_there_twice(folder, ids):
    write(folder, *(GROUP | {"id": identity} for identity in ids))
    assert "line 2: id '" in refused(folder)


@pytest.mark.parametrize("tags", [0, False, "", {}, "x", [1], [""]])
def test_tags_that_are_no_texts(folder, tags):
    write(folder, GROUP | {"tags": tags})
    assert "tags" in refused(folder)


def test_a_folder_whose_name_is_no_text(tmp_path, folder):
    """File names are bytes; records are UTF-8."""
    write(folder, GROUP)
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n odd")
    folder.rename(odd)
    dataset = read_folder(odd)
    assert dataset.name.isprintable()
    dataset.name.encode()


def test_what_cannot_be_copied_is_not_waited_for(tmp_path, folder):
    (folder / "b.png").unlink()
    os.mkfifo(folder / "b.png")
    group = Group("g", (folder / "a.png", folder / "b.png"), ("a", "b"))
    with pytest.raises(InputError, match="it is a pipe"):
        write_folder([group], tmp_path / "out")
    assert not (tmp_path / "out").exists()


PROGRAM = """
import os, sys
from ttm_jax.data.folder_reader import read_folder
from ttm_jax.errors import InputError
if os.getuid() == 0:  # root may read everything
    read_folder(sys.argv[1])  # loads what is loaded when it is first needed
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print(len(read_folder(sys.argv[1])))
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("locked", "message"),
    [
        ("b.png", "b.png cannot be read: Permission denied"),
        ("groups.jsonl", "groups.jsonl cannot be read: Permission denied"),
        (".", "cannot be read: Permission denied"),
    ],
)
def test_no_permission(locked, message):
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        folder = Path(parent) / "set"
        folder.mkdir()
        for name in ("a.png", "b.png"):
            Image.new("RGB", (4, 4)).save(folder / name)
        write(folder, GROUP)
        assert _read_in_another_process(folder) == "1\n"
        os.chmod(folder / locked, 0)
        try:
            assert message in _read_in_another_process(folder)
        finally:
            os.chmod(folder / locked, 0o755)


def _read_in_another_process(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout
