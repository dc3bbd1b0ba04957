"""Images as data URLs: unchanged if possible, and encoded once."""

import asyncio
import base64
import io

import numpy as np
import pytest
from PIL import Image

from ttm_jax.errors import InputError
from ttm_jax.inputs.image_decode import NamedBytes
from ttm_jax.scorers.api import images
from ttm_jax.scorers.api.images import EncodedImages, data_url, inspect_images, sent_size

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)


def encoded(format: str, mode: str = "RGB", **options) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).convert(mode).save(buffer, format, **options)
    return buffer.getvalue()


def parts(url: str) -> tuple[str, bytes]:
    head, _, text = url.partition(";base64,")
    return head.removeprefix("data:"), base64.b64decode(text, validate=True)


@pytest.mark.parametrize(
    ("format", "media"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")]
)
def test_keep_sends_the_file_unchanged(tmp_path, format, media):
    data = encoded(format)
    (tmp_path / "a").write_bytes(data)
    assert parts(data_url(tmp_path / "a", "keep", None)) == (media, data)
    assert parts(data_url(NamedBytes("row 3", data), "keep", 60)) == (media, data)


@pytest.mark.parametrize("format", ["BMP", "TIFF"])
def test_formats_that_servers_do_not_accept_become_png(format):
    media, data = parts(data_url(NamedBytes("x", encoded(format)), "keep", None))
    assert media == "image/png"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), PIXELS)


def test_exif_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6
    media, data = parts(
        data_url(NamedBytes("x", encoded("JPEG", exif=exif, quality=95)), "keep", None)
    )
    assert media == "image/png"
    assert Image.open(io.BytesIO(data)).size == (40, 60)
    (facts,) = inspect_images([NamedBytes("x", encoded("JPEG", exif=exif))])
    assert (facts.width, facts.height) == (40, 60)


def test_an_animation_is_sent_as_its_first_frame():
    frames = [Image.fromarray(PIXELS), Image.fromarray(255 - PIXELS)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    media, data = parts(data_url(NamedBytes("x", buffer.getvalue()), "keep", None))
    assert media == "image/png"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), PIXELS)


@pytest.mark.parametrize("source", [PIXELS, Image.fromarray(PIXELS)])
def test_images_in_memory_become_png_without_loss(source):
    media, data = parts(data_url(source, "keep", None))
    assert media == "image/png"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), PIXELS)


def test_jpeg_and_shrinking():
    media, data = parts(data_url(PIXELS, "jpeg", 30))
    assert media == "image/jpeg"
    assert Image.open(io.BytesIO(data)).size == (30, 20)


@pytest.mark.parametrize(
    ("size", "longest", "sent"),
    [((60, 40), None, (60, 40)), ((60, 40), 60, (60, 40)), ((60, 40), 59, (59, 39)),
     ((10, 4000), 100, (1, 100)), ((30, 40), 100, (30, 40))],
)  # fmt: skip
def test_sent_size(size, longest, sent):
    assert sent_size(*size, longest) == sent


def test_the_hash_depends_on_the_content_only(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded("PNG"))
    (tmp_path / "b.png").write_bytes(encoded("PNG"))
    (tmp_path / "c.jpg").write_bytes(encoded("JPEG"))
    a, b, c, array = inspect_images(
        [tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.jpg", PIXELS]
    )
    assert a == b
    assert len({a.sha256, c.sha256, array.sha256}) == 3
    assert {(f.width, f.height) for f in (a, c, array)} == {(60, 40)}
    (changed,) = inspect_images([PIXELS[:, ::-1]])
    assert changed.sha256 != array.sha256


@pytest.mark.parametrize("data", [b"", b"not an image", encoded("PNG")[:30]])
def test_a_bad_image_is_reported_before_anything_is_sent(tmp_path, data):
    (tmp_path / "bad.png").write_bytes(data)
    with pytest.raises(InputError, match=r"bad\.png"):
        inspect_images([PIXELS, tmp_path / "bad.png"])


def test_a_file_that_is_too_large_says_what_to_do(monkeypatch):
    monkeypatch.setattr(images, "_MAX_BYTES", 1000)
    with pytest.raises(InputError, match="`max_image_size`"):
        data_url(NamedBytes("big", encoded("PNG")), "keep", None)
    assert data_url(NamedBytes("big", encoded("PNG")), "jpeg", 16)


def test_an_image_is_encoded_once_however_many_ask():
    async def ask() -> tuple[list[str], int]:
        store = EncodedImages([PIXELS, 255 - PIXELS], "png", None)
        return await asyncio.gather(*(store.get(i % 2) for i in range(20))), store.encoded

    urls, encodings = asyncio.run(ask())
    assert encodings == 2
    assert len(set(urls)) == 2


def test_a_cancelled_request_does_not_cancel_the_encoding():
    async def ask() -> str:
        store = EncodedImages([PIXELS], "png", None)
        first = asyncio.create_task(store.get(0))
        second = asyncio.create_task(store.get(0))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(ask()).startswith("data:image/png;base64,")


def test_the_encoded_images_in_memory_are_limited(monkeypatch):
    one = len(data_url(PIXELS, "png", None))
    monkeypatch.setattr(images, "_CACHED_BYTES", 2 * one)

    async def ask() -> tuple[int, int]:
        store = EncodedImages([np.roll(PIXELS, i, 0) for i in range(5)], "png", None)
        for i in (0, 1, 2, 3, 4, 4, 3):
            await store.get(i)
        return store.encoded, len(store._urls)

    encodings, kept = asyncio.run(ask())
    assert encodings == 5
    assert kept == 2
