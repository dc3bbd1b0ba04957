"""The procedural world: captions that are true, pictures that show it, everything from a seed."""

import re
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from experiments import make_world
from ttm_jax.data import world
from ttm_jax.data.folder import read_folder
from ttm_jax.data.world.benchmark import drafts
from ttm_jax.data.world.captions import SYNONYMS, Claim, Mention, Wording, draw_wording, say
from ttm_jax.data.world.looks import draw_look
from ttm_jax.data.world.render import PALETTE, render
from ttm_jax.data.world.scene import (
    COLORS,
    DIRECTIONS,
    OPPOSITE,
    SHAPES,
    TEXTURES,
    Scene,
    Thing,
    draw_kinds,
    place,
    related,
    shifted_weights,
)
from ttm_jax.data.world.shapes import OUTLINES
from ttm_jax.data.world.training import (
    TrainingText,
    describe,
    draw_scene,
    training_captions,
    training_pairs,
    training_scene,
)
from ttm_jax.errors import InputError

FAITHFUL = TrainingText(wrong=0.0, misbound=0.0, misplaced=0.0)
LOOK = draw_look(np.random.default_rng(0), 0.0)
RED_CIRCLE = Thing("circle", "red", x=0.25, y=0.5)
BLUE_STAR = Thing("star", "blue", "striped", "small", x=0.75, y=0.5, radius=0.11)
SCENE = Scene((RED_CIRCLE, BLUE_STAR), LOOK, 0)


def mention_of(text: str) -> Mention:
    """An independent reading of a phrase, to check what `say` wrote."""
    words = text.replace(",", "").split()
    usual = {s: word for word, options in SYNONYMS.items() for s in options}
    for phrase, name in (("plus sign", "cross"), ("lightning bolt", "bolt")):
        if phrase in text:
            words.append(name)
    texture_nouns = {"stripes": "striped", "dots": "dotted", "spots": "dotted", "checks": "checked"}
    known = {usual.get(w, texture_nouns.get(w, w)) for w in words}

    def only(names) -> str | None:
        found = sorted(known & set(names))
        assert len(found) <= 1, (text, found)
        return found[0] if found else None

    shape = only(SHAPES)
    assert shape is not None, text
    return Mention(shape, only(COLORS), only(TEXTURES), only(("small", "large")))


def mentions_of(caption: str) -> list[Mention]:
    """One phrase starts at every article that does not belong to an opener or a pattern."""
    text = re.sub(
        r"^(a picture of|an image of|a drawing of|a photo of|there is|this shows) ", "", caption
    )
    text = re.sub(r"with an? (striped|checkered) pattern", r"\1", text)
    parts = [p for p in re.split(r"\b(?:an?) ", text) if p]
    return [mention_of(p) for p in parts]


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
        (Claim((Mention("circle"), Mention("circle"))), False),  # two mentions, two things
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
    # "a photo of a disc is above a star" would be no English.
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
    """For tests that look at captions only: drawing takes most of the time."""
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
    with pytest.raises(InputError, match=r"texture_swap.*first (\d+); ask for at most \1 instead"):
        drafts("texture_swap", groups=500)


# --- pictures


def pixels_of(picture: np.ndarray, color: str) -> np.ndarray:
    """Where a picture shows a colour of the palette: rows and columns, as fractions."""
    distance = {c: np.abs(picture.astype(int) - rgb).sum(-1) for c, rgb in PALETTE.items()}
    near = (distance[color] < 60) & (distance[color] == np.min(list(distance.values()), axis=0))
    return np.argwhere(near) / picture.shape[0]


@pytest.mark.parametrize("variant", ["left_right", "above_below", "relation_choice"])
def test_captions_are_true_of_the_pixels(variant):
    """From the caption's text to the picture's pixels, with nothing of the code between them."""
    data = world.make(variant, groups=40, shift=0.0, size=72, split="train")
    (block,) = data.blocks
    checked = 0
    for images, texts in zip(block.image_index, block.text_index, strict=True):
        for image, text in zip(images, texts, strict=False):  # the truth is the diagonal
            caption = data.captions[text]
            first, second = mentions_of(caption)
            places = [pixels_of(data.images[image], m.color) for m in (first, second)]
            if {first.color, second.color} & {"white", "pink"} or min(map(len, places)) < 20:
                continue  # pale backdrops and outlines are near these
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


def test_a_thing_has_its_colour_and_its_place():
    for color, rgb in PALETTE.items():
        look = replace(LOOK, light=(1.0, 1.0, 1.0), shade=0.0, grain=0.0)
        picture = render(Scene((Thing("square", color, x=0.3, y=0.7),), look, 0), 100)
        assert np.array_equal(picture[70, 30], rgb)
        assert np.abs(picture[15, 80] - np.asarray(look.base)).max() < 60


def test_a_thing_leans_clockwise_by_its_angle():
    look = replace(LOOK, light=(1.0, 1.0, 1.0), shade=0.0, grain=0.0)

    def extent(angle: float) -> tuple[float, float, float]:
        where = pixels_of(
            render(Scene((Thing("drop", "blue", angle=angle),), look, 0), 192), "blue"
        )
        height, width = np.ptp(where, axis=0)
        top = where[where[:, 0] == where[:, 0].min()]
        return height, width, top[:, 1].mean() - 0.5

    height, width, tip = extent(0.0)
    assert height > 1.2 * width
    assert abs(tip) < 0.02
    assert extent(20.0)[2] > 0.03
    assert extent(-20.0)[2] < -0.03
    assert extent(90.0)[0] == pytest.approx(width, abs=0.02)


def test_shapes_and_textures_look_different():
    look = replace(LOOK, grain=0.0, pattern="plain")
    for kinds in (
        [Thing(shape, "blue") for shape in SHAPES],
        [Thing("square", "blue", texture) for texture in TEXTURES],
        [Thing("square", color) for color in COLORS],
    ):
        pictures = [render(Scene((thing,), look, 0), 64).astype(int) for thing in kinds]
        for i, a in enumerate(pictures):
            for b in pictures[:i]:
                assert np.abs(a - b).sum() / 3 / 255 > 25  # pixels' worth of full difference


def test_the_same_picture_at_every_size():
    for i in range(12):
        scene = draw_scene(np.random.default_rng(i), shift=1.0)
        scene = replace(scene, look=replace(scene.look, grain=0.0))
        small = render(scene, 64).astype(float)
        large = np.asarray(Image.fromarray(render(scene, 256)).reduce(4)).astype(float)
        assert np.abs(small - large).mean() < 1.5
    assert render(scene, 17).shape == (17, 17, 3)


def test_grain_is_in_the_picture_and_the_same_at_every_size():
    scene = Scene((), replace(LOOK, grain=6.0), 9)
    clean = Scene((), replace(LOOK, grain=0.0), 9)
    noise = render(scene, 64).astype(float) - render(clean, 64)
    assert 5.0 < noise.std() < 7.0
    large = render(scene, 192).astype(float) - render(clean, 192)
    reduced = large.reshape(64, 3, 64, 3, 3).mean((1, 3))
    assert np.corrcoef(noise.ravel(), reduced.ravel())[0, 1] > 0.9


def test_outlines_fill_about_a_unit_circle():
    assert set(OUTLINES) == set(SHAPES)
    for name, points in OUTLINES.items():
        radius = np.hypot(*points.T).max()
        assert 0.9 < radius < 1.35, name
        assert np.abs((points.max(0) + points.min(0)) / 2).max() < 0.12, name


@given(st.integers(0, 10**6), st.sampled_from(["row", "column", "scatter"]), st.integers(1, 3))
def test_things_are_inside_the_picture_and_apart(seed, layout, count):
    radii = [0.165 * 0.82 if count == 3 else 0.215] * count
    centres = np.array(place(np.random.default_rng(seed), radii, layout))
    assert centres.min() >= radii[0] + 0.005
    assert centres.max() <= 1 - radii[0] - 0.005
    for i in range(count):
        for j in range(i):
            assert np.hypot(*(centres[i] - centres[j])) >= 2 * radii[0] - 1e-9
    along = centres[:, 0 if layout == "row" else 1]
    if layout != "scatter":
        assert np.all(np.diff(along) > 0)


# --- the shift


def test_a_stronger_shift_is_darker_and_noisier():
    looks = [[draw_look(np.random.default_rng(i), s) for i in range(200)] for s in (0.0, 1.0, 2.0)]
    brightness = [np.mean([np.mean(k.base) * np.mean(k.light) for k in some]) for some in looks]
    assert brightness[0] > brightness[1] + 30 > brightness[2] + 60
    grain = [np.mean([k.grain for k in some]) for some in looks]
    assert grain[0] + 2 < grain[1] < grain[2] - 2


def test_rare_kinds_come_more_often_with_the_shift():
    assert np.array_equal(shifted_weights(COLORS, 0.0), list(COLORS.values()))
    assert np.array_equal(shifted_weights(COLORS, 1.0), np.ones(len(COLORS)))

    def share(shift: float) -> float:
        rng = np.random.default_rng(0)
        seen = Counter(draw_kinds(rng, COLORS, 1, shift)[0] for _ in range(3000))
        return (seen["pink"] + seen["brown"] + seen["turquoise"]) / 3000

    # 0.75 of 7.75 by weight, then 3 of 11; four standard errors are below 0.033.
    assert abs(share(0.0) - 0.75 / 7.75) < 0.03
    assert abs(share(1.0) - 3 / 11) < 0.033
    assert share(2.0) > 0.4


# --- text to pretrain on


def test_training_pairs_do_not_depend_on_how_many_are_made():
    images, captions = training_pairs(7, 20, size=24)
    assert images.shape == (20, 24, 24, 3)
    later, later_captions = training_pairs(7, 5, size=24, start=15)
    assert np.array_equal(later, images[15:])
    assert later_captions == captions[15:]
    other, other_captions = training_pairs(7, 20, TrainingText(relation=1.0, wrong=0.5), size=24)
    assert np.array_equal(other, images)
    assert other_captions != captions
    assert training_captions(7, 20) == captions
    assert training_captions(7, 20, draw=1) != captions
    assert not np.array_equal(training_pairs(8, 20, size=24)[0], images)


def test_two_processes_make_the_same_pairs(monkeypatch):
    monkeypatch.setattr("ttm_jax.data.world.training.CHUNK", 4)
    images, captions = training_pairs(1, 10, size=16)
    again, captions_again = training_pairs(1, 10, size=16, workers=2)
    assert np.array_equal(images, again)
    assert captions == captions_again


@given(st.integers(0, 10**9))
@settings(max_examples=100)
def test_faithful_captions_are_true(seed):
    rng = np.random.default_rng(seed)
    scene = draw_scene(rng, shift=float(rng.uniform(0, 2)))
    claim = describe(rng, scene, replace(FAITHFUL, relation=0.5))
    assert claim.holds(scene)


@cache
def scenes() -> list[Scene]:
    return [training_scene(0, i) for i in range(800)]


def claims(config: TrainingText, count: int = 800) -> list[tuple[Claim, Scene]]:
    return [
        (describe(np.random.default_rng(i), scene, config), scene)
        for i, scene in enumerate(scenes()[:count])
    ]


def test_knob_relation():
    assert all(c.relation is None for c, _ in claims(replace(FAITHFUL, relation=0.0), 300))
    often = [c.relation for c, s in claims(replace(FAITHFUL, relation=1.0)) if len(s.things) > 1]
    assert np.mean([r is not None for r in often]) > 0.75  # not every pair stands clearly
    assert set(often) - {None} == set(OPPOSITE)
    usual = Counter(often)
    assert min(usual[d] for d in DIRECTIONS) > 0.7 * max(usual[d] for d in DIRECTIONS)


@pytest.mark.parametrize("knob", ["color", "texture", "size"])
def test_knobs_of_attributes(knob):
    def share(value: float) -> float:
        config = replace(FAITHFUL, relation=0.0, omit=0.0, **{knob: value})
        said = possible = 0
        for claim, scene in claims(config, 400):
            said += sum(m.count for m in claim.mentions if getattr(m, knob) is not None)
            silent = {"texture": "plain", "size": "medium"}.get(knob)
            possible += sum(getattr(t, knob) != silent for t in scene.things)
        return said / possible

    assert share(0.0) == 0.0
    assert share(1.0) > 0.95  # of several alike, not all may be counted
    assert 0.4 < share(0.5) < 0.6


def test_knob_omit():
    full = claims(replace(FAITHFUL, relation=0.0, omit=0.0), 300)
    assert all(sum(m.count for m in c.mentions) == len(s.things) for c, s in full if _unlike(s))
    less = claims(replace(FAITHFUL, relation=0.0, omit=1.0), 300)
    assert all(
        sum(m.count for m in c.mentions) == max(1, len(s.things) - 1) for c, s in less if _unlike(s)
    )


def _unlike(scene: Scene) -> bool:
    return len({t.shape for t in scene.things}) == len(scene.things)


@pytest.mark.parametrize("knob", ["misbound", "misplaced"])
def test_knobs_of_errors(knob):
    config = replace(FAITHFUL, relation=1.0, color=1.0, **{knob: 1.0})
    related_only = [(c, s) for c, s in claims(config, 400) if c.relation and _unlike(s)]
    assert len(related_only) > 150
    assert not any(claim.holds(scene) for claim, scene in related_only)


def test_knob_wrong():
    """Captions of other pictures name none of the shapes that are seen."""
    config = replace(FAITHFUL, wrong=1.0)
    for i, caption in enumerate(training_captions(0, 200, config)):
        seen = {t.shape for t in scenes()[i].things}
        words = {w for s in seen for w in SYNONYMS.get(s, (s,))}
        assert not any(re.search(rf"\b{w}(s|es)?\b", caption) for w in words), (caption, seen)


@pytest.mark.parametrize("config", [{"wrong": 1.5}, {"relation": -0.1}, {"color": float("nan")}])
def test_knobs_are_probabilities(config):
    with pytest.raises(InputError, match="expected 0 to 1"):
        TrainingText(**config)


@pytest.mark.parametrize("arguments", [(-1, 5), (0, 0)])
def test_training_pairs_refuse(arguments):
    with pytest.raises(InputError, match="expected"):
        training_pairs(*arguments)


def test_the_world_has_not_changed():
    """The small models were trained on these captions. If the change is meant (or NumPy changed its
    random streams), put the new texts here and pretrain the models again."""
    assert training_captions(0, 4) == [
        "a red star",
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


def command(monkeypatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["make_world", *arguments])
    make_world.main()


def test_command_writes_what_make_makes(monkeypatch, tmp_path, capsys):
    out, sheet = tmp_path / "data" / "set", tmp_path / "sheet.png"
    flags = ["--groups", "3", "--seed", "2", "--size", "32", "--out", str(out)]
    command(monkeypatch, "--variant", "color_cycle_2x3", *flags, "--preview", str(sheet))
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
    command(monkeypatch, "--groups", "3", "--size", "16", "--out", str(out), "--ungrouped")
    read = read_folder(out)
    assert read.blocks[0].shape == (6, 6)
    assert np.array_equal(read.blocks[0].truth, [range(6)])


def test_command_lists_and_refuses(monkeypatch, capsys):
    command(monkeypatch, "--list")
    listed = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert listed == [[n, "{}x{}".format(*v.shape)] for n, v in world.VARIANTS.items()]
    with pytest.raises(InputError, match="nothing to write"):
        command(monkeypatch)
