"""Folders of the user's own data: what is read, what is refused and how, what is written."""

import errno
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import TESTS
from PIL import Image

from ttm_jax.data.folder_reader import read_folder, write_folder
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import NamedBytes

GROUP = {"id": "g0", "images": ["a.png", "b.png"], "captions": ["a cat", "a dog"]}


@pytest.fixture
def folder(tmp_path):
    for i, name in enumerate(("a.png", "b.png", "c.png")):
        Image.new("RGB", (4, 4), (40 * i, 0, 0)).save(tmp_path / name)
    return tmp_path


def write_lines(path: Path, *lines: dict | str) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")


def pixels(image) -> np.ndarray:
    if isinstance(image, np.ndarray):
        return image
    with Image.open(image) as picture:
        return np.asarray(picture)


# --- reading groups


def test_groups_with_everything(folder):
    tagged = GROUP | {"truth": [1, 0], "tags": ["animal", "easy"]}
    choice = {"id": 7, "images": ["c.png"], "captions": ["x", "y", "a cat"], "truth": [2]}
    write_lines(folder / "groups.jsonl", tagged, "", choice)
    data = read_folder(folder)
    two, three = data.blocks
    assert data.name == folder.name
    assert (two.shape, three.shape) == ((2, 2), (1, 3))
    assert two.tags == (("animal", "easy"),)
    assert (two.ids, three.ids) == (("g0",), ("7",))
    assert (two.truth.tolist(), three.truth.tolist()) == ([[1, 0]], [[2]])
    assert [Path(i).name for i in data.images] == ["a.png", "b.png", "c.png"]
    assert data.captions == ("a cat", "a dog", "x", "y")


def test_groups_without_truth(folder):
    write_lines(folder / "groups.jsonl", GROUP, GROUP | {"id": "g1", "truth": None})
    data = read_folder(folder)
    assert len(data) == 2
    assert not data.has_truth


def test_an_image_without_caption(folder):
    more = {"id": "x", "images": ["a.png", "b.png"], "captions": ["c"], "truth": [None, 0]}
    write_lines(folder / "groups.jsonl", more)
    assert read_folder(folder).blocks[0].truth.tolist() == [[-1, 0]]


def test_paths_may_lead_out_of_the_folder(folder):
    inner = folder / "lists"
    inner.mkdir()
    write_lines(inner / "groups.jsonl", GROUP | {"images": ["../a.png", str(folder / "b.png")]})
    data = read_folder(inner)
    assert [pixels(i)[0, 0, 0] for i in data.images] == [0, 40]


def test_byte_order_mark_windows_lines_and_odd_separators(folder):
    captions = ["one\u2028two", "a\u0085b"]
    text = json.dumps(GROUP | {"captions": captions}, ensure_ascii=False)
    (folder / "groups.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\r\n\r\n")
    assert read_folder(folder).captions == tuple(captions)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([GROUP, "{'id': 1}"], r"groups\.jsonl line 2: not one JSON object per line: "),
        ([GROUP, '{"id": "x",'], "line 2: not one JSON object"),
        (["", "[1, 2]"], "line 2: a JSON list; expected an object"),
        (['{"id": 1, "id": 2}'], "line 1: .*twice"),
        (["[" * 100_000], "line 1: nested too deeply"),
        ([{"id": "x", "captions": ["a"]}], "line 1: images missing; expected id, images, captions"),
        ([GROUP | {"thruth": [0, 1]}], "line 1: unknown key thruth; known are .*truth"),
        ([GROUP | {"id": None}], "line 1: id is None; expected a text or a whole number"),
        ([GROUP | {"id": True}], "line 1: id is True"),
        ([GROUP | {"id": ""}], "line 1: id is ''"),
        ([GROUP, GROUP], "line 2: id 'g0' is already on line 1"),
        ([GROUP | {"images": "a.png"}], r"line 1: images is 'a\.png'; expected a list of texts"),
        ([GROUP | {"images": ["a.png", 3]}], r"line 1: images\[1\] is 3; expected a text"),
        ([GROUP | {"images": []}], "line 1: group 'g0' has 0 images and 2 captions"),
        ([GROUP | {"images": ["https://x/a.png"]}], "line 1: .* is an address; download it"),
        ([GROUP | {"images": ["a\0.png"]}], "line 1: .* is not a file name"),
        ([GROUP | {"captions": ["a", "  "]}], r"line 1: captions\[1\] is '  '; expected a text"),
        ([GROUP | {"captions": {"a": 1}}], "line 1: captions is {'a': 1}; expected a list"),
        (['{"id":1,"images":["a.png"],"captions":["\\ud800"]}'], "line 1: .*surrogate"),
        ([GROUP | {"tags": "animal"}], "line 1: tags is 'animal'; expected a list"),
        ([GROUP | {"truth": 0}], "line 1: truth is 0; expected the index"),
        ([GROUP | {"truth": [0, True]}], r"line 1: truth is \[0, True\]; expected the index"),
        ([GROUP | {"truth": [0, "1"]}], "line 1: truth is .*; expected the index"),
        ([GROUP | {"truth": [0, -1]}], "line 1: truth is .*count from 0, no caption is null"),
        ([GROUP | {"truth": [0, 2]}], r"line 1: .*truth \[0, 2\] points outside its 2 captions"),
        ([GROUP | {"truth": [0, 0]}], "line 1: .*uses a caption twice"),
        ([GROUP | {"truth": [0]}], "line 1: .*truth has 1 entries for 2 images"),
        ([GROUP | {"truth": [0, None]}], "line 1: .*has 1 of 2 pairs"),
        (
            [GROUP | {"truth": [0, 1]}, GROUP | {"id": "g1"}],
            "line 2: no truth, but line 1 of the same shape has one",
        ),
        (
            [GROUP, GROUP | {"id": "g1", "truth": [0, 1]}],
            "line 1: no truth, but line 2 of the same shape has one",
        ),
        ([], r"groups\.jsonl is empty"),
    ],
)  # fmt: skip
def test_groups_refused(folder, lines, message):
    write_lines(folder / "groups.jsonl", *lines)
    with pytest.raises(InputError, match=message) as caught:
        read_folder(folder)
    assert "\n" not in str(caught.value)


def test_not_utf8(folder):
    good = json.dumps(GROUP).encode()
    (folder / "groups.jsonl").write_bytes(good + b"\n" + b'{"id": "caf\xe9"}')
    with pytest.raises(InputError, match=r"groups\.jsonl line 2: not UTF-8"):
        read_folder(folder)


def test_missing_images_are_counted_and_the_first_named(folder):
    lines = [
        {"id": f"g{i}", "images": ["a.png", f"no{i}.png"], "captions": ["a", "b"]} for i in range(5)
    ]
    write_lines(folder / "groups.jsonl", *lines, GROUP | {"id": "again", "images": ["no0.png"]})
    with pytest.raises(InputError, match=r"5 of 6 image files cannot be used") as caught:
        read_folder(folder)
    text = str(caught.value)
    assert all(f"no{i}.png does not exist (group 'g{i}')" in text for i in range(3))
    assert "no3.png" not in text


def test_a_folder_is_not_an_image(folder):
    (folder / "sub").mkdir()
    write_lines(folder / "groups.jsonl", GROUP | {"images": ["a.png", "sub"]})
    with pytest.raises(InputError, match="1 of 2 image files cannot be used"):
        read_folder(folder)


def test_which_form(folder):
    with pytest.raises(InputError, match="neither"):
        read_folder(folder)
    with pytest.raises(InputError, match="is not a folder"):
        read_folder(folder / "a.png")
    write_lines(folder / "images.jsonl", {"image": "a.png"})
    with pytest.raises(InputError, match=r"but no captions\.jsonl"):
        read_folder(folder)
    write_lines(folder / "groups.jsonl", GROUP)
    with pytest.raises(InputError, match=r"groups\.jsonl and images\.jsonl; keep one"):
        read_folder(folder)


def test_the_example_of_the_page_is_read(tmp_path):
    page = (TESTS.parent / "docs" / "own_data.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```json\n")[1:]]
    results = ('"margin"', '"similarity"')  # lines that a command writes
    blocks = [block for block in blocks if not any(key in block for key in results)]
    (tmp_path / "images").mkdir()
    for name in ("cat_on_dog.jpg", "dog_on_cat.jpg", "parrot.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / "images" / name)
    (tmp_path / "groups.jsonl").write_text(blocks[0], encoding="utf-8")
    assert [b.shape for b in read_folder(tmp_path).blocks] == [(2, 2), (1, 3)]
    (tmp_path / "groups.jsonl").unlink()
    (tmp_path / "images.jsonl").write_text(blocks[1], encoding="utf-8")
    (tmp_path / "captions.jsonl").write_text(blocks[2] * 5, encoding="utf-8")
    assert read_folder(tmp_path).blocks[0].truth.tolist() == [[4]]


# --- reading without groups


CATS = [{"caption": "a cat", "id": "cat"}, {"caption": "a dog", "id": "dog"}, {"caption": "a cow"}]


@pytest.mark.parametrize(
    ("said", "truth"),
    [([None, None], None), ([2, 0], [[2, 0]]), (["dog", "cat"], [[1, 0]]), ([2, "dog"], [[2, 1]])],
)
def test_ungrouped(folder, said, truth):
    lines = [{"image": "a.png", "caption": said[0]}, {"image": "b.png", "caption": said[1]}]
    write_lines(folder / "images.jsonl", *lines)
    write_lines(folder / "captions.jsonl", *CATS)
    (block,) = read_folder(folder).blocks
    assert block.shape == (2, 3)
    assert block.ids == (folder.name,)
    assert (None if block.truth is None else block.truth.tolist()) == truth


@pytest.mark.parametrize(
    ("images", "captions", "message"),
    [
        ([{"image": 3}], CATS, r"images\.jsonl line 1: image is 3; expected a text"),
        ([{"images": "a.png"}], CATS, r"images\.jsonl line 1: image missing"),
        ([{"image": "a.png"}], [{"caption": ""}], r"captions\.jsonl line 1: caption is ''"),
        ([{"image": "a.png", "caption": 3}], CATS, "line 1: caption 3 is outside the 3"),
        ([{"image": "a.png", "caption": -1}], CATS, "line 1: caption -1 is outside the 3"),
        ([{"image": "a.png", "caption": True}], CATS, "line 1: caption is True; expected an index"),
        ([{"image": "a.png", "caption": "cow"}], CATS, "line 1: caption 'cow' is no id"),
        (
            [{"image": "a.png", "caption": 0}, {"image": "b.png", "caption": "cat"}],
            CATS,
            "line 2: caption 'cat' already belongs to the image on line 1",
        ),
        (
            [{"image": "a.png", "caption": 0}, {"image": "b.png"}],
            CATS,
            "line 2: no caption, but line 1 has one",
        ),
        ([{"image": "a.png"}], [CATS[0], CATS[0]], "line 2: id 'cat' is already on line 1"),
        ([{"image": f"{x}.png"} for x in "abc"], CATS[:2], "3 images for 2 captions"),
        ([{"image": "no.png"}], CATS, "1 of 1 image files cannot be used"),
        ([], CATS, r"images\.jsonl is empty"),
        ([{"image": "a.png"}], [], r"captions\.jsonl is empty"),
    ],
)
def test_ungrouped_refused(folder, images, captions, message):
    write_lines(folder / "images.jsonl", *images)
    write_lines(folder / "captions.jsonl", *captions)
    with pytest.raises(InputError, match=message):
        read_folder(folder)


# --- writing


def picture(value: int) -> np.ndarray:
    return np.full((3, 5, 3), value, np.uint8)


def same(read: GroupedDataset, written: GroupedDataset) -> None:
    assert read.captions == tuple(written.captions)
    for path, image in zip(read.images, written.images, strict=True):
        assert np.array_equal(pixels(path), pixels(image))
    for a, b in zip(read.blocks, written.blocks, strict=True):
        assert a.ids == b.ids
        assert a.tags == b.tags
        assert np.array_equal(a.image_index, b.image_index)
        assert np.array_equal(a.text_index, b.text_index)
        assert (a.truth is None) == (b.truth is None)
        assert a.truth is None or np.array_equal(a.truth, b.truth)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)


@st.composite
def group_values(draw) -> list[tuple]:
    """The fields of some groups. (The run-time type checks use `random`, so no `Group` in here.)"""
    pool = [picture(i) for i in range(6)]
    shapes = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=5))
    with_truth = {shape: draw(st.booleans()) for shape in shapes}
    ids = draw(st.lists(texts, min_size=len(shapes), max_size=len(shapes), unique=True))
    groups = []
    for name, (n, m) in zip(ids, shapes, strict=True):
        images = tuple(draw(st.permutations(pool))[:n])
        captions = tuple(draw(st.lists(texts, min_size=m, max_size=m)))
        known = tuple(draw(st.permutations([*range(m), *[-1] * (n - m)]))[:n])
        tags = tuple(draw(st.lists(texts, max_size=2)))
        groups.append((name, images, captions, known if with_truth[n, m] else None, tags))
    return groups


@given(group_values())
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read_back(values):
    dataset = GroupedDataset.from_groups([Group(*fields) for fields in values])
    with tempfile.TemporaryDirectory() as parent:
        folder = write_folder(dataset, Path(parent) / "deep" / "set")
        same(read_folder(folder), dataset)
        assert [p.name for p in folder.parent.iterdir()] == ["set"]


@given(st.integers(1, 4), st.integers(0, 2), st.booleans(), st.data())
@settings(max_examples=25, deadline=None)
def test_ungrouped_is_read_back(n, extra, known, data):
    truth = data.draw(st.permutations(range(n + extra)))[:n]
    group = Group(
        id="set",
        images=tuple(picture(i) for i in range(n)),
        captions=tuple(data.draw(st.lists(texts, min_size=n + extra, max_size=n + extra))),
        truth=tuple(truth) if known else None,
    )
    dataset = GroupedDataset.from_groups([group])
    with tempfile.TemporaryDirectory() as parent:
        same(read_folder(write_folder(dataset, Path(parent) / "set", grouped=False)), dataset)


def test_files_and_bytes_are_copied_unchanged(folder, tmp_path):
    buffer = io.BytesIO()
    Image.new("L", (8, 8), 77).save(buffer, "JPEG")
    (folder / "photo.JPG").write_bytes(buffer.getvalue())
    cmyk = Image.new("CMYK", (4, 4), (0, 255, 255, 0))
    sources = (folder / "photo.JPG", NamedBytes("x.parquet:3", buffer.getvalue()), cmyk)
    out = write_folder([Group("g", sources, ("a", "b", "c"))], tmp_path / "out")
    copied, extracted, converted = read_folder(out).images
    assert [Path(p).suffix for p in (copied, extracted, converted)] == [".jpg", ".jpeg", ".png"]
    assert Path(copied).read_bytes() == Path(extracted).read_bytes() == buffer.getvalue()
    assert pixels(converted)[0, 0].tolist() == [255, 0, 0]


def test_a_picture_of_several_groups_is_written_once(tmp_path):
    image = picture(1)
    groups = [Group(str(i), (image,), ("a", "b")) for i in range(3)]
    out = write_folder(groups, tmp_path / "out")
    assert len(list((out / "images").iterdir())) == 1


def test_array_pools_are_written(tmp_path):
    made = GroupedDataset.from_groups([Group("g", (picture(1), picture(2)), ("a", "b"))])
    stacked = GroupedDataset("s", np.stack([picture(1), picture(2)]), made.captions, made.blocks)
    same(read_folder(write_folder(stacked, tmp_path / "out")), made)


def test_writing_refused(tmp_path):
    images = np.zeros((1, 2, 4, 4, 3), np.float32)
    ready = GroupedDataset.from_arrays(images, np.zeros((1, 2, 7), np.int32))
    with pytest.raises(InputError, match="token ids"):
        write_folder(ready, tmp_path / "x")
    floats = GroupedDataset("f", ready.images, ("a", "b"), ready.blocks)
    with pytest.raises(InputError, match="normalised"):
        write_folder(floats, tmp_path / "x")
    two = [Group(str(i), (picture(i),), ("a",)) for i in range(2)]
    with pytest.raises(InputError, match=r"has 2 groups.*ungrouped\(\)"):
        write_folder(two, tmp_path / "x", grouped=False)
    many = [Group("g", (picture(1), picture(2)), ("a",))]
    with pytest.raises(InputError, match="2 images for 1 captions"):
        write_folder(many, tmp_path / "x", grouped=False)
    part = [
        Group("p", (picture(1), picture(2)), ("a",), (0, -1)),
        Group("q", (picture(3),), ("b", "c"), (0,)),
    ]
    with pytest.raises(InputError, match="some images have no true caption"):
        write_folder(GroupedDataset.from_groups(part).ungrouped(), tmp_path / "x", grouped=False)
    with pytest.raises(InputError, match="cannot be copied"):
        write_folder([Group("g", (tmp_path / "no.png",), ("a",))], tmp_path / "x")
    with pytest.raises(InputError, match=r"y\.zip cannot be decoded"):
        write_folder([Group("g", (NamedBytes("y.zip", b"no"),), ("a",))], tmp_path / "x")
    assert list(tmp_path.iterdir()) == []  # nothing half-written, nothing left behind


def test_what_is_there_is_not_overwritten_by_accident(tmp_path):
    one, two = ([Group(name, (picture(i),), ("a",))] for i, name in enumerate(("one", "two")))
    out = tmp_path / "out"
    out.mkdir()
    write_folder(one, out)  # an empty folder is fine
    with pytest.raises(InputError, match="is not empty"):
        write_folder(two, out)
    assert read_folder(out).blocks[0].ids == ("one",)
    write_folder(two, out, overwrite=True)
    assert read_folder(out).blocks[0].ids == ("two",)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds other data"):
        write_folder(two, tmp_path / "home", overwrite=True)
    with pytest.raises(InputError, match="is not a folder"):
        write_folder(two, tmp_path / "home" / "letter.txt", overwrite=True)
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(InputError, match="is not a folder"):
        write_folder(two, tmp_path / "link", overwrite=True)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"out cannot be written: .*is not a folder"):
        write_folder([Group("g", (picture(1),), ("a",))], tmp_path / "file" / "out")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ttm_jax.data.folder_writer._write_lines", full)
    with pytest.raises(InputError, match=r"cannot be written: .*No space left"):
        write_folder([Group("g", (picture(1),), ("a",))], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_overwrite_leaves_the_old_data(tmp_path):
    out = write_folder([Group("old", (picture(1),), ("a",))], tmp_path / "out")
    broken = [Group("new", (picture(2), tmp_path / "gone.png"), ("a", "b"))]
    with pytest.raises(InputError, match="cannot be copied"):
        write_folder(broken, out, overwrite=True)
    assert read_folder(out).blocks[0].ids == ("old",)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_set_can_be_rewritten_in_place_from_its_own_files(tmp_path):
    out = write_folder(
        [Group(str(i), (picture(i),), ("a", "b"), (0,)) for i in range(4)], tmp_path / "out"
    )
    write_folder(read_folder(out).limit(2), out, overwrite=True)
    again = read_folder(out)
    assert len(again) == 2
    assert [pixels(i)[0, 0, 0] for i in again.images] == [0, 1]
