"""Winoground, MMVP-VLM and ColorSwap from the Hugging Face hub, gated and not."""

from dataclasses import replace

import benchmark_layouts as layouts
import huggingface_hub
import published
import pytest
from huggingface_hub import constants
from local_server import Reply, running_server

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS, load_benchmark
from ttm_jax.data.download.checksum import file_digest
from ttm_jax.data.download.http import AccessDenied, DownloadError
from ttm_jax.data.download.prepare import find_problems, prepare
from ttm_jax.errors import InputError

server, options = published.server, published.options  # fixtures
origin, root = published.origin, published.root

FEW = 10  # groups, where their number does not matter


def test_mmvp_from_the_hub(server, options, origin, root):
    folder = layouts.write_mmvp(origin)
    (folder / "README.md").write_text("not needed")
    published.publish_on_hub(server, folder, "mmvp_vlm")
    ready = prepare(BENCHMARKS["mmvp_vlm"], root, options)
    assert (ready.groups, ready.images, ready.fetched) == (135, 270, 271)
    expected = published.tree_of(folder)
    del expected["README.md"]
    assert published.tree_of(root / "mmvp_vlm") == expected
    assert len(load_benchmark("mmvp_vlm", root).dataset) == 135

    manifest = published.manifest_of(root, "mmvp_vlm")
    assert manifest["benchmarks"] == {"mmvp_vlm": {"groups": 135, "published": 135}}
    assert set(manifest["files"]) == set(expected)
    noted = manifest["files"]["MLLM_VLM Images/Camera Perspective/270.jpg"]
    image = root / "mmvp_vlm" / "MLLM_VLM Images" / "Camera Perspective" / "270.jpg"
    assert noted["sha256"] == file_digest(image)
    assert noted["bytes"] == image.stat().st_size
    assert f"/resolve/{published.COMMIT}/MLLM_VLM%20Images/Camera%20Perspective" in noted["origin"]


def test_a_second_time_nothing_is_fetched(server, options, origin, root):
    published.publish_on_hub(server, layouts.write_mmvp(origin, FEW), "mmvp_vlm")
    few = replace(options, allow_changed=True)
    assert prepare(BENCHMARKS["mmvp_vlm"], root, few).fetched == 2 * FEW + 1
    before = len(server.seen)
    assert prepare(BENCHMARKS["mmvp_vlm"], root, few).fetched == 0
    assert len(server.seen) == before


def test_what_is_missing_is_fetched_again_and_nothing_else(server, options, origin, root):
    published.publish_on_hub(server, layouts.write_mmvp(origin, FEW), "mmvp_vlm")
    few = replace(options, allow_changed=True)
    prepare(BENCHMARKS["mmvp_vlm"], root, few)
    lost = root / "mmvp_vlm" / "MLLM_VLM Images" / "Orientation" / "16.jpg"
    lost.unlink()
    assert prepare(BENCHMARKS["mmvp_vlm"], root, few).fetched == 1
    assert lost.read_bytes() == layouts.picture(16, "JPEG")


def test_a_file_that_comes_anew_is_noted_anew(server, options, origin, root):
    folder = layouts.write_mmvp(origin, FEW)
    published.publish_on_hub(server, folder, "mmvp_vlm")
    few = replace(options, allow_changed=True)
    prepare(BENCHMARKS["mmvp_vlm"], root, few)
    name = "MLLM_VLM Images/Orientation/16.jpg"
    (root / "mmvp_vlm" / name).unlink()
    (folder / name).write_bytes(layouts.picture(99, "JPEG"))  # the authors replaced it
    published.publish_on_hub(server, folder, "mmvp_vlm")
    prepare(BENCHMARKS["mmvp_vlm"], root, few)
    assert (root / "mmvp_vlm" / name).read_bytes() == layouts.picture(99, "JPEG")
    assert find_problems(BENCHMARKS["mmvp_vlm"], root, few) == []


def test_gated_winoground(server, options, origin, root, monkeypatch):
    """Without a token 401, with one that has no access 403: what to do, and where files go."""
    folder = layouts.write_winoground(origin).parent
    with running_server() as cdn:
        published.publish_on_hub(server, folder, "winoground", token="hf_good", cdn=cdn)
        with pytest.raises(AccessDenied) as caught:
            prepare(BENCHMARKS["winoground"], root, options)
        message = str(caught.value)
        assert "no token was found" in message
        assert "accept its terms at https://huggingface.co/datasets/facebook/winoground" in message
        assert "HF_TOKEN" in message
        assert "put data/test-*.parquet of https://huggingface.co" in message
        assert f"into {root / 'winoground' / 'data'}" in message
        assert "\n" not in message

        monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_other")
        with pytest.raises(AccessDenied, match="your token has no access to it, or is not valid"):
            prepare(BENCHMARKS["winoground"], root, options)
        assert published.tree_of(root / "winoground") == {}

        monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_good")
        ready = prepare(BENCHMARKS["winoground"], root, options)
        assert (ready.groups, ready.images, ready.fetched) == (400, 800, 2)
        assert all("authorization" not in request.headers for request in cdn.seen)


def test_a_token_that_is_no_longer_valid(server, options, origin, root, monkeypatch):
    """The hub then answers 401 even for what everybody may have."""
    published.publish_on_hub(server, layouts.write_mmvp(origin, FEW), "mmvp_vlm")
    for path, route in list(server.routes.items()):
        server.routes[path] = lambda request, route=route: (
            Reply(b"Invalid credentials", 401)
            if "authorization" in request.headers
            else route(request)
        )
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_expired")
    ready = prepare(BENCHMARKS["mmvp_vlm"], root, replace(options, allow_changed=True))
    assert ready.groups == FEW


def test_files_put_there_by_hand_are_taken_and_noted(server, options, root):
    layouts.write_winoground(root)
    ready = prepare(BENCHMARKS["winoground"], root, options)
    assert (ready.groups, ready.fetched) == (400, 0)
    assert server.seen == []
    files = published.manifest_of(root, "winoground")["files"]
    assert {entry["origin"] for entry in files.values()} == {"found here"}
    assert find_problems(BENCHMARKS["winoground"], root, options) == []


def test_colorswap_from_the_conversion_of_the_hub(server, options, origin, root):
    """If the main branch has no Parquet files, the hub's own conversion has."""
    bare = origin / "bare"
    bare.mkdir(parents=True)
    (bare / "README.md").write_text("a script, no data")
    folder = layouts.write_colorswap(origin).parent
    published.publish_on_hub(server, folder, "colorswap", revision="refs/convert/parquet")
    published.publish_on_hub(server, bare, "colorswap")
    ready = prepare(BENCHMARKS["colorswap"], root, options)
    assert (ready.groups, ready.images) == (300, 600)
    assert list(published.tree_of(root / "colorswap")) == ["data/test-00000-of-00001.parquet"]


def test_a_listing_that_leads_out_of_the_folder(server, options, origin, root):
    published.publish_on_hub(server, layouts.write_mmvp(origin, 1), "mmvp_vlm")
    listing = published.listing_of("mmvp_vlm", {"../../evil/Questions.csv": b"x"})
    server.routes[published.listing_path("mmvp_vlm")] = lambda _: published.json_reply(listing)
    with pytest.raises(DownloadError, match="would lie outside the folder"):
        prepare(BENCHMARKS["mmvp_vlm"], root, options)


def test_a_file_that_is_damaged_on_the_way(server, options, origin, root):
    published.publish_on_hub(server, layouts.write_mmvp(origin, FEW), "mmvp_vlm")
    path = f"/datasets/MMVP/MMVP_VLM/resolve/{published.COMMIT}/Questions.csv"
    server.serve(path, b"Question ID,Type,Statement\n1,Color,forged\n")
    with pytest.raises(DownloadError, match="damaged on the way") as caught:
        prepare(BENCHMARKS["mmvp_vlm"], root, options)
    assert "allow changed" not in str(caught.value)  # it would not help
    assert not (root / "mmvp_vlm" / "Questions.csv").exists()


def test_a_count_that_is_not_the_published_one(server, options, origin, root):
    published.publish_on_hub(server, layouts.write_mmvp(origin, FEW), "mmvp_vlm")
    with pytest.raises(InputError, match="lists 10 groups; published are 135"):
        prepare(BENCHMARKS["mmvp_vlm"], root, options)
    assert prepare(BENCHMARKS["mmvp_vlm"], root, replace(options, allow_changed=True)).groups == 10
    assert published.manifest_of(root, "mmvp_vlm")["benchmarks"]["mmvp_vlm"] == {
        "groups": 10,
        "published": 135,
    }


def test_offline(server, options, root, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE is set"):
        prepare(BENCHMARKS["mmvp_vlm"], root, options)
    assert server.seen == []
