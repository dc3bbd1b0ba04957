"""Random crops against the reference's: Pillow's resize of the whole picture, then any window.

The reference is written here with Pillow and numpy alone, after torchvision's Resize(int) and
RandomCrop: the shorter side becomes S', the longer int(S' * longer / shorter), and top and left are
uniform over 0..height - S and 0..width - S, both ends included.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tiny import CONFIG, LENGTH, SIZE, VOCABULARY, tiny_model

from ttm_jax.config import Memory
from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.engine.ttm import Loop, run_ttm
from ttm_jax.inputs.preprocess import ImageProcessor
from ttm_jax.scorers.contrastive.crops import crop, draw_offsets, large_size, pack, tile_width
from ttm_jax.training import memory_plan, sharding
from ttm_jax.training.trainable import split_params
from ttm_jax.training.trainer import Interrupted, run_steps

# Width x height: landscape, portrait, square, nearly square, tiny, extreme in both directions.
PICTURES = [(640, 480), (480, 640), (300, 300), (225, 223), (7, 5), (1, 1), (1500, 60), (9, 200)]


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def reference_resize(image: Image.Image, large: int) -> np.ndarray:
    width, height = image.size
    if width <= height:
        new = (large, int(large * height / width))
    else:
        new = (int(large * width / height), large)
    return np.asarray(image.resize(new, Image.Resampling.BICUBIC))


def clip_pool(images, size: int):
    return pack(ImageProcessor.for_family("clip", large_size(size)).uncropped(images), size)


def offsets_of(pool, index: int, draws: int, seed: int = 0) -> np.ndarray:
    rows = jnp.full(draws, index, jnp.int32)
    return np.asarray(draw_offsets(jax.random.key(seed), pool, rows))


def crops_of(pool, index: int, offsets: np.ndarray, size: int) -> np.ndarray:
    rows = jnp.full(len(offsets), index, jnp.int32)
    return np.asarray(jax.jit(partial(crop, size=size))(pool, rows, jnp.asarray(offsets)))


class TestAgainstTheReference:
    def test_640_x_480_has_23_by_105_offsets(self):
        pool = clip_pool([picture(640, 480)], 224)
        assert pool.tiles.shape == (1, 246, 328, 3)
        assert pool.choices.tolist() == [[23, 105]]
        drawn = offsets_of(pool, 0, 100_000)
        assert set(drawn[:, 0].tolist()) == set(range(23))
        assert set(drawn[:, 1].tolist()) == set(range(105))

    @pytest.mark.parametrize("shape", PICTURES)
    def test_offsets_are_uniform_over_the_whole_picture(self, shape):
        """Chi-squared of both axes and of their combinations; the draws are fixed by the key."""
        size, large = 32, 35
        images = [picture(*other) for other in PICTURES]
        pool, index = clip_pool(images, size), PICTURES.index(shape)
        height, width = reference_resize(images[index], large).shape[:2]
        rows, columns = height - size + 1, width - size + 1
        drawn = offsets_of(pool, index, 40 * rows * columns, seed=index)
        counts = np.zeros((rows, columns))
        np.add.at(counts, tuple(drawn.T), 1)
        for observed in (counts.reshape(-1), counts.sum(0), counts.sum(1)):
            assert len(observed) == 1 or scipy.stats.chisquare(observed).pvalue > 1e-4

    @pytest.mark.parametrize("size", [32, 60])
    def test_pixels_are_those_of_pillow_at_the_drawn_offsets(self, size):
        images = [picture(*shape, seed=i) for i, shape in enumerate(PICTURES)]
        pool = clip_pool(images, size)
        assert len(pool.tiles) > len(images), "some picture must lie on several tiles"
        for index, image in enumerate(images):
            whole = reference_resize(image, large_size(size))
            last = np.array(whole.shape[:2]) - size
            corners = [[0, 0], [0, last[1]], [last[0], 0], last]
            drawn = np.concatenate([corners, offsets_of(pool, index, 60)]).astype(np.int32)
            expected = [whole[top : top + size, left : left + size] for top, left in drawn]
            np.testing.assert_array_equal(crops_of(pool, index, drawn, size), expected)

    def test_every_window_of_a_panorama(self):
        """At every seam between two tiles too."""
        size, image = 16, picture(400, 20)
        others = [picture(30, 20, seed) for seed in range(20)]  # these decide the tiles' width
        pool = clip_pool([*others, image], size)
        whole = reference_resize(image, 17)
        assert pool.tiles.shape[2] < whole.shape[1] // 4
        lefts = np.arange(whole.shape[1] - size + 1)
        offsets = np.stack([lefts % 2, lefts], axis=1).astype(np.int32)
        expected = [whole[top : top + size, left : left + size] for top, left in offsets]
        np.testing.assert_array_equal(crops_of(pool, len(others), offsets, size), expected)

    def test_siglip_is_squashed(self):
        """Every picture has S' x S' pixels and one tile; the draws are those of one number."""
        images = [picture(*shape, seed=i) for i, shape in enumerate(PICTURES)]
        pool = pack(ImageProcessor.for_family("siglip", 246).uncropped(images), 224)
        expected = [np.asarray(i.resize((246, 246), Image.Resampling.BICUBIC)) for i in images]
        np.testing.assert_array_equal(pool.tiles, expected)
        assert not pool.turned.any()
        rows = jnp.arange(len(images), dtype=jnp.int32)
        key = jax.random.key(5)
        by_one_number = jax.random.randint(key, (len(images), 2), 0, 23, jnp.int32)
        np.testing.assert_array_equal(draw_offsets(key, pool, rows), by_one_number)


class TestMemory:
    @given(st.lists(st.integers(246, 40_000), min_size=1, max_size=30))
    @settings(max_examples=200)
    def test_never_more_than_twice_the_pictures(self, lengths):
        values = np.array(lengths)
        width = tile_width(values, 224)
        tiles = -(-(values - 223) // (width - 223))
        assert width * tiles.sum() <= 2 * values.sum()

    def test_one_panorama_does_not_widen_the_others(self):
        lengths = np.array([328] * 500 + [24_600])
        assert tile_width(lengths, 224) == 328
        assert tile_width(np.array([328] * 500), 224) == 328
        # 369 columns take one tile of 369 or seven of 246, whose neighbours share 223 columns.
        assert tile_width(np.array([246] * 3 + [369]), 224) == 369
        assert tile_width(np.array([246] * 100 + [369]), 224) == 246

    def test_pictures_of_another_size_are_refused(self):
        with pytest.raises(ValueError, match="shorter sides are"):
            pack([np.zeros((40, 36, 3), np.uint8)], 32)

    def test_the_plan_counts_the_data(self):
        model, mesh = tiny_model("clip"), sharding.make_mesh(jax.devices()[:1])
        split = split_params(model.params, "all")
        plan = partial(memory_plan.plan, model.config, split, 100, Memory(), mesh)
        free = plan(data_bytes=0)
        assert free.chunk == 0
        full = plan(data_bytes=free.bytes_available - memory_plan.state_bytes(split) - 1)
        assert full.chunk == 4
        assert full.bytes_available < free.bytes_available


def small_dataset() -> GroupedDataset:
    """Groups of pictures with many shapes; every caption is a row of token ids."""
    rng = np.random.default_rng(0)
    shapes = [(40, 30), (30, 40), (20, 20), (90, 18), (18, 70), (5, 3), (64, 48), (33, 35)]
    images = [np.asarray(picture(*shape, seed=i)) for i, shape in enumerate(shapes)]
    groups = [
        Group(str(g), tuple(images[2 * g : 2 * g + 2]), (f"{g} a", f"{g} b"), (0, 1))
        for g in range(len(images) // 2)
    ]
    tokens = rng.integers(3, VOCABULARY - 1, (len(images), LENGTH)).astype(np.int32)
    tokens[:, -2] = VOCABULARY - 1
    return replace(GroupedDataset.from_groups(groups), captions=tokens)


def clip_model():
    return replace(tiny_model("clip"), processor=ImageProcessor.for_family("clip", SIZE))


AUGMENTED = replace(CONFIG, augment=True, tau_1=0.0, batch_groups=3, iterations=2)


class TestInTheLoop:
    def test_one_compilation_for_pictures_of_all_shapes(self):
        before = run_steps._cache_size()
        run_ttm(clip_model(), small_dataset(), AUGMENTED, devices=jax.devices()[:1])
        assert run_steps._cache_size() <= before + 1

    def test_one_and_eight_devices_crop_the_same_pixels(self):
        crops = []
        for devices in (jax.devices()[:1], jax.devices()):
            mesh = sharding.make_mesh(devices)
            pool = clip_model().bind(small_dataset(), AUGMENTED, mesh, 0).data.large

            @partial(jax.jit, out_shardings=sharding.over_batch(mesh))
            def draw(pool, key):
                rows = jnp.arange(8, dtype=jnp.int32)
                return crop(pool, rows, draw_offsets(key, pool, rows), SIZE)

            crops.append([np.asarray(draw(pool, jax.random.key(k))) for k in range(5)])
        np.testing.assert_array_equal(crops[0], crops[1])

    @pytest.mark.slow
    def test_one_and_eight_devices_train_alike(self):
        one, eight = (
            run_ttm(clip_model(), small_dataset(), AUGMENTED, devices=devices)
            for devices in (jax.devices()[:1], jax.devices())
        )
        np.testing.assert_allclose(one.scores, eight.scores, atol=1e-4)

    @pytest.mark.slow
    def test_chunks_have_the_same_crops(self):
        whole, parts = (
            run_ttm(
                clip_model(),
                small_dataset(),
                replace(AUGMENTED, memory=Memory("none", chunk)),
                devices=jax.devices()[:1],
            )
            for chunk in (0, 4)
        )
        np.testing.assert_allclose(parts.scores, whole.scores, atol=1e-4)

    def test_resumed_in_the_middle_of_an_iteration(self):
        """Same crops, so the same parameters bit for bit."""
        dataset = small_dataset()
        task = clip_model().bind(dataset, AUGMENTED, sharding.make_mesh(jax.devices()[:1]), 0)
        loop = Loop(task, dataset, AUGMENTED, seed=7)

        def start():
            return loop.trainer.start(task.initial.trained)

        labels = loop.select(loop.look(start(), 0).scores, 0.0)
        whole, losses = loop.fit(start(), labels, 1)
        with pytest.raises(Interrupted) as stopped:
            loop.fit(start(), labels, 1, should_stop=lambda: True)
        at = stopped.value
        assert 0 < at.step < len(losses)
        resumed, again = loop.fit(at.state, labels, 1, first_step=at.step, losses=at.losses)
        np.testing.assert_array_equal(again, losses)
        for path, expected in whole.trained.items():
            np.testing.assert_array_equal(resumed.trained[path], expected)
        other, _ = Loop(task, dataset, AUGMENTED, seed=8).fit(start(), labels, 1)
        assert any((other.trained[p] != x).any() for p, x in whole.trained.items())
