"""Pixels: bit for bit those of transformers, whatever the file looks like."""

import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from ttm_jax.errors import InputError
from ttm_jax.inputs.image_resize import resize_bilinear
from ttm_jax.inputs.preprocess import ImageError, ImageProcessor, NamedBytes, normalise

SIGLIP = ImageProcessor.for_family("siglip", 32)
CLIP = ImageProcessor.for_family("clip", 32)

# (width, height): odd, smaller than the target, one pixel, extreme aspect in both directions.
SIZES = [(640, 480), (333, 517), (224, 224), (225, 223), (31, 17), (1, 1), (900, 7), (5, 611)]


def picture(width: int, height: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(image: Image.Image, file_format: str = "PNG", **options) -> NamedBytes:
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return NamedBytes(f"picture.{file_format.lower()}", file.getvalue())


def reference(family: str):
    """transformers' processor that works with Pillow (its name has no suffix before version 5)."""
    import transformers

    stem = {"siglip": "SiglipImageProcessor", "clip": "CLIPImageProcessor"}[family]
    return getattr(transformers, f"{stem}Pil", None) or getattr(transformers, stem)


class TestParityWithTransformers:
    @pytest.mark.parametrize("size", [224, 246])
    @pytest.mark.parametrize("family", ["siglip", "clip"])
    def test_same_uint8(self, family, size):
        ours = ImageProcessor.for_family(family, size)
        sides = {"height": size, "width": size}
        theirs = (
            reference(family)(size=sides)
            if family == "siglip"
            else reference(family)(size={"shortest_edge": size}, crop_size=sides)
        )
        for seed, (width, height) in enumerate(SIZES):
            image = Image.fromarray(picture(width, height, seed))
            expected = theirs(image, do_rescale=False, do_normalize=False)["pixel_values"][0]
            assert expected.dtype == np.uint8
            np.testing.assert_array_equal(ours(image), expected.transpose(1, 2, 0))

    @pytest.mark.parametrize("resample", [0, 1, 2, 3, 4, 5])
    def test_same_uint8_with_every_filter(self, resample, tmp_path):
        config = {"size": {"height": 40, "width": 40}, "resample": resample}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
        ours = ImageProcessor.from_folder(tmp_path, "siglip")
        theirs = reference("siglip")(**config)
        image = Image.fromarray(picture(91, 57))
        expected = theirs(image, do_rescale=False, do_normalize=False)["pixel_values"][0]
        np.testing.assert_array_equal(ours(image), expected.transpose(1, 2, 0))

    @pytest.mark.parametrize("family", ["siglip", "clip"])
    def test_same_float32_after_normalising(self, family):
        ours = ImageProcessor.for_family(family)
        image = Image.fromarray(picture(333, 517))
        expected = reference(family)()(image)["pixel_values"][0].transpose(1, 2, 0)
        pixels = ours(image)
        on_host = normalise(pixels, ours.mean, ours.std)
        on_device = jax.jit(lambda p: normalise(p, ours.mean, ours.std))(jnp.asarray(pixels)[None])
        assert on_host.dtype == on_device.dtype == np.float32
        np.testing.assert_allclose(on_host, expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(np.asarray(on_device[0]), expected, rtol=0, atol=1e-6)


class TestBigVisionResize:
    @pytest.mark.parametrize(("width", "height"), [(91, 57), (20, 13), (32, 32), (1, 300)])
    def test_is_jax_bilinear_without_antialias_cut_to_integers(self, width, height):
        pixels = picture(width, height)
        exact = jax.image.resize(
            jnp.asarray(pixels, jnp.float32), (32, 48, 3), "linear", antialias=False
        )
        ours = resize_bilinear(pixels, 48, 32)
        # The two sum in another order: a value within 1e-3 of a whole number may fall either way.
        assert (ours <= np.floor(np.asarray(exact) + 1e-3)).all()
        assert (ours >= np.floor(np.asarray(exact) - 1e-3)).all()

    def test_cuts_the_fraction_off(self):
        row = np.array([[[0] * 3, [255] * 3]], np.uint8)
        # Half-pixel centres: samples at -0.25, 0.25, 0.75, 1.25 -> 0, 63.75, 191.25, 255.
        assert resize_bilinear(row, 4, 1)[0, :, 0].tolist() == [0, 63, 191, 255]

    def test_is_a_mode_of_the_processor(self):
        image = picture(90, 60)
        for base in (SIGLIP, CLIP):
            processor = ImageProcessor(**{**vars(base), "mode": "big_vision"})
            width = 32 if base is SIGLIP else 48
            left = (width - 32) // 2
            expected = resize_bilinear(image, width, 32)[:, left : left + 32]
            np.testing.assert_array_equal(processor(image), expected)
            assert (processor(image) != base(image)).any()

    @given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 255))
    @settings(max_examples=30, deadline=None)
    def test_keeps_a_constant_picture(self, width, height, level):
        flat = np.full((height, width, 3), level, np.uint8)
        assert (resize_bilinear(flat, 16, 9) == level).all()


class TestModes:
    def test_exif_orientation(self):
        upright = Image.fromarray(picture(40, 24))
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = orientation
            for file_format in ("PNG", "TIFF", "JPEG"):
                source = encoded(upright, file_format, exif=exif)
                stored = Image.open(io.BytesIO(source.data))
                stored.load()
                expected = SIGLIP(ImageOps.exif_transpose(stored).convert("RGB"))
                np.testing.assert_array_equal(SIGLIP(source), expected)
        as_stored = ImageProcessor(**{**vars(SIGLIP), "exif": False})
        turned = encoded(upright, exif=exif)
        np.testing.assert_array_equal(as_stored(turned), SIGLIP(upright))
        assert (SIGLIP(turned) != SIGLIP(upright)).any()

    def test_damaged_exif_does_not_spoil_the_picture(self):
        image = Image.fromarray(picture(40, 24))
        source = encoded(image, exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\xff\xff\xff")
        np.testing.assert_array_equal(SIGLIP(source), SIGLIP(image))

    @pytest.mark.parametrize("mode", ["L", "1", "CMYK", "YCbCr", "HSV", "P"])
    def test_converted_before_resizing(self, mode):
        image = Image.fromarray(picture(90, 60)).convert(mode)
        np.testing.assert_array_equal(SIGLIP(image), SIGLIP(image.convert("RGB")))

    def test_transparency_is_dropped_or_laid_on_white(self):
        rgba = Image.fromarray(np.dstack([picture(40, 30), picture(40, 30, 1)[..., :1]]))
        white = ImageProcessor(**{**vars(SIGLIP), "alpha": "white"})
        under = Image.new("RGBA", rgba.size, "white")
        expected = SIGLIP(Image.alpha_composite(under, rgba).convert("RGB"))
        np.testing.assert_array_equal(white(rgba), expected)
        np.testing.assert_array_equal(SIGLIP(rgba), SIGLIP(rgba.convert("RGB")))
        assert (white(rgba) != SIGLIP(rgba)).any()

    def test_cmyk_jpeg_and_greyscale_alpha(self):
        cmyk = encoded(Image.fromarray(picture(90, 60)).convert("CMYK"), "JPEG")
        rgb = Image.open(io.BytesIO(cmyk.data)).convert("RGB")
        np.testing.assert_array_equal(SIGLIP(cmyk), SIGLIP(rgb))
        grey = Image.fromarray(picture(90, 60)[..., 0].copy())
        faded = grey.copy()
        faded.putalpha(Image.fromarray(picture(90, 60, 1)[..., 0].copy()))
        assert faded.mode == "LA"
        np.testing.assert_array_equal(SIGLIP(encoded(faded)), SIGLIP(grey))

    @pytest.mark.parametrize("transparency", [3, bytes(range(0, 256, 8))])
    def test_palette_with_transparency_keeps_its_colours(self, transparency):
        palette = Image.fromarray(picture(60, 40)).quantize(32)
        source = encoded(palette, transparency=transparency)
        assert Image.open(io.BytesIO(source.data)).has_transparency_data
        np.testing.assert_array_equal(SIGLIP(source), SIGLIP(palette.convert("RGB")))

    @pytest.mark.parametrize("file_format", ["PNG", "TIFF"])
    def test_16_bit_is_scaled_not_clipped(self, file_format):
        ramp = np.linspace(0, 65535, 32 * 32).astype(np.uint16).reshape(32, 32)
        expected = np.rint(ramp / 257).astype(np.uint8)
        pixels = SIGLIP(encoded(Image.fromarray(ramp), file_format))
        np.testing.assert_array_equal(pixels, np.dstack([expected] * 3))

    def test_32_bit_and_float(self):
        ramp = np.linspace(0, 255, 32 * 32).reshape(32, 32)
        grey = np.dstack([np.rint(ramp).astype(np.uint8)] * 3)
        same = Image.fromarray(np.rint(ramp).astype(np.int32))
        np.testing.assert_array_equal(SIGLIP(encoded(same, "TIFF")), grey)
        deep = Image.fromarray(np.rint(ramp).astype(np.int32) * 257)
        np.testing.assert_array_equal(SIGLIP(encoded(deep, "TIFF")), grey)
        for values in (ramp / 255, np.rint(ramp)):
            floats = Image.fromarray(values.astype(np.float32))
            np.testing.assert_array_equal(SIGLIP(encoded(floats, "TIFF")), grey)
        for bad in (np.full((4, 4), -1.0), np.full((4, 4), np.nan), np.full((4, 4), 256.0)):
            with pytest.raises(ImageError, match=r"picture\.tiff.*float samples"):
                SIGLIP(encoded(Image.fromarray(bad.astype(np.float32)), "TIFF"))

    def test_first_frame_of_an_animation(self):
        frames = [Image.fromarray(picture(40, 30, seed)).quantize(64) for seed in range(3)]
        gif = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
        assert Image.open(io.BytesIO(gif.data)).n_frames == 3
        np.testing.assert_array_equal(SIGLIP(gif), SIGLIP(frames[0].convert("RGB")))


class TestSources:
    def test_path_bytes_image_and_array_agree(self, tmp_path):
        image = Image.fromarray(picture(70, 41))
        path = tmp_path / "kitchen table.png"
        image.save(path)
        named = NamedBytes("archive.parquet row 3", path.read_bytes())
        for source in (path, str(path), named, Image.open(path), np.asarray(image)):
            np.testing.assert_array_equal(CLIP(source), CLIP(image))
        grey = picture(70, 41)[..., 0].copy()
        np.testing.assert_array_equal(CLIP(grey), CLIP(np.dstack([grey] * 3)))

    @pytest.mark.parametrize(
        "array",
        [
            np.zeros((4, 4, 4), np.uint8),
            np.zeros((3, 4, 5), np.uint8),
            np.zeros((4, 4, 3), np.float32),
            np.zeros((2, 4, 4, 3), np.uint8),
            np.zeros((0, 4, 3), np.uint8),
        ],
    )
    def test_other_arrays_are_refused(self, array):
        with pytest.raises(ImageError, match=r"array of shape .*expected uint8"):
            SIGLIP(array)

    def test_bad_files_are_named(self, tmp_path):
        whole = encoded(Image.fromarray(picture(200, 200)), "JPEG").data
        contents = {
            "cut.jpg": (whole[: len(whole) // 2], "truncated"),
            "cut.png": (encoded(Image.fromarray(picture(99, 99))).data[:900], "decoded"),
            "page.jpg": (b"<!DOCTYPE html><html>not found</html>", "not an image"),
            "empty.png": (b"", "empty"),
            "pointer.png": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs"),
        }
        for name, (content, reason) in contents.items():
            (tmp_path / name).write_bytes(content)
            with pytest.raises(InputError, match=f"{name}.*{reason}"):
                SIGLIP(tmp_path / name)
        with pytest.raises(InputError, match=r"nothing\.png does not exist"):
            SIGLIP(tmp_path / "nothing.png")
        with pytest.raises(InputError, match="is a folder"):
            SIGLIP(tmp_path)
        with pytest.raises(InputError, match="cannot be read"):
            SIGLIP("a\0b.png")

    def test_decompression_bomb(self, monkeypatch):
        source = encoded(Image.fromarray(picture(60, 50)))
        for limit in (2000, 1000):  # Pillow warns above the limit and raises above twice the limit
            monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
            with pytest.raises(ImageError, match=r"picture\.png is too large.*MAX_IMAGE_PIXELS"):
                SIGLIP(source)

    def test_extreme_aspect_that_would_fill_the_memory(self):
        with pytest.raises(ImageError, match=r"1 x 100000.*crop it"):
            CLIP(np.zeros((100000, 1, 3), np.uint8))
        assert SIGLIP(np.zeros((100000, 1, 3), np.uint8)).shape == (32, 32, 3)


class TestBatch:
    def sources(self, folder: Path, count: int) -> list[Path]:
        paths = [folder / f"{i}.png" for i in range(count)]
        for i, path in enumerate(paths):
            Image.fromarray(picture(50 + i, 40, i)).save(path)
        return paths

    @pytest.mark.parametrize("workers", [1, 3, None])
    def test_equals_one_by_one_in_order(self, tmp_path, workers):
        paths = self.sources(tmp_path, 7)
        pixels = CLIP.batch(paths, workers=workers)
        np.testing.assert_array_equal(pixels, np.stack([CLIP(path) for path in paths]))
        assert CLIP.batch([], workers=workers).shape == (0, 32, 32, 3)

    def test_repeats_are_decoded_once(self, tmp_path, monkeypatch):
        paths = self.sources(tmp_path, 3)
        opened = []
        original = Image.open
        monkeypatch.setattr(Image, "open", lambda *a: opened.append(a) or original(*a))
        shared = Image.fromarray(picture(20, 20))
        sources = [paths[0], paths[1], paths[0], shared, str(paths[0]), paths[2], shared]
        pixels = SIGLIP.batch(sources)
        assert len(opened) == 3
        np.testing.assert_array_equal(pixels, np.stack([SIGLIP(s) for s in sources]))

    def test_error_names_the_first_bad_image(self, tmp_path):
        paths = self.sources(tmp_path, 6)
        paths[4].write_bytes(b"no")
        paths[2].write_bytes(b"no")
        for workers in (1, 2):
            with pytest.raises(ImageError, match=r"2\.png is not an image") as caught:
                SIGLIP.batch(paths, workers=workers)
            assert caught.value.position == 2
        with pytest.raises(InputError, match="workers is 0"):
            SIGLIP.batch(paths, workers=0)

    def test_leaves_no_threads_behind(self, tmp_path):
        before = threading.active_count()
        SIGLIP.batch(self.sources(tmp_path, 4), workers=2)
        assert threading.active_count() == before

    def test_progress_bar_on_a_terminal_only(self, tmp_path, capsys, monkeypatch):
        paths = self.sources(tmp_path, 3)
        SIGLIP.batch(paths, label="pictures")
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        SIGLIP.batch(paths, label="pictures")
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "pictures" in shown.err
        assert "3/3" in shown.err
        SIGLIP.batch(paths, label="pictures", progress=False)
        assert capsys.readouterr() == ("", "")


class TestCache:
    def count_decodes(self, monkeypatch) -> list:
        opened: list = []
        original = Image.open
        monkeypatch.setattr(Image, "open", lambda *a: opened.append(a) or original(*a))
        return opened

    def test_second_run_decodes_nothing(self, tmp_path, monkeypatch):
        paths = TestBatch().sources(tmp_path, 3)
        cache = tmp_path / "deep" / "cache"
        first = SIGLIP.batch(paths, cache_dir=cache)
        opened = self.count_decodes(monkeypatch)
        np.testing.assert_array_equal(SIGLIP.batch(paths, cache_dir=cache), first)
        moved = tmp_path / "other name.png"
        paths[0].rename(moved)
        np.testing.assert_array_equal(SIGLIP.batch([moved], cache_dir=cache)[0], first[0])
        assert not opened
        assert all(file.suffix == ".pixels" for file in cache.rglob("*") if file.is_file())

    def test_content_and_settings_are_the_key(self, tmp_path, monkeypatch):
        [path] = TestBatch().sources(tmp_path, 1)
        cache = tmp_path / "cache"
        variants = [SIGLIP, CLIP, SIGLIP.with_size(33)]
        variants += [
            ImageProcessor(**{**vars(SIGLIP), **change})
            for change in (
                {"mode": "big_vision"},
                {"resample": Image.Resampling.BOX},
                {"exif": False},
                {"alpha": "white"},
            )
        ]
        opened = self.count_decodes(monkeypatch)
        for count, processor in enumerate(variants, start=1):
            np.testing.assert_array_equal(
                processor.batch([path], cache_dir=cache)[0], processor(path)
            )
            assert len(opened) == 2 * count
        Image.fromarray(picture(50, 40, 99)).save(path)
        np.testing.assert_array_equal(SIGLIP.batch([path], cache_dir=cache)[0], SIGLIP(path))

    @pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "longer"])
    def test_damaged_entries_are_redone(self, tmp_path, damage):
        [path] = TestBatch().sources(tmp_path, 1)
        cache = tmp_path / "cache"
        first = SIGLIP.batch([path], cache_dir=cache)
        [entry] = cache.rglob("*.pixels")
        good = entry.read_bytes()
        flipped = good[:100] + bytes([good[100] ^ 1]) + good[101:]
        bad = {"cut": good[:-1], "flipped": flipped, "empty": b"", "longer": good + b"\0"}[damage]
        entry.write_bytes(bad)
        np.testing.assert_array_equal(SIGLIP.batch([path], cache_dir=cache), first)
        assert entry.read_bytes() == good

    def test_unusable_folder(self, tmp_path):
        [path] = TestBatch().sources(tmp_path, 1)
        with pytest.raises(InputError, match=r"cannot write to the image cache .*0\.png"):
            SIGLIP.batch([path], cache_dir=path)


class TestFromFolder:
    def read(
        self, folder: Path, config: object, family: str = "clip", name: str = ""
    ) -> ImageProcessor:
        text = config if isinstance(config, str) else json.dumps(config)
        (folder / (name or "preprocessor_config.json")).write_text(text)
        return ImageProcessor.from_folder(folder, family)

    def test_defaults_of_the_family(self, tmp_path):
        for family in ("siglip", "clip"):
            processor = ImageProcessor.from_folder(tmp_path, family)
            assert processor == ImageProcessor.for_family(family)
            assert processor.size == 224
        (tmp_path / "config.json").write_text('{"vision_config": {"image_size": 384}}')
        assert ImageProcessor.from_folder(tmp_path, "siglip").size == 384
        with pytest.raises(InputError, match="not a folder"):
            ImageProcessor.from_folder(tmp_path / "nowhere", "clip")

    @pytest.mark.parametrize(
        "config",
        [
            {"size": 336, "crop_size": 336},
            {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}},
            {"size": {"shortest_edge": 336}, "crop_size": 336, "do_center_crop": True},
            {"size": {"shortest_edge": 336}},
            {"feature_extractor_type": "CLIPFeatureExtractor", "size": 336, "do_convert_rgb": None},
        ],
    )
    def test_spellings_of_clip(self, tmp_path, config):
        assert self.read(tmp_path, config) == ImageProcessor.for_family("clip", 336)

    @pytest.mark.parametrize("size", [256, [256, 256], {"height": 256, "width": 256}])
    def test_spellings_of_siglip(self, tmp_path, size):
        config = {"size": size, "resample": 2, "image_std": 0.25, "do_center_crop": None}
        processor = self.read(tmp_path, config, "siglip")
        assert (processor.kind, processor.size) == ("squash", 256)
        assert processor.resample == Image.Resampling.BILINEAR
        assert processor.std == (0.25, 0.25, 0.25)

    def test_no_normalising(self, tmp_path):
        processor = self.read(tmp_path, {"do_normalize": False})
        assert (processor.mean, processor.std) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    def test_transformers_5_nests_it(self, tmp_path):
        self.read(tmp_path, {"size": 64, "crop_size": 64})
        name = "processor_config.json"
        assert self.read(tmp_path, {"processor_class": "CLIPProcessor"}, name=name).size == 64
        nested = {"image_processor": {"size": {"shortest_edge": 96}, "crop_size": 96}}
        assert self.read(tmp_path, nested, name=name).size == 96

    @pytest.mark.parametrize("family", ["siglip", "clip"])
    def test_what_transformers_saves(self, tmp_path, family):
        reference(family)().save_pretrained(tmp_path)
        assert ImageProcessor.from_folder(tmp_path, family) == ImageProcessor.for_family(family)

    @pytest.mark.parametrize(
        ("config", "field"),
        [
            ({"do_resize": False}, "do_resize"),
            ({"do_rescale": False}, "do_rescale"),
            ({"rescale_factor": 1.0}, "rescale_factor"),
            ({"do_center_crop": False}, "do_center_crop"),
            ({"size": 256, "crop_size": 224}, "crop_size"),
            ({"size": {"longest_edge": 224}}, "size"),
            ({"size": {"height": 224, "width": 256}}, "size"),
            ({"size": "224"}, "size"),
            ({"size": True}, "size"),
            ({"size": 0}, "size"),
            ({"resample": 9}, "resample"),
            ({"image_mean": [0.5, 0.5]}, "image_mean"),
            ({"image_std": [0.5, 0.0, 0.5]}, "image_std"),
            ({"do_pad": True}, "do_pad"),
            ({"max_num_patches": 256}, "max_num_patches"),
        ],
    )
    def test_unsupported_settings_name_file_and_field(self, tmp_path, config, field):
        with pytest.raises(InputError, match=rf"preprocessor_config\.json: {field} is .*supported"):
            self.read(tmp_path, config)

    @pytest.mark.parametrize("text", ["{", "[1]", '"x"'])
    def test_broken_json(self, tmp_path, text):
        with pytest.raises(InputError, match=r"preprocessor_config\.json"):
            self.read(tmp_path, text)

    def test_size_must_be_positive(self):
        with pytest.raises(InputError, match="size is 0"):
            SIGLIP.with_size(0)


def test_import_is_light():
    heavy = "{'jax', 'rich', 'transformers'} & set(sys.modules)"
    command = [sys.executable, "-c", f"import sys, ttm_jax.inputs.preprocess; print({heavy})"]
    assert subprocess.check_output(command, text=True).strip() == "set()"
