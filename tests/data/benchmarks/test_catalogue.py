"""All benchmarks: names, counts, shapes, and what happens to images that cannot be used."""

import json

import benchmark_layouts as layouts
import numpy as np
import pytest

from ttm_jax.data.benchmarks.catalogue import (
    BENCHMARKS,
    default_data_dir,
    find_benchmark,
    load_benchmark,
)
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.data.paper import paper_settings
from ttm_jax.data.unreadable_images import name_group
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageError, ImageProcessor

LEFT_OUT = {"sugarcrepe_add_obj", "sugarcrepe_replace_att", "sugarcrepe_replace_obj"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Complete copies of everything for which annotations are at hand; tests do not change it."""
    root = tmp_path_factory.mktemp("data")
    layouts.write_winoground(root)
    layouts.write_colorswap(root)
    layouts.write_mmvp(root)
    for subset in ("add_att", "swap_obj"):
        layouts.write_sugarcrepe(root, subset)
    for part in "ab":
        layouts.write_whatsup(root, part)
    return root


def test_names_are_those_of_the_paper_and_the_other_sugarcrepe_subsets():
    names = {benchmark.name for benchmark in BENCHMARKS.values() if benchmark.in_paper}
    assert names == {row.dataset for row in paper_settings()} | LEFT_OUT
    assert len(names) == 16


@pytest.mark.parametrize(
    ("name", "groups", "images"),
    [
        ("winoground", 400, 800),
        ("mmvp_vlm", 135, 270),
        ("colorswap", 300, 600),
        ("sugarcrepe_add_att", 692, 497),
        ("sugarcrepe_swap_obj", 245, 224),
        ("whatsup_a", 412, 412),
        ("whatsup_b", 408, 408),
        ("whatsup_a_left_right", 103, 206),
        ("whatsup_a_on_under", 103, 206),
        ("whatsup_b_left_right", 102, 204),
        ("whatsup_b_front_behind", 102, 204),
    ],
)
def test_complete_copies(root, name, groups, images):
    loaded = load_benchmark(name, root)
    data = loaded.dataset
    assert (len(data), len(data.images)) == (groups, images)
    assert [block.shape for block in data.blocks] == [BENCHMARKS[name].shape]
    assert data.has_truth
    assert data.name == name
    assert loaded.skipped == ()
    assert loaded.listed == groups == BENCHMARKS[name].groups
    # the diagonal of the group is the truth
    (block,) = data.blocks
    np.testing.assert_array_equal(block.truth, np.tile(np.arange(block.shape[0]), (groups, 1)))
    json.dumps(loaded.summary(), allow_nan=False)


@pytest.mark.parametrize(("name", "pairs"), [("winoground", 800), ("mmvp_vlm", 270)])
def test_non_grouped_variants(root, name, pairs):
    data = load_benchmark(name, root).dataset.ungrouped()
    (block,) = data.blocks
    assert block.shape == (pairs, pairs)
    np.testing.assert_array_equal(block.truth[0], np.arange(pairs))


def test_the_colorswap_variant_without_groups_keeps_all_600_pairs(root):
    (block,) = load_benchmark("colorswap", root).dataset.ungrouped().blocks
    assert block.shape == (600, 600)


def test_a_count_that_differs_is_an_error_unless_allowed(tmp_path):
    layouts.write_mmvp(tmp_path, groups=134)
    with pytest.raises(InputError, match="lists 134 groups; published are 135") as caught:
        load_benchmark("mmvp_vlm", tmp_path)
    assert not isinstance(caught.value, NotPrepared)  # fetching what is missing would not mend it
    loaded = load_benchmark("mmvp_vlm", tmp_path, check_counts=False)
    assert loaded.summary()["groups"] == 134
    assert loaded.summary()["groups_expected"] == 135


def test_missing_images_stop_with_group_and_file(tmp_path):
    folder = layouts.write_mmvp(tmp_path)
    for number in (3, 4, 270):
        (
            folder / "MLLM_VLM Images" / layouts.MMVP_TYPES[(number - 1) // 30] / f"{number}.jpg"
        ).unlink()
    with pytest.raises(NotPrepared) as caught:
        load_benchmark("mmvp_vlm", tmp_path)
    message = str(caught.value)
    assert "3 images cannot be used: group '3-4': " in message
    assert "Orientation/3.jpg does not exist" in message
    assert "group '269-270'" in message
    assert "`ttm data mmvp_vlm` fetches what is missing" in message
    assert "\n" not in message


def test_skip_broken_lists_every_image_and_drops_whole_groups(tmp_path):
    folder = layouts.write_mmvp(tmp_path) / "MLLM_VLM Images" / "Orientation"
    (folder / "3.jpg").unlink()
    (folder / "5.jpg").write_bytes(b"")
    (folder / "8.jpg").write_bytes(layouts.picture(8, "JPEG")[:-300])  # cut short: exists, no image
    with pytest.raises(NotPrepared, match="2 images cannot be used"):
        load_benchmark("mmvp_vlm", tmp_path)
    loaded = load_benchmark("mmvp_vlm", tmp_path, skip_broken=True)
    assert len(loaded.dataset) == 132
    assert loaded.listed == 135  # the count that is checked is that of the annotation
    assert not {"3-4", "5-6", "7-8"} & set(loaded.dataset.blocks[0].ids)
    assert len(loaded.dataset.images) == 264
    said = loaded.summary()["skipped"]
    assert [entry["group"] for entry in said] == ["3-4", "5-6", "7-8"]
    assert [entry["image"].rsplit("/", 1)[1] for entry in said] == ["3.jpg", "5.jpg", "8.jpg"]
    assert said[0]["reason"] == "does not exist"
    assert said[1]["reason"] == "is empty"
    assert "decode" in said[2]["reason"]


def test_an_image_of_several_groups_takes_all_of_them_out(tmp_path):
    folder = layouts.write_sugarcrepe(tmp_path, "swap_obj")
    entries = json.loads((folder / "swap_obj.json").read_text())
    names = [entry["filename"] for entry in entries.values()]
    shared = max(names, key=names.count)
    users = [key for key, entry in entries.items() if entry["filename"] == shared]
    assert len(users) > 1
    (folder / "val2017" / shared).unlink()
    loaded = load_benchmark("sugarcrepe_swap_obj", tmp_path, skip_broken=True)
    assert [image.group for image in loaded.skipped] == users
    assert len(loaded.dataset) == 245 - len(users)


def test_no_group_left(tmp_path):
    folder = layouts.write_mmvp(tmp_path, groups=1)
    (folder / "MLLM_VLM Images" / "Orientation" / "1.jpg").unlink()
    with pytest.raises(InputError, match="no group is left"):
        load_benchmark("mmvp_vlm", tmp_path, skip_broken=True, check_counts=False)


def test_an_image_that_fails_later_is_named_with_its_groups(tmp_path):
    folder = layouts.write_sugarcrepe(tmp_path, "swap_obj")
    entries = json.loads((folder / "swap_obj.json").read_text())
    names = [entry["filename"] for entry in entries.values()]
    shared = max(names, key=names.count)
    (folder / "val2017" / shared).write_bytes(b"\xff\xd8 no jpeg")
    data = load_benchmark("sugarcrepe_swap_obj", tmp_path).dataset
    with pytest.raises(ImageError) as caught:
        ImageProcessor.for_family("clip", 32).batch(data.images)
    users = [key for key, entry in entries.items() if entry["filename"] == shared]
    message = str(name_group(data, caught.value))
    assert message.startswith(f"sugarcrepe_swap_obj, groups {users[0]!r}, {users[1]!r}")
    assert shared in message
    bare = ImageError("no position")
    assert name_group(data, bare) is bare


def test_nothing_there(tmp_path):
    with pytest.raises(NotPrepared, match=r"mmvp_vlm is not in .*`ttm data mmvp_vlm`"):
        load_benchmark("mmvp_vlm", tmp_path)


def test_unknown_name():
    with pytest.raises(InputError, match="no benchmark is called 'mmvp'; there are winoground, "):
        find_benchmark("mmvp")


def test_default_data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("TTM_JAX_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_data_dir() == tmp_path / "mine"
    layouts.write_mmvp(tmp_path / "mine")
    assert len(load_benchmark("mmvp_vlm").dataset) == 135
    monkeypatch.delenv("TTM_JAX_DATA")
    assert default_data_dir() == tmp_path / "cache" / "ttm_jax" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_data_dir() == tmp_path / ".cache" / "ttm_jax" / "data"


def test_a_missing_file_says_the_command_that_fetches_it(tmp_path):
    (tmp_path / "mmvp_vlm").mkdir()  # as a download that failed leaves it
    with pytest.raises(NotPrepared, match=r"Questions.csv does not exist; `ttm data mmvp_vlm`"):
        load_benchmark("mmvp_vlm", tmp_path)
