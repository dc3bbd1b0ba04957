"""The benchmarks that are not in the paper: small copies in their published layouts, and errors."""

import io
import json

import numpy as np
import other_layouts as layouts
import pytest
from benchmark_layouts import picture
from PIL import Image

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS, load_benchmark
from ttm_jax.data.benchmarks.of_the_paper import OF_THE_PAPER
from ttm_jax.data.benchmarks.others import OTHERS
from ttm_jax.data.benchmarks.valse import PIECES
from ttm_jax.data.download.by_plan import by_hand
from ttm_jax.data.download.plans import PLANS
from ttm_jax.data.folder_reader import read_folder
from ttm_jax.data.folder_writer import write_folder
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_decode import decode_rgb, encoded_bytes
from ttm_jax.inputs.preprocess import ImageProcessor

WRITTEN = {
    "sugarcrepe_pp_swap_obj": (layouts.sugarcrepe_pp, 6),
    "aro_vg_relation": (lambda root: layouts.aro(root, "relation"), 3),
    "aro_vg_attribution": (lambda root: layouts.aro(root, "attribution"), 3),
    "aro_coco_order": (lambda root: layouts.aro_order(root, "aro_coco_order"), 4),
    "aro_flickr_order": (lambda root: layouts.aro_order(root, "aro_flickr_order"), 4),
    "cola": (layouts.cola, 3),
    "bivlc": (layouts.bivlc, 3),
    "vismin": (layouts.vismin, 3),
    "eqben_small": (layouts.eqben, 2),
    "naturalbench_retrieval": (layouts.naturalbench, 3),
    "valse_actant_swap": (layouts.valse, 3),
    "coco_5k": (lambda root: layouts.karpathy(root, "coco"), 3),
    "flickr30k_1k": (lambda root: layouts.karpathy(root, "flickr30k"), 3),
    "imagecode": (layouts.imagecode, 3),
}
COLA_LIST = "COLA_multiobjects_matching_benchmark.json"
VG_LIST = "visual_genome_relation.json"


def load(name, root, **how):
    return load_benchmark(name, root, check_counts=False, **how).dataset


def test_names_sources_and_plans():
    names = [benchmark.name for benchmark in OTHERS]
    assert len(set(names)) == len(names)
    assert list(BENCHMARKS) == [b.name for b in (*OF_THE_PAPER, *OTHERS)]
    assert {b.source for b in OTHERS} == set(PLANS)
    assert all(b.licence and b.read is not None and not b.in_paper for b in OTHERS)
    assert all(b.in_paper and not b.unverified for b in OF_THE_PAPER)
    # every one is tested here, or differs from one that is by the name of its annotation only
    alike = {f"valse_{piece.replace('-', '_')}" for piece in PIECES}
    alike |= {b.name for b in OTHERS if b.source == "sugarcrepe_pp"}
    assert set(names) == set(WRITTEN) | alike
    # no exact number: said
    assert all("no exact number" in b.unverified for b in OTHERS if b.groups == 0)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_copy_in_the_published_layout(tmp_path, name):
    write, groups = WRITTEN[name]
    write(tmp_path)
    loaded = load_benchmark(name, tmp_path, check_counts=False, skip_broken=True)
    assert (len(loaded.dataset), loaded.skipped) == (groups, ())
    (block,) = loaded.dataset.blocks
    assert block.shape == BENCHMARKS[name].shape
    assert loaded.dataset.has_truth
    json.dumps(loaded.summary(), allow_nan=False)
    pixels = ImageProcessor.for_family("siglip", 16).batch(loaded.dataset.images, progress=False)
    assert len(pixels) == len(loaded.dataset.images)


@pytest.mark.parametrize("name", [n for n in WRITTEN if BENCHMARKS[n].groups])
def test_a_count_that_differs(tmp_path, name):
    WRITTEN[name][0](tmp_path)
    published = BENCHMARKS[name].groups
    with pytest.raises(InputError, match=rf"lists \d groups; published are {published}: "):
        load_benchmark(name, tmp_path)


@pytest.mark.parametrize("name", [n for n in WRITTEN if not BENCHMARKS[n].groups])
def test_no_count_where_none_is_published(tmp_path, name):
    WRITTEN[name][0](tmp_path)
    assert len(load_benchmark(name, tmp_path).dataset) == WRITTEN[name][1]


@pytest.mark.parametrize("name", [b.name for b in OTHERS])
def test_by_hand_names_files_and_folder(tmp_path, name):
    said = by_hand(BENCHMARKS[name], tmp_path)
    assert str(tmp_path) in said
    assert "https://" in said
    assert "\n" not in said


def test_sugarcrepe_pp_makes_two_groups_a_row(tmp_path):
    layouts.sugarcrepe_pp(tmp_path)
    first, second, *_ = load("sugarcrepe_pp_swap_obj", tmp_path)
    assert (first.id, second.id) == ("0-1", "0-2")
    assert first.captions == ("a cat on dog 0", "a dog on cat 0")
    assert second.captions == ("dog 0 carries a cat", "a dog on cat 0")
    assert first.tags == ("swap_obj", "caption 1")
    assert first.images == second.images


def test_aro_shows_the_box(tmp_path):
    folder = layouts.aro(tmp_path, "relation")
    dataset = load("aro_vg_relation", tmp_path)
    with Image.open(folder / "images" / "1.jpg") as whole:
        part = np.asarray(whole.convert("RGB").crop((2, 1, 10, 5)))
    image = dataset.images[1]
    np.testing.assert_array_equal(decode_rgb(image, encoded_bytes(image)), part)
    # whoever stores the pictures stores the parts
    write_folder(dataset, tmp_path / "copy")
    again = read_folder(tmp_path / "copy").images[1]
    np.testing.assert_array_equal(decode_rgb(again, encoded_bytes(again)), part)
    assert [group.tags for group in dataset] == [("on",)] * 3
    attributes = layouts.aro(tmp_path / "b", "attribution").parent
    assert next(iter(load("aro_vg_attribution", attributes))).tags == ("red_wet",)


def test_two_boxes_of_one_file_are_two_pictures(tmp_path):
    folder = layouts.aro(tmp_path, "relation")
    path = folder / VG_LIST
    entries = json.loads(path.read_text())
    for entry in entries:
        entry["image_path"] = "0.jpg"
    path.write_text(json.dumps(entries))
    dataset = load("aro_vg_relation", tmp_path)
    assert len(dataset.images) == 3
    processor = ImageProcessor.for_family("siglip", 16)
    first, second, _ = processor.batch(dataset.images, cache_dir=tmp_path / "cache")
    assert (first != second).any()


def test_aro_orders_keep_a_picture_once(tmp_path):
    layouts.aro_order(tmp_path, "aro_coco_order")
    dataset = load("aro_coco_order", tmp_path)
    assert len(dataset.images) == 2
    first = next(iter(dataset))
    assert first.captions == ("caption 0", "order 1", "order 2", "order 3", "order 4")


def test_bivlc_and_vismin(tmp_path):
    layouts.bivlc(tmp_path)
    group = list(load("bivlc", tmp_path))[1]
    assert [image.data for image in group.images] == [picture(2), picture(3)]
    assert (group.captions, group.tags) == (("a cat 1", "a dog 1"), ("replace", "obj"))
    layouts.vismin(tmp_path)
    group = list(load("vismin", tmp_path))[1]
    assert (group.id, group.captions, group.tags) == ("id-1", ("1 cats", "2 cats"), ("counting",))


def test_cola_takes_the_names_of_links(tmp_path):
    folder = layouts.cola(tmp_path)
    group = list(load("cola", tmp_path))[1]
    assert [str(image) for image in group.images] == [
        str(folder / "images" / "vg" / name) for name in ("2.jpg", "3.jpg")
    ]
    assert group.captions == ("red cup on box 1", "wet cup 1")


def test_eqben_arrays_are_blue_green_red(tmp_path):
    folder = layouts.eqben(tmp_path)
    drawn, filmed = load("eqben_small", tmp_path)
    assert (drawn.tags, filmed.tags) == (("eqbensd",), ("eqbenyoucook2",))
    np.testing.assert_array_equal(filmed.images[1][0, 0], [0, 0, 201])
    (folder / "images" / "eqbenyoucook2" / "0.npy").write_bytes(b"\x93NUMPY no")
    with pytest.raises(InputError, match=r"all_select.json entry 1: .*0.npy cannot be read"):
        load("eqben_small", tmp_path)
    np.save(folder / "images" / "eqbenyoucook2" / "0.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"float64 \(2, 2\); expected a uint8 picture"):
        load("eqben_small", tmp_path)
    (folder / "images" / "eqbenyoucook2" / "0.npy").unlink()
    with pytest.raises(NotPrepared, match=r"0.npy does not exist"):
        load("eqben_small", tmp_path)


def test_eqben_refuses_pickles(tmp_path):
    folder = layouts.eqben(tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], object), allow_pickle=True)
    (folder / "images" / "eqbenyoucook2" / "0.npy").write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match="cannot be read as an array"):
        load("eqben_small", tmp_path)


def test_valse_uses_validated_entries_only(tmp_path):
    layouts.valse(tmp_path)
    groups = list(load("valse_actant_swap", tmp_path))
    assert [group.id for group in groups] == [f"actions_test_{i}" for i in range(3)]
    assert groups[0].captions == ("A man exercises his torso.", "A torso exercises for a man.")
    assert str(groups[0].images[0]).endswith("images/SWiG/exercising_0.jpg")
    assert groups[0].tags == ("actions",)


def test_karpathy_splits_dissolve_into_one_matching(tmp_path):
    layouts.karpathy(tmp_path, "coco")
    dataset = load("coco_5k", tmp_path)
    assert [group.captions for group in dataset] == [(f"caption {i} 0",) for i in range(3)]
    (block,) = dataset.ungrouped().blocks
    assert block.shape == (3, 3)
    np.testing.assert_array_equal(block.truth, [[0, 1, 2]])


def test_imagecode_counts_through_the_numbers(tmp_path):
    folder = layouts.imagecode(tmp_path)
    first, second, third = load("imagecode", tmp_path)
    assert [first.id, second.id] == ["open-images-1_a/5", "open-images-1_a/0"]
    assert first.truth == (-1, -1, -1, -1, -1, 0, -1, -1, -1, -1)
    assert str(first.images[5]).endswith("img35.jpg")
    assert second.captions == ("Some grass.",)
    assert (first.tags, third.tags) == (("open-images",), ("video",))
    (folder / "image-sets" / "open-images-1_a" / "img63.jpg").unlink()
    with pytest.raises(NotPrepared, match=r"open-images-1_a has 9 images img<number>.jpg"):
        load("imagecode", tmp_path)


JSON_LISTS = {
    name: BENCHMARKS[name].annotations[0] for name in WRITTEN if BENCHMARKS[name].annotations
}


@pytest.mark.parametrize("name", JSON_LISTS)
def test_values_of_other_types_are_refused_or_read(tmp_path, name):
    """Every value of the first entry in turn, and the entry itself: never another exception."""
    WRITTEN[name][0](tmp_path)
    path = tmp_path / BENCHMARKS[name].folder / JSON_LISTS[name]
    good, said = path.read_text(), []
    for wrong in (None, True, -1, 1e400, "", "..", "\0", [], [None], {}, {"caption": "2"}):
        for place in places(json.loads(good)):
            content = json.loads(good)
            inner = content
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = wrong
            path.write_text(json.dumps(content))
            try:
                load(name, tmp_path)
            except InputError as error:
                said.append(str(error))
    assert said
    assert not [message for message in said if "\n" in message]


def places(content) -> list[tuple]:
    """Paths to the first entry and to everything in it."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    key, entry = next(iter(pairs))
    inner = entry.items() if isinstance(entry, dict) else enumerate(entry)
    found = [(key,)]
    for name, value in inner:
        found += [(key, name)]
        found += [(key, name, deeper) for deeper in value] if isinstance(value, dict) else []
    return found


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("cola", COLA_LIST, {}, "JSON dict; expected a list"),
        (
            "cola", COLA_LIST, [["a.jpg", "b", "c.jpg"]],
            r"entry 0: is \['a.jpg', 'b', 'c.jpg'\]; expected a list",
        ),
        ("cola", COLA_LIST, [["http://x/", "b", "c", "d"]], "entry 0: 0 is ''; expected a text"),
        ("naturalbench_retrieval", "metadata.json", [3], "entry 0: is 3; expected an object"),
        (
            "naturalbench_retrieval", "metadata.json", [{"image_0": "../a.jpg"}],
            r"entry 0: image_0 is '../a.jpg'; expected a path within",
        ),
        ("eqben_small", "all_select.json", [{"image0": "a.png"}], "entry 0: has no 'image1'"),
        ("imagecode", "valid_data.json", {"../a": {}}, "entry ../a: expected the name"),
        ("imagecode", "valid_data.json", [], "JSON list; expected an object"),
        ("aro_vg_relation", VG_LIST, [{"bbox_x": -1}], "expected a number"),
        ("aro_vg_relation", VG_LIST, [{"bbox_x": 0.5}], "a whole number"),
        ("aro_vg_relation", VG_LIST, [{"bbox_x": True}], "bbox_x is True"),
        (
            "aro_vg_relation", VG_LIST, [{"bbox_x": 0, "bbox_y": 0, "bbox_w": 0, "bbox_h": 3}],
            "the box is 0 x 3 pixels",
        ),
        ("coco_5k", "coco_karpathy_test.json", [{"image": "a", "caption": 0}], "list of texts"),
        ("valse_existence", "existence.json", {"a": 3}, "entry a, mturk: is 3; expected an object"),
        ("valse_existence", "existence.json", {"a": {}}, "entry a, mturk: is None"),
        ("sugarcrepe_pp_swap_obj", "pp/swap_obj.json", [{"filename": "a\0b"}], "within"),
    ],
)  # fmt: skip
def test_entries_that_are_not_right(tmp_path, name, file, content, message):
    path = tmp_path / BENCHMARKS[name].folder / file
    layouts.write_json(path, content)
    with pytest.raises(InputError, match=message) as caught:
        load(name, tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
