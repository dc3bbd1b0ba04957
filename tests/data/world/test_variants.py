"""The world's benchmarks: every caption is true of its own image and of no other."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from world_reader import mentions_of, pixels_of

from ttm_jax.cli.world import main
from ttm_jax.data import world
from ttm_jax.data.folder_reader import read_folder
from ttm_jax.data.world.benchmark import drafts
from ttm_jax.data.world.captions import Claim, Mention, Wording, draw_wording, say
from ttm_jax.data.world.looks import draw_look
from ttm_jax.data.world.render import render
from ttm_jax.data.world.scene import (
    OPPOSITE,
    Scene,
    Thing,
    related,
)
from ttm_jax.data.world.training import (
    training_captions,
)
from ttm_jax.errors import InputError

LOOK = draw_look(np.random.default_rng(0), 0.0)
RED_CIRCLE = Thing("circle", "red", x=0.25, y=0.5)
BLUE_STAR = Thing("star", "blue", "striped", "small", x=0.75, y=0.5, radius=0.11)
SCENE = Scene((RED_CIRCLE, BLUE_STAR), LOOK, 0)


# --- the meaning of captions


@pytest.mark.parametrize(
    ("claim", "true"),
    [
        (Claim((Mention("circle"),)), True),
        (Claim((Mention("circle", "blue"),)), False),
        (Claim((Mention("star", "blue", "striped", "small"),)), True),
        (Claim((Mention("star", "blue", "dotted"),)), False),
        (Claim((Mention("star", size="large"),)), False),
        (Claim((Mention("circle", "red"), Mention("star", "blue"))), True),
        (Claim((Mention("circle", "blue"), Mention("star", "red"))), False),
        (Claim((Mention("circle"), Mention("circle"))), False),  # two mentions need two objects
        (Claim((Mention("circle", count=2),)), False),
        (Claim((Mention("circle"), Mention("star")), "left"), True),
        (Claim((Mention("star"), Mention("circle")), "right"), True),
        (Claim((Mention("star"), Mention("circle")), "left"), False),
        (Claim((Mention("circle"), Mention("star")), "above"), False),
        (Claim((Mention("circle"), Mention("star")), "front"), False),
    ],
)
def test_holds(claim, true):
    assert claim.holds(SCENE) is true


def test_holds_counts_exactly():
    pair = Scene((RED_CIRCLE, replace(RED_CIRCLE, x=0.7)), LOOK, 0)
    assert Claim((Mention("circle", "red", count=2),)).holds(pair)
    assert Claim((Mention("circle", "red"),)).holds(pair)
    assert not Claim((Mention("circle", "red", count=3),)).holds(pair)


def test_in_front_of_is_what_is_drawn_later():
    near = replace(RED_CIRCLE, x=0.6, y=0.5)
    scene = Scene((replace(BLUE_STAR, x=0.5), near), LOOK, 0)
    assert Claim((Mention("circle"), Mention("star")), "front").holds(scene)
    assert Claim((Mention("star"), Mention("circle")), "behind").holds(scene)
    assert not Claim((Mention("star"), Mention("circle")), "front").holds(scene)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
@settings(deadline=None)
def test_relations_exclude_each_other_and_turn_around(ax, ay, bx, by):
    a, b = replace(RED_CIRCLE, x=ax, y=ay), replace(RED_CIRCLE, x=bx, y=by)
    true = [r for r in OPPOSITE if related(a, b, r, a_is_later=True)]
    assert len(true) <= 1
    assert [OPPOSITE[r] for r in true] == [
        r for r in OPPOSITE if related(b, a, r, a_is_later=False)
    ]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (Claim((Mention("circle", "orange"),)), "an orange circle"),
        (Claim((Mention("star", "blue", "striped", "small"),)), "a small striped blue star"),
        (Claim((Mention("cross", "red", count=2),)), "two red crosses"),
        (
            Claim((Mention("star"), Mention("ring"), Mention("moon", "red"))),
            "a star, a ring and a red moon",
        ),
        (Claim((Mention("star"), Mention("ring")), "below"), "a star below a ring"),
    ],
)
def test_say_in_plain_words(claim, text):
    assert say(claim) == text


def test_say_in_other_words():
    wording = Wording("a photo of ", " with ", 3, {"circle": "disc"}, 0)
    dotted = Mention("circle", "red", "dotted")
    assert (
        say(Claim((dotted, Mention("star"))), wording)
        == "a photo of a red disc with dots with a star"
    )
    # "a photo of a disc is above a star" would not be grammatical.
    assert (
        say(Claim((Mention("circle"), Mention("star")), "above"), wording)
        == "a disc is above a star"
    )


def test_wordings_vary_and_leave_the_meaning_alone():
    claim = Claim((Mention("circle", "purple", "dotted", "large"), Mention("bolt", "orange")))
    rng = np.random.default_rng(0)
    texts = {say(claim, draw_wording(rng)) for _ in range(300)}
    assert len(texts) > 100
    assert all(mentions_of(text) == list(claim.mentions) for text in texts)


# --- benchmarks


@pytest.mark.parametrize("variant", world.VARIANTS)
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_every_claim_is_true_of_its_own_picture_only(variant, shift):
    made = drafts(variant, groups=30, seed=3, shift=shift)
    pictures = [(g, i, scene) for g, d in enumerate(made) for i, scene in enumerate(d.scenes)]
    for g, draft in enumerate(made):
        for c, claim in enumerate(draft.claims):
            own = [(g, c)] if c < len(draft.scenes) else []
            assert [(h, i) for h, i, scene in pictures if claim.holds(scene)] == own


@pytest.mark.parametrize("variant", world.VARIANTS)
def test_make(variant):
    data = world.make(variant, groups=12, seed=1, size=32)
    shape = world.VARIANTS[variant].shape
    (block,) = data.blocks
    assert block.shape == shape
    assert len(data) == len(set(block.ids)) == 12
    assert len(data.captions) == 12 * shape[1]  # the pool holds distinct captions
    assert len(data.images) == 12 * shape[0]
    assert np.array_equal(block.truth, [range(shape[0])] * 12)
    assert all(tags and all(":" in tag for tag in tags) for tags in block.tags)
    assert len({np.asarray(image).tobytes() for image in data.images}) == len(data.images)


@pytest.fixture
def no_pictures(monkeypatch):
    """Skip rendering in tests that only look at captions: it takes most of the time."""
    blank = np.zeros((1, 1, 3), np.uint8)
    monkeypatch.setattr(
        "ttm_jax.data.world.benchmark.render", lambda scene, size: blank.copy(), raising=True
    )


@pytest.mark.parametrize("variant", ["color_swap", "texture_swap", "left_right", "color_cycle"])
@pytest.mark.usefixtures("no_pictures")
def test_all_captions_of_a_set_differ(variant):
    assert (
        len(set(world.make(variant, groups=150, size=16).captions))
        == 150 * world.VARIANTS[variant].shape[1]
    )


@pytest.mark.parametrize("variant", world.VARIANTS)
@pytest.mark.usefixtures("no_pictures")
def test_words_say_what_the_claim_means(variant):
    data = world.make(variant, groups=40, size=16)
    (block,) = data.blocks
    for draft, row in zip(drafts(variant, groups=40), block.text_index, strict=True):
        captions = [data.captions[i] for i in row]
        for claim, caption in zip(draft.claims, captions, strict=True):
            assert mentions_of(caption) == list(claim.mentions), caption


@pytest.mark.parametrize(("variant", "may_differ"), [
    ("color_swap", {"color"}),
    ("texture_swap", {"texture"}),
    ("size_swap", {"size", "radius"}),
    ("color_cycle", {"color"}),
])  # fmt: skip
def test_pictures_of_a_group_differ_in_nothing_else(variant, may_differ):
    for draft in drafts(variant, groups=30):
        first, *others = draft.scenes
        for other in others:
            assert other.look == first.look
            for a, b in zip(first.things, other.things, strict=True):
                differing = {k for k in vars(a) if getattr(a, k) != getattr(b, k)}
                assert may_differ <= differing <= may_differ | {"x", "y"}
                assert max(abs(a.x - b.x), abs(a.y - b.y)) <= 0.02


def test_what_lies_in_front_can_be_seen():
    for draft in drafts("front_behind", groups=40):
        scene = replace(draft.scenes[0], look=replace(draft.scenes[0].look, grain=0.0))
        turned = replace(scene, things=scene.things[::-1])
        a, b = (render(s, 64).astype(int) for s in (scene, turned))
        assert (np.abs(a - b).sum(-1) > 60).sum() >= 25  # of 4096 pixels


@pytest.mark.usefixtures("no_pictures")
def test_captions_of_a_swap_have_the_same_words():
    for variant in ("color_swap", "texture_swap", "size_swap", "color_cycle"):
        data = world.make(variant, groups=30, size=16)
        for row in data.blocks[0].text_index:
            bags = {tuple(sorted(re.sub(r"\ban\b|,", "a", data.captions[i]).split())) for i in row}
            assert len({tuple(w for w in bag if w != "a") for bag in bags}) == 1


def test_a_longer_set_begins_with_the_shorter_one_and_seeds_differ():
    short, long = (world.make("left_right", groups=n, seed=5, size=16) for n in (4, 9))
    assert long.captions[: len(short.captions)] == short.captions
    assert all(map(np.array_equal, short.images, long.images))
    other = world.make("left_right", groups=4, seed=6, size=16)
    assert not set(other.captions) & set(short.captions)
    train = world.make("left_right", groups=4, seed=5, size=16, split="train")
    assert not set(train.captions) & set(short.captions)


def test_the_train_split_has_no_shift():
    assert drafts("color_swap", 5, shift=2.0, split="train") == drafts(
        "color_swap", 5, shift=0.0, split="train"
    )


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"variant": "colour_swap"}, "colour_swap.*color_swap"),
        ({"groups": 0}, "groups is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"shift": -0.5}, "shift is -0.5"),
        ({"shift": float("nan")}, "shift is nan"),
        ({"split": "val"}, "'val' is not one of train, test"),
        ({"size": 8}, "size 8 is too small"),
    ],
)
def test_make_refuses(kwargs, message):
    with pytest.raises(InputError, match=message):
        world.make(**{"variant": "color_swap", "groups": 2, "size": 16} | kwargs)


def test_make_says_when_there_are_no_more_groups(monkeypatch):
    monkeypatch.setattr("ttm_jax.data.world.benchmark.ATTEMPTS", 1)
    with pytest.raises(
        InputError, match=r"texture_swap.*only (\d+) distinct groups; ask for at most \1 instead"
    ):
        drafts("texture_swap", groups=500)


@pytest.mark.parametrize("variant", ["left_right", "above_below", "relation_choice"])
def test_captions_are_true_of_the_pixels(variant):
    """Checks the caption's text against the image's pixels, independently of the generator."""
    data = world.make(variant, groups=40, shift=0.0, size=72, split="train")
    (block,) = data.blocks
    checked = 0
    for images, texts in zip(block.image_index, block.text_index, strict=True):
        for image, text in zip(images, texts, strict=False):  # the truth is the diagonal
            caption = data.captions[text]
            first, second = mentions_of(caption)
            places = [pixels_of(data.images[image], m.color) for m in (first, second)]
            if {first.color, second.color} & {"white", "pink"} or min(map(len, places)) < 20:
                continue  # pale backdrops and outlines are close to these colours
            (row_a, col_a), (row_b, col_b) = (np.median(p, axis=0) for p in places)
            checked += 1
            if re.search(r"\bleft\b", caption):
                assert col_a < col_b, caption
            elif re.search(r"\bright\b", caption):
                assert col_a > col_b, caption
            elif re.search(r"\b(above|over|higher)\b", caption):
                assert row_a < row_b, caption
            else:
                assert re.search(r"\b(below|under|lower)\b", caption), caption
                assert row_a > row_b, caption
    assert checked >= 15


def test_the_world_has_not_changed():
    """The small models were trained on these captions. If the change is intended (or NumPy changed
    its random streams), put the new texts here and pretrain the models again."""
    assert training_captions(0, 4) == [
        "a green cross lower than a red star",
        "a picture of a striped green circle and a huge blue triangle",
        "a drawing of a yellow square",
        "a black cross together with a yellow square",
    ]
    assert world.make("relation_choice", groups=1, size=16).captions == (
        "a white crescent is to the left of a pink heart",
        "a white crescent is above a pink heart",
        "a white crescent is below a pink heart",
        "a white crescent is to the right of a pink heart",
    )


# --- the command


def test_command_writes_what_make_makes(monkeypatch, tmp_path, capsys):
    out, sheet = tmp_path / "data" / "set", tmp_path / "sheet.png"
    flags = ["--groups", "3", "--seed", "2", "--size", "32", "--out", str(out)]
    main(["--variant", "color_cycle_2x3", *flags, "--preview", str(sheet)])
    assert "3 groups, 6 images" in capsys.readouterr().out
    read, made = read_folder(out), world.make("color_cycle_2x3", groups=3, seed=2, size=32)
    assert read.captions == made.captions
    assert read.blocks[0].ids == made.blocks[0].ids
    assert read.blocks[0].tags == made.blocks[0].tags
    for path, image in zip(read.images, made.images, strict=True):
        with Image.open(path) as picture:
            assert np.array_equal(np.asarray(picture), image)
    with Image.open(sheet) as picture:
        assert picture.width > 200


def test_command_writes_without_groups(monkeypatch, tmp_path):
    out = tmp_path / "set"
    main(["--groups", "3", "--size", "16", "--out", str(out), "--ungrouped"])
    read = read_folder(out)
    assert read.blocks[0].shape == (6, 6)
    assert np.array_equal(read.blocks[0].truth, [range(6)])


def test_command_lists_and_refuses(monkeypatch, capsys):
    main(["--list"])
    listed = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert listed == [[n, "{}x{}".format(*v.shape)] for n, v in world.VARIANTS.items()]
    with pytest.raises(InputError, match="nothing to write"):
        main([])
