"""Whatever happens to input files: reading succeeds or says why in one line, and changes nothing.

A case is a folder of good input and what is done with it. Each mutation changes one file of it, by
field, by line or by byte, drawn from a seed; then the folder is used.
"""

import csv
import io
import json
import random as random_module
import resource
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import benchmark_layouts as layouts
import numpy as np
import published
import pyarrow.parquet as pq
import pytest
from archives import zip_of
from local_server import LocalServer, Reply, file_reply
from mutations import VALUES, Mutation, mutate
from PIL import Image

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS, load_benchmark
from ttm_jax.data.benchmarks.facts import find_facts
from ttm_jax.data.download import hub
from ttm_jax.data.download.archive import unpack
from ttm_jax.data.download.checksum import Checksum, file_digest
from ttm_jax.data.download.drive import fetch_from_drive
from ttm_jax.data.download.fetch import fetch
from ttm_jax.data.download.http import DownloadError, Patience
from ttm_jax.data.download.manifest import find_changes, is_recorded, record
from ttm_jax.data.folder_reader import read_folder
from ttm_jax.data.score_files.read import read_score_file
from ttm_jax.data.unreadable_images import find_broken
from ttm_jax.errors import InputError
from ttm_jax.inputs.image_decode import decode_rgb, encoded_bytes
from ttm_jax.report.score_report import report_global, report_groups

server = published.server  # fixture
FEW, MANY = 40, 600  # of every case
ONCE = Patience(tries=1, pause=0.0)
BODY = random_module.Random(0).randbytes(100_000)


@dataclass(frozen=True)
class Case:
    """`make` fills a folder; `use` reads it, and may write to the folder `out`."""

    make: Callable[[Path], None]
    use: Callable[[Path, Path, LocalServer], None]


# --- own folders


def _make_pictures(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for i, (name, options) in enumerate(
        [("a.png", {}), ("b.jpg", {"exif": exif}), ("c.webp", {}), ("d.gif", {})]
    ):
        Image.new("RGB", (6, 4), (60 * i, 9, 9)).save(folder / name, **options)


def _make_groups(folder: Path) -> None:
    _make_pictures(folder)
    pair = {"images": ["a.png", "b.jpg"], "captions": ["a cat", "a dog"], "truth": [1, 0]}
    one = {"images": ["c.webp"], "captions": ["x", "y", "z"], "truth": [2], "tags": ["t", "u"]}
    lines = [{"id": "0", **pair}, {"id": 1, **one}, {"id": "2", **pair, "tags": ["t"]}]
    (folder / "groups.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _make_lists(folder: Path) -> None:
    _make_pictures(folder)
    captions = [{"id": name, "caption": f"a {name}"} for name in ("cat", "dog", "cow")]
    images = [{"image": "a.png", "caption": "dog"}, {"image": "b.jpg", "caption": 0}]
    for name, lines in (("captions", captions), ("images", images)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)


def _read_own(folder: Path, out: Path, server: LocalServer) -> None:
    dataset = read_folder(folder)
    json.dumps(dataset.captions, ensure_ascii=False).encode()
    dataset.name.encode()
    for image in dataset.images:
        decode_rgb(image, encoded_bytes(image))


# --- benchmarks


def _make_mmvp(folder: Path) -> None:
    layouts.write_mmvp(folder, 3)


def _make_sugarcrepe(folder: Path) -> None:
    source = folder / "sugarcrepe"
    (source / "val2017").mkdir(parents=True)
    entries = json.loads((layouts.ASSETS / "swap_obj.json").read_text())
    few = dict(list(entries.items())[:4])
    (source / "swap_obj.json").write_text(json.dumps(few))
    for entry in few.values():
        (source / "val2017" / entry["filename"]).write_bytes(layouts.picture(7, "JPEG"))


def _make_whatsup(folder: Path) -> None:
    source = folder / "whatsup"
    (source / "controlled_images").mkdir(parents=True)
    entries = layouts.whatsup_entries("a")[:8]
    (source / "controlled_images_dataset.json").write_text(json.dumps(entries))
    for entry in entries:
        name = Path(entry["image_path"]).name
        (source / "controlled_images" / name).write_bytes(layouts.picture(7, "JPEG"))


def _make_winoground(folder: Path) -> None:
    (folder / "winoground" / "data").mkdir(parents=True)
    path = folder / "winoground" / "data" / "test-00000-of-00001.parquet"
    pq.write_table(layouts.winoground_table(range(3)), path)


def _load(*names: str) -> Callable[[Path, Path, LocalServer], None]:
    def use(folder: Path, out: Path, server: LocalServer) -> None:
        refusals = []
        for name in names:
            for skip in (False, True):
                try:
                    loaded = load_benchmark(name, folder, check_counts=False, skip_broken=skip)
                except InputError as error:
                    refusals.append(error)
                else:
                    find_facts(loaded.dataset).lines()
                    json.dumps(loaded.summary(), ensure_ascii=True)
        if refusals:
            raise refusals[0]

    return use


# --- downloads


def _make_manifest(folder: Path) -> None:
    for name in ("a.csv", "deep/b.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(name.encode())
    files = [folder / "a.csv", folder / "deep" / "b.jpg"]
    record(folder, "mmvp_vlm", files, {files[0]: "https://example.org/a.csv"}, 2, 135)


def _check_manifest(folder: Path, out: Path, server: LocalServer) -> None:
    for line in find_changes(folder):
        assert str(folder) in line
    is_recorded(folder, "mmvp_vlm")
    shutil.copytree(folder, out / "copy")
    record(out / "copy", "other", [], {}, 1, 1)


def _make_listing(folder: Path) -> None:
    files = {"Questions.csv": b"small", "MLLM_VLM Images/Color/1.jpg": b"large file"}
    (folder / "listing.json").write_text(json.dumps(published.listing_of("mmvp_vlm", files)))


def _list(folder: Path, out: Path, server: LocalServer) -> None:
    path = folder / "listing.json"
    body = path.read_bytes() if path.exists() else b""
    server.serve(published.listing_path("mmvp_vlm"), body)
    for file in hub.list_files(server.url, "MMVP/MMVP_VLM", None, ONCE):
        assert (out / file.path).resolve().is_relative_to(out.resolve())
        assert file.url.startswith(f"{server.url}/datasets/MMVP/MMVP_VLM/resolve/")


def _make_part(folder: Path) -> None:
    (folder / "file.part").write_bytes(BODY[:40_000])
    note = {"identity": "the file", "validator": '"v1"', "total": len(BODY)}
    (folder / "file.part.json").write_text(json.dumps(note))


def _resume(folder: Path, out: Path, server: LocalServer) -> None:
    """Whatever is left of an earlier download: the file is right, or it is said to be wrong."""
    shutil.copytree(folder, out / "copy")
    server.routes["/file"] = lambda request: file_reply(request, BODY)
    digest = Checksum("sha256", published.hashlib.sha256(BODY).hexdigest())
    target = out / "copy" / "file"
    try:
        fetch(f"{server.url}/file", target, checksum=digest, size=len(BODY), identity="the file")
    except DownloadError:  # a part that was changed in the middle; it is removed
        assert list((out / "copy").iterdir()) == []
        fetch(f"{server.url}/file", target, checksum=digest, size=len(BODY), identity="the file")
    assert file_digest(target) == digest.value
    assert [path.name for path in (out / "copy").iterdir()] == ["file"]


def _make_drive_page(folder: Path) -> None:
    page = published._form(LocalServer("http://127.0.0.1:1"), "id-1", 3)
    (folder / "page.html").write_bytes(page.replace(b"http://127.0.0.1:1", b""))


def _fetch_from_drive(folder: Path, out: Path, server: LocalServer) -> None:
    path = folder / "page.html"
    page = path.read_bytes() if path.exists() else b""

    def download(request):
        if "uuid" in request.query:
            return file_reply(request, BODY[:100])
        return Reply(page, headers={"Content-Type": "text/html"})

    server.routes["/drive/download"] = download
    fetch_from_drive(f"{server.url}/drive", "id-1", out / "file", patience=ONCE)
    assert (out / "file").read_bytes() == BODY[:100]


def _make_tar(mode: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        with tarfile.open(folder / "archive.tar", mode) as archive:
            for name in ("images/a.jpg", "images/" + "long" * 40 + ".jpg"):
                info = tarfile.TarInfo(name)
                info.size = 700
                archive.addfile(info, io.BytesIO(BODY[:700]))

    return make


def _make_zip(folder: Path) -> None:
    files = {"images/a.jpg": layouts.picture(1, "JPEG"), "images/b.jpg": BODY[:500]}
    (folder / "archive.zip").write_bytes(zip_of(files))


def _unpack(folder: Path, out: Path, server: LocalServer) -> None:
    for name in ("archive.tar", "archive.zip"):
        if (folder / name).exists():
            unpack(folder / name, out / "unpacked")
            found = list(out.rglob("*"))
            assert all(path.resolve().is_relative_to(out.resolve()) for path in found)
            assert not any(path.is_symlink() for path in found)


# --- scores

SCORES = np.random.default_rng(0).normal(size=(3, 2, 2)).astype(np.float32)


def _make_npz(folder: Path) -> None:
    truth, tags = np.tile([0, 1], (3, 1)), np.array([["a", ""], ["b", "c"], ["a", ""]])
    np.savez(folder / "s.npz", scores=SCORES, truth=truth, tags=tags)


def _make_npy(folder: Path) -> None:
    np.save(folder / "s.npy", SCORES)


def _make_long_csv(folder: Path) -> None:
    rows = [["group", "image", "caption", "score", "tags"]]
    for g, i, t in np.ndindex(3, 2, 2):
        rows.append([f"g{g}", str(i), str(t), str(SCORES[g, i, t]), "a; b"])
    _write_csv(folder / "s.csv", rows)


def _make_wide_csv(folder: Path) -> None:
    rows = [["s_0_0", "s_0_1", "s_1_0", "s_1_1", "truth_0", "truth_1", "tags"]]
    rows += [[*map(str, group.reshape(-1)), "0", "1", "a"] for group in SCORES]
    _write_csv(folder / "s.csv", rows)


def _write_csv(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _make_score_lines(folder: Path) -> None:
    lines = [{"scores": g.tolist(), "truth": [0, 1], "tags": ["a"], "id": "x"} for g in SCORES]
    (folder / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _make_matrix(folder: Path) -> None:
    np.save(folder / "s.npy", SCORES[0].astype(np.float64))


def _score(matrix: bool) -> Callable[[Path, Path, LocalServer], None]:
    report = report_global if matrix else report_groups

    def use(folder: Path, out: Path, server: LocalServer) -> None:
        path = next(iter(folder.iterdir()), folder / "s.npz")
        data = read_score_file(path, matrix)
        report(data, name=path.name, truth="auto", as_json=True, figure=None)

    return use


CASES = {
    "own folder: groups": Case(_make_groups, _read_own),
    "own folder: lists": Case(_make_lists, _read_own),
    "benchmark: MMVP-VLM": Case(_make_mmvp, _load("mmvp_vlm")),
    "benchmark: SugarCrepe": Case(_make_sugarcrepe, _load("sugarcrepe_swap_obj")),
    "benchmark: WhatsUp": Case(_make_whatsup, _load("whatsup_a", "whatsup_a_left_right")),
    "benchmark: Parquet": Case(_make_winoground, _load("winoground")),
    "download: manifest": Case(_make_manifest, _check_manifest),
    "download: listing": Case(_make_listing, _list),
    "download: part and note": Case(_make_part, _resume),
    "download: Drive page": Case(_make_drive_page, _fetch_from_drive),
    "archive: tar": Case(_make_tar("w"), _unpack),
    "archive: tar.gz": Case(_make_tar("w:gz"), _unpack),
    "archive: zip": Case(_make_zip, _unpack),
    "scores: npz": Case(_make_npz, _score(matrix=False)),
    "scores: npy, global": Case(_make_matrix, _score(matrix=True)),
    "scores: npy": Case(_make_npy, _score(matrix=False)),
    "scores: long csv": Case(_make_long_csv, _score(matrix=False)),
    "scores: wide csv": Case(_make_wide_csv, _score(matrix=False)),
    "scores: jsonl": Case(_make_score_lines, _score(matrix=False)),
}


def draw(folder: Path, random: Random) -> Mutation:
    """One change; of a CSV file often one cell, which `mutate` does not know."""
    mutation = mutate(folder, random)
    if mutation.path.suffix != ".csv" or random.random() < 0.4:
        return mutation
    rows = list(csv.reader(io.StringIO(mutation.path.read_text(encoding="utf-8"), newline="")))
    row = random.choice(rows)
    value = random.choice((*VALUES, "9" * 5000, "1e400", "../x", "s_0_0", "100000000", "a\nb", "٣"))
    row[random.randrange(len(row))] = str(value).encode("utf-8", "replace").decode()
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(random.choice((rows, rows[1:], rows + rows[-1:], [row])))
    return Mutation(mutation.path, f"cell = {value!r:.60}", buffer.getvalue().encode())


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def outcome(case: Case, mutation: Mutation, folder: Path, out: Path, server: LocalServer) -> bool:
    """Whether the mutated folder was accepted; it is as before in any case."""
    before = mutation.path.read_bytes()
    if mutation.content is None:
        mutation.path.unlink()
    else:
        mutation.path.write_bytes(mutation.content)
    damaged = contents(folder)
    out.mkdir()
    message = ""
    try:
        case.use(folder, out, server)
    except InputError as error:
        message = str(error)
    finally:
        assert contents(folder) == damaged
        mutation.path.write_bytes(before)
        shutil.rmtree(out)
    assert message.isprintable(), message
    return not message


def run_case(name: str, count: int, root: Path, server: LocalServer) -> Counter[str]:
    case, folder = CASES[name], root / "input"
    folder.mkdir()
    case.make(folder)
    (root / "out").mkdir()
    case.use(folder, root / "out", server)  # as it is, it is good
    shutil.rmtree(root / "out")
    found: Counter[str] = Counter()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(count):
        mutation = draw(folder, Random(f"{name} {seed}"))
        try:
            accepted = outcome(case, mutation, folder, root / "out", server)
        except BaseException as error:
            raise AssertionError(f"{seed}: {mutation.path.name}, {mutation.how}") from error
        found["accepted" if accepted else "refused"] += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
    assert grown < 500_000, f"took {grown} kB of memory"
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_few_mutations(name, tmp_path, server, capsys):
    found = run_case(name, FEW, tmp_path, server)
    assert sum(found.values()) == FEW
    assert found["refused"] > 0 or name == "download: part and note"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_mutations(name, tmp_path, server, capsys, record_property):
    found = run_case(name, MANY, tmp_path, server)
    with capsys.disabled():
        print(f"\n{name:28} {found['accepted']:5} accepted {found['refused']:5} refused")


def test_every_loader_has_a_case():
    sources = {benchmark.source for benchmark in BENCHMARKS.values() if benchmark.in_paper}
    assert sources - {"colorswap"} == {"winoground", "mmvp_vlm", "sugarcrepe", "whatsup"}
    assert find_broken([]) == []
