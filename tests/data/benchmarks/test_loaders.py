"""MMVP-VLM, SugarCrepe, WhatsUp: which picture meets which caption; files that are not right."""

import json

import benchmark_layouts as layouts
import pytest

from ttm_jax.data.benchmarks import mmvp, sugarcrepe, whatsup
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS, load_benchmark
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.errors import InputError

# MMVP-VLM: CSV and folders of JPEGs


def test_mmvp_pairs_consecutive_rows_of_nine_types(tmp_path):
    layouts.write_mmvp(tmp_path)
    groups = mmvp.read_groups(tmp_path / "mmvp_vlm")
    assert [group.id for group in groups[:2]] == ["1-2", "3-4"]
    for i, group in enumerate(groups):
        numbers = (2 * i + 1, 2 * i + 2)
        assert [image.read_bytes() for image in group.images] == [
            layouts.picture(number, "JPEG") for number in numbers
        ]
        # the statement as it is, commas and all, with nothing put before it
        assert group.captions == tuple(f"butterfly {number}, with feet" for number in numbers)
    kinds = [group.tags for group in groups]
    assert {kind: kinds.count((kind,)) for kind in layouts.MMVP_TYPES} == dict.fromkeys(
        layouts.MMVP_TYPES, 15
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Question ID,Type,Statement\n1,Color,red\n", "has 1 rows; two rows make a group"),
        ("Question ID,Type,Statement\n1,Color,red\n2,Text,blue\n", "'Color' and 'Text'"),
        ("ID,Type,Statement\n1,Color,red\n", "expected Question ID, Type, Statement"),
        ("Question ID,Type,Statement\n1,../..,a\n2,../..,b\n", r"type '\.\./\.\.'"),
        ("Question ID,Type,Statement\n1,,a\n2,,b\n", "type ''"),
        ("Question ID,Type,Statement\n1a,Color,a\n2,Color,b\n", "'1a'; expected a whole number"),
        ("Question ID,Type,Statement\n1,Color,\n2,Color,b\n", "question 1 has no statement"),
        ("Question ID,Type,Statement\n1,Color\n2,Color,b\n", "question 1 has no statement"),
        ("", r"has the columns \[\]"),
    ],
)
def test_mmvp_tables_that_are_not_right(tmp_path, text, message):
    (tmp_path / "Questions.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        mmvp.read_groups(tmp_path)


def test_mmvp_table_of_a_spreadsheet(tmp_path):
    """A byte-order mark and CRLF are what a spreadsheet adds; Latin-1 is refused."""
    path = tmp_path / "Questions.csv"
    path.write_bytes(
        "Question ID,Type,Statement\r\n1,Color,a café\r\n2,Color,b\r\n".encode("utf-8-sig")
    )
    assert mmvp.read_groups(tmp_path)[0].captions == ("a café", "b")
    path.write_bytes("Question ID,Type,Statement\r\n1,Color,a café\r\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        mmvp.read_groups(tmp_path)


# SugarCrepe: JSON and COCO names


@pytest.mark.parametrize(("subset", "count"), [("add_att", 692), ("swap_obj", 245)])
def test_sugarcrepe_real_annotations(tmp_path, subset, count):
    folder = layouts.write_sugarcrepe(tmp_path, subset)
    groups = sugarcrepe.read_groups(folder, subset)
    assert len(groups) == count
    entries = json.loads((layouts.ASSETS / f"{subset}.json").read_text())
    for group in groups:
        entry = entries[group.id]
        assert group.images == (folder / "val2017" / entry["filename"],)
        assert group.captions == (entry["caption"], entry["negative_caption"])
        assert group.truth == (0,)
        assert group.tags == (subset,)


def test_sugarcrepe_keys_have_gaps(tmp_path):
    """245 entries of swap_obj are numbered up to 245: counting would shift the rest by one."""
    groups = sugarcrepe.read_groups(layouts.write_sugarcrepe(tmp_path, "swap_obj"), "swap_obj")
    assert groups[-1].id == "245"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "holds a JSON list; expected an object"),
        ('{"0": {"filename": "1.jpg", "caption": "a"}}', "entry '0' should have the texts"),
        ('{"0": 1}', "entry '0' should have the texts"),
        (
            '{"7": {"filename": "../1.jpg", "caption": "a", "negative_caption": "b"}}',
            "entry '7': '../1.jpg' is not the name of a COCO image",
        ),
        ("{", "is not JSON"),
    ],
)
def test_sugarcrepe_annotations_that_are_not_right(tmp_path, text, message):
    (tmp_path / "add_obj.json").write_text(text)
    with pytest.raises(InputError, match=message):
        sugarcrepe.read_groups(tmp_path, "add_obj")


def test_sugarcrepe_annotation_missing(tmp_path):
    with pytest.raises(NotPrepared, match=r"add_obj.json does not exist"):
        sugarcrepe.read_groups(tmp_path, "add_obj")


# WhatsUp: JSON and relations in file names


def _released(folder, part, name):
    folder_name = {"a": "controlled_images", "b": "controlled_clevr"}[part]
    return folder / folder_name / name


@pytest.mark.parametrize("part", ["a", "b"])
def test_whatsup_single_images(tmp_path, part):
    folder = layouts.write_whatsup(tmp_path, part)
    groups = whatsup.read_single_images(folder, part, corrected=False)
    for group, entry in zip(groups, layouts.whatsup_entries(part), strict=True):
        assert group.images[0] == folder / entry["image_path"].removeprefix("data/")
        assert group.captions == tuple(entry["caption_options"])
        assert group.truth == (0,)
    relations = {"a": ["left", "right", "on", "under"], "b": ["left", "right", "front", "behind"]}
    assert [group.tags[0] for group in groups[:4]] == relations[part]


def test_whatsup_pairs_are_the_same_two_objects(tmp_path):
    folder = layouts.write_whatsup(tmp_path, "b")
    groups = whatsup.read_pairs(folder, "b", ("front", "behind"))
    assert groups[0].id == "mug_fork"
    assert [image.name for image in groups[0].images] == [
        "mug_in-front_of_fork.jpeg",
        "mug_behind_fork.jpeg",
    ]
    assert groups[0].captions == ("A mug in front of a fork", "A mug behind a fork")
    assert groups[0].tags == ("front-behind",)
    for group in groups:
        first, second = (image.name for image in group.images)
        assert first.replace("_in-front_of_", "_behind_") == second


@pytest.mark.parametrize("corrected", [True, False])
def test_the_pillow_images_are_exchanged_back(tmp_path, corrected):
    """In the release the file called left shows right and the other way round."""
    folder = layouts.write_whatsup(tmp_path, "a")
    shows_right = _released(folder, "a", "pillow_left_of_chair.jpeg")
    shows_left = _released(folder, "a", "pillow_right_of_chair.jpeg")
    expected = (shows_left, shows_right) if corrected else (shows_right, shows_left)

    singles = {g.id: g for g in whatsup.read_single_images(folder, "a", corrected)}
    left, right = singles["pillow_left_of_chair"], singles["pillow_right_of_chair"]
    assert left.captions[0] == "A pillow to the left of a chair"
    assert (left.images[0], right.images[0]) == expected

    pairs = {g.id: g for g in whatsup.read_pairs(folder, "a", ("left", "right"), corrected)}
    assert pairs["pillow_chair"].images == expected
    assert pairs["pillow_chair"].captions[0] == "A pillow to the left of a chair"
    # nothing else moves
    assert singles["pillow_on_chair"].images[0].name == "pillow_on_chair.jpeg"
    others = [g for g in pairs.values() if g.id != "pillow_chair"]
    assert all("_left_of_" in g.images[0].name for g in others)


@pytest.mark.parametrize(
    ("name", "corrected", "labels", "title"),
    [
        ("whatsup_a", True, "corrected", "whatsup_a"),
        ("whatsup_a", False, "published", "whatsup_a_as_released"),
        ("whatsup_a_left_right", False, "published", "whatsup_a_left_right_as_released"),
        ("whatsup_a_on_under", False, "published", "whatsup_a_on_under"),
        ("whatsup_a_on_under", True, "published", "whatsup_a_on_under"),
        ("whatsup_b", False, "published", "whatsup_b"),
    ],
)
def test_the_summary_says_whether_labels_were_corrected(tmp_path, name, corrected, labels, title):
    layouts.write_whatsup(tmp_path, BENCHMARKS[name].part)
    loaded = load_benchmark(name, tmp_path, whatsup_correction=corrected)
    assert loaded.summary()["labels"] == labels
    assert loaded.dataset.name == title


def test_whatsup_part_without_the_confused_pair(tmp_path):
    entries = [e for e in layouts.whatsup_entries("a") if "pillow_left" not in e["image_path"]]
    (tmp_path / "controlled_images_dataset.json").write_text(json.dumps(entries))
    groups = whatsup.read_single_images(tmp_path, "a")
    assert all(group.id == group.images[0].stem for group in groups)
    with pytest.raises(InputError, match=r"pillow_right_of_chair.jpeg has no partner .*'left'"):
        whatsup.read_pairs(tmp_path, "a", ("left", "right"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"caption_options": ["a"] * 4}, "entry 0: no image_path"),
        ({"image_path": "x_on_y.jpeg", "caption_options": ["a"] * 3}, "should be four texts"),
        ({"image_path": "x_on_y.jpeg", "caption_options": ["a", "b", "c", ""]}, "four texts"),
        ({"image_path": "x_near_y.jpeg", "caption_options": ["a"] * 4}, "not say the relation"),
        ({"image_path": "x_behind_y.jpeg", "caption_options": ["a"] * 4}, "not say the relation"),
        (3, "entry 0: no image_path"),
    ],
)
def test_whatsup_entries_that_are_not_right(tmp_path, entry, message):
    (tmp_path / "controlled_images_dataset.json").write_text(json.dumps([entry]))
    with pytest.raises(InputError, match=message):
        whatsup.read_single_images(tmp_path, "a")


def test_whatsup_list_that_is_not_right(tmp_path):
    path = tmp_path / "controlled_images_dataset.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="holds a JSON dict; expected a list"):
        whatsup.read_single_images(tmp_path, "a")
    entry = layouts.whatsup_entries("a")[0]
    path.write_text(json.dumps([entry, entry]))
    with pytest.raises(InputError, match=r"lists beer-bottle_left_of_armchair\.jpeg 2 times"):
        whatsup.read_single_images(tmp_path, "a")


def test_image_paths_cannot_leave_the_folder(tmp_path):
    """Only the last part of `image_path` counts."""
    entry = {"image_path": "../../etc/x_on_y.jpeg", "caption_options": ["a", "b", "c", "d"]}
    (tmp_path / "controlled_images_dataset.json").write_text(json.dumps([entry]))
    (group,) = whatsup.read_single_images(tmp_path, "a")
    assert group.images == (tmp_path / "controlled_images" / "x_on_y.jpeg",)
