"""SugarCrepe: its lists from GitHub, and of COCO only the images that they need."""

import json
from dataclasses import replace
from pathlib import Path

import benchmark_layouts as layouts
import published
import pytest
from local_server import Reply

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.download import fetchers
from ttm_jax.data.download.checksum import Checksum, file_digest
from ttm_jax.data.download.fetch import ChangedFile
from ttm_jax.data.download.http import DownloadError
from ttm_jax.data.download.prepare import find_problems, prepare
from ttm_jax.errors import InputError

server, options = published.server, published.options  # fixtures
origin, root = published.origin, published.root


def _publish_sugarcrepe(server, origin, subset="swap_obj"):
    folder = layouts.write_sugarcrepe(origin, subset)
    path = f"/raw/RAIVNLab/sugar-crepe/main/data/{subset}.json"
    server.serve(path, (folder / f"{subset}.json").read_bytes())
    published.publish_coco(server, folder / "val2017")
    return folder


def test_sugarcrepe_with_only_the_images_it_needs(server, options, origin, root):
    folder = _publish_sugarcrepe(server, origin)
    ready = prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, options)
    assert (ready.groups, ready.images, ready.fetched) == (245, 224, 225)
    assert published.tree_of(root / "sugarcrepe") == published.tree_of(folder)
    # a second subset shares the folder and its manifest
    _publish_sugarcrepe(server, origin, "add_att")
    prepare(BENCHMARKS["sugarcrepe_add_att"], root, options)
    manifest = published.manifest_of(root, "sugarcrepe")
    assert set(manifest["benchmarks"]) == {"sugarcrepe_swap_obj", "sugarcrepe_add_att"}
    assert {"swap_obj.json", "add_att.json"} <= set(manifest["files"])
    assert find_problems(BENCHMARKS["sugarcrepe_swap_obj"], root, options) == []


def test_an_interrupted_collection_goes_on(server, options, origin, root):
    folder = _publish_sugarcrepe(server, origin)
    names = sorted(path.name for path in (folder / "val2017").iterdir())
    server.routes[f"/coco/val2017/{names[100]}"] = lambda _: Reply(b"", 500)
    with pytest.raises(DownloadError, match=rf"{names[100]}: the server answers 500") as caught:
        prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, options)
    assert "val2017.zip of https://cocodataset.org/#download" in str(caught.value)
    have = set(published.tree_of(root / "sugarcrepe"))
    assert 90 < len(have) < 225
    server.seen.clear()
    published.publish_coco(server, folder / "val2017")
    prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, options)
    came_again = {request.path.rsplit("/", 1)[1] for request in server.seen}
    assert not came_again & {Path(name).name for name in have if not name.endswith(".part")}


def test_a_damaged_image_is_removed_and_comes_again(server, options, origin, root):
    folder = _publish_sugarcrepe(server, origin)
    name = sorted(path.name for path in (folder / "val2017").iterdir())[0]
    server.serve(f"/coco/val2017/{name}", b"\xff\xd8\xff half a picture")
    with pytest.raises(InputError, match=rf"group '\d+': .*{name} .*; 1 were removed"):
        prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, options)
    assert not (root / "sugarcrepe" / "val2017" / name).exists()
    assert not (root / "sugarcrepe" / "manifest.json").exists()
    published.publish_coco(server, folder / "val2017")
    assert prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, options).fetched == 1


def test_an_annotation_that_changed(server, options, origin, root):
    _publish_sugarcrepe(server, origin)
    changed = json.loads((layouts.ASSETS / "swap_obj.json").read_text())
    changed["0"]["caption"] += " indeed"
    path = "/raw/RAIVNLab/sugar-crepe/main/data/swap_obj.json"
    server.serve(path, json.dumps(changed).encode())
    with pytest.raises(ChangedFile, match="expected sha256 073cdb8e") as caught:
        prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, options)
    assert "allow changed files" in str(caught.value)
    allowed = replace(options, allow_changed=True)
    assert prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, allowed).groups == 245


def test_the_whole_coco_archive_put_there_by_hand(server, options, origin, root, monkeypatch):
    from archives import zip_of

    folder = _publish_sugarcrepe(server, origin)
    data = zip_of(
        {f"val2017/{path.name}": path.read_bytes() for path in (folder / "val2017").iterdir()}
        | {"val2017/000000000001.jpg": layouts.picture(1, "JPEG")}
    )
    (root / "sugarcrepe").mkdir(parents=True)
    (root / "sugarcrepe" / "val2017.zip").write_bytes(data)
    with pytest.raises(ChangedFile, match="is not the published file"):
        prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, options)
    digest = file_digest(root / "sugarcrepe" / "val2017.zip", "md5")
    monkeypatch.setattr(fetchers, "COCO_ZIP_CHECKSUM", Checksum("md5", digest))
    prepare(BENCHMARKS["sugarcrepe_swap_obj"], root, options)
    assert not any(request.path.startswith("/coco") for request in server.seen)
    assert (root / "sugarcrepe" / "val2017.zip").exists()  # what was put by hand stays
    assert (root / "sugarcrepe" / "val2017" / "000000000001.jpg").exists()
    assert not (root / "sugarcrepe" / "val2017.zip.unpacked").exists()
