"""Fetching the benchmarks that are not in the paper from imitations of where they are published."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import other_layouts as layouts
import published
import pytest

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.download import by_plan, plans
from ttm_jax.data.download.checksum import Checksum
from ttm_jax.data.download.fetch import ChangedFile
from ttm_jax.data.download.http import DownloadError
from ttm_jax.data.download.prepare import find_problems, prepare
from ttm_jax.data.not_prepared import NotPrepared

server, options = published.server, published.options  # fixtures
origin, root = published.origin, published.root
STORAGE = "/storage/sfr-vision-language-research/datasets"


@pytest.fixture
def any_count(options):
    """The copies here have a few groups only."""
    return replace(options, allow_changed=True)


def on_hub(server, repo: str, files: dict[str, bytes]) -> None:
    """As `published.publish_on_hub`, for any repository."""
    listing = {
        "id": repo, "sha": published.COMMIT, "private": False,
        "siblings": [published._entry(name, data) for name, data in files.items()],
    }  # fmt: skip
    server.routes[f"/api/datasets/{repo}/revision/main"] = lambda _: published.json_reply(listing)
    for name, data in files.items():
        server.serve(f"/datasets/{repo}/resolve/{published.COMMIT}/{name}", data)


def zipped(folder: Path, top: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{top}{path.relative_to(folder).as_posix()}")
    return buffer.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def check(name: str, folder: Path, root: Path, options, fetched: int) -> None:
    """Everything comes, once, and is recorded."""
    benchmark = BENCHMARKS[name]
    ready = prepare(benchmark, root, options)
    assert ready.fetched == fetched
    there = contents(root / benchmark.folder)
    assert {name: there[name] for name in contents(folder)} == contents(folder)
    assert not [name for name in there if name.endswith((".zip", ".part", ".unpacked"))]
    assert find_problems(benchmark, root, options) == []
    assert prepare(benchmark, root, options).fetched == 0


def test_parquet_of_the_hub(server, any_count, origin, root):
    folder = layouts.bivlc(origin)
    on_hub(server, "imirandam/BiVLC", contents(folder))
    check("bivlc", folder, root, any_count, 1)


def test_lists_of_the_hub_with_pictures_of_coco(server, any_count, origin, root):
    folder = layouts.sugarcrepe_pp(origin)
    on_hub(
        server, "Aman-J/SugarCrepe_pp",
        {"data/swap_obj.json": (folder / "pp" / "swap_obj.json").read_bytes(), "README.md": b"x"},
    )  # fmt: skip
    published.publish_coco(server, folder / "val2017")
    check("sugarcrepe_pp_swap_obj", folder, root, any_count, 3)


def test_lists_of_github_with_pictures_of_the_hub(server, any_count, origin, root):
    folder = layouts.cola(origin)
    name = "COLA_multiobjects_matching_benchmark.json"
    server.serve(f"/raw/arijitray1993/COLA/main/data/{name}", (folder / name).read_bytes())
    files = {name: data for name, data in contents(folder).items() if name.endswith(".jpg")}
    on_hub(server, "array/cola", {**files, "images/vg/99.jpg": b"of another setting"})
    check("cola", folder, root, any_count, 7)
    assert not (root / "cola" / "images" / "vg" / "99.jpg").exists()


@pytest.mark.parametrize("top", ["", "NaturalBench-Retrieval/"])
def test_an_archive_of_the_hub(server, any_count, origin, root, top):
    folder = layouts.naturalbench(origin)
    data = zipped(folder, top)
    on_hub(server, "BaiqiL/NaturalBench", {"NaturalBench-Retrieval.zip": data})
    check("naturalbench_retrieval", folder, root, any_count, 7)


def test_an_archive_that_was_put_there_stays(server, any_count, origin, root):
    folder = layouts.naturalbench(origin)
    (root / "naturalbench_retrieval").mkdir(parents=True)
    archive = root / "naturalbench_retrieval" / "NaturalBench-Retrieval.zip"
    archive.write_bytes(zipped(folder))
    assert prepare(BENCHMARKS["naturalbench_retrieval"], root, any_count).groups == 3
    assert archive.is_file()
    assert not server.seen
    (root / "naturalbench_retrieval" / "images" / "0.jpg").unlink()
    assert prepare(BENCHMARKS["naturalbench_retrieval"], root, any_count).fetched == 1


def test_another_archive(server, any_count, root):
    (root / "naturalbench_retrieval").mkdir(parents=True)
    with zipfile.ZipFile(root / "naturalbench_retrieval/NaturalBench-Retrieval.zip", "w") as file:
        file.writestr("a/b.txt", "x")
    with pytest.raises(DownloadError, match=r"has no metadata\.json; is it another archive\?"):
        prepare(BENCHMARKS["naturalbench_retrieval"], root, any_count)


def test_lists_and_archives_of_drive(server, any_count, origin, root):
    folder = layouts.aro(origin, "relation")
    images = root.parent / "to pack"
    images.mkdir()
    (folder / "images").rename(images / "images")
    files = {
        "1kX2iCHEv0CADL8dSO1nMdW-V0NqIAiP3": (folder / "visual_genome_relation.json").read_bytes(),
        "1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9": zipped(images),
    }
    published.publish_on_drive(server, files, behind_a_form=("1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9",))
    ready = prepare(BENCHMARKS["aro_vg_relation"], root, any_count)
    assert (ready.groups, ready.images, ready.fetched) == (3, 3, 4)
    assert prepare(BENCHMARKS["aro_vg_relation"], root, any_count).fetched == 0
    assert find_problems(BENCHMARKS["aro_vg_relation"], root, any_count) == []


def test_lists_of_google_storage_with_pictures_of_coco(server, any_count, origin, root):
    folder = layouts.karpathy(origin, "coco")
    name = "coco_karpathy_test.json"
    server.serve(f"{STORAGE}/{name}", (folder / name).read_bytes())
    for path in (folder / "val2014").iterdir():
        server.serve(f"/coco/val2014/{path.name}", path.read_bytes())
    check("coco_5k", folder, root, any_count, 4)


@pytest.mark.parametrize(
    ("name", "write", "lists", "message"),
    [
        (
            "flickr30k_1k", lambda o: layouts.karpathy(o, "flickr30k"), STORAGE,
            r"flickr30k_1k: ask for Flickr30k at https://forms\.illinois\.edu/sec/229675 .*"
            r"flickr30k-images/, all in .*, and repeat the command; 3 are missing: .*/0\.jpg",
        ),
        (
            "valse_actant_swap", layouts.valse, "/raw/Heidelberg-NLP/VALSE/main/data",
            r"put the pictures of .* into images/<dataset>/.*3 are missing: .*/SWiG/exercising_0",
        ),
        (
            "imagecode", layouts.imagecode, "/raw/McGill-NLP/imagecode/main/data",
            r"unpack image-sets\.zip .*; .*open-images-1_a has 0 images",
        ),
    ],
)  # fmt: skip
def test_pictures_that_a_person_has_to_bring(
    server, any_count, origin, root, name, write, lists, message
):
    folder = write(origin)
    (file,) = BENCHMARKS[name].annotations
    server.serve(f"{lists}/{file}", (folder / file).read_bytes())
    with pytest.raises(NotPrepared, match=message) as caught:
        prepare(BENCHMARKS[name], root, any_count)
    assert "\n" not in str(caught.value)
    for path, data in contents(folder).items():
        target = root / BENCHMARKS[name].folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    assert prepare(BENCHMARKS[name], root, any_count).groups == 3


def test_a_file_with_another_checksum(server, options, origin, root, monkeypatch):
    folder = layouts.karpathy(origin, "coco")
    name = "coco_karpathy_test.json"
    server.serve(f"{STORAGE}/{name}", (folder / name).read_bytes())
    monkeypatch.setitem(plans.CHECKSUMS, name, Checksum("sha256", "0" * 64))
    with pytest.raises(ChangedFile, match=name):
        prepare(BENCHMARKS["coco_5k"], root, options)
    assert by_plan.CHECKSUMS is plans.CHECKSUMS
