"""WhatsUp from Google Drive, with the page that asks before it sends a large file."""

from dataclasses import replace

import benchmark_layouts as layouts
import published
import pytest
from local_server import Reply

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.download import drive, fetchers
from ttm_jax.data.download import fetch as fetch_module
from ttm_jax.data.download.checksum import Checksum, file_digest
from ttm_jax.data.download.fetch import ChangedFile
from ttm_jax.data.download.http import DownloadError, Patience
from ttm_jax.data.download.prepare import find_benchmarks, find_problems, prepare
from ttm_jax.errors import InputError

server, options = published.server, published.options  # fixtures
origin, root = published.origin, published.root


def _publish_whatsup(server, origin, monkeypatch, part="a"):
    """As in the release, with the checksums of what is published here."""
    folder = layouts.write_whatsup(origin, part)
    annotation, images = fetchers.WHATSUP_ANNOTATIONS[part], fetchers.WHATSUP_IMAGES[part]
    files = {
        annotation.id: (folder / annotation.name).read_bytes(),
        images.id: published.tar_gz(folder / images.name.removesuffix(".tar.gz")),
    }
    published.publish_on_drive(server, files, behind_a_form=(images.id,))
    for table, file in (("WHATSUP_ANNOTATIONS", annotation), ("WHATSUP_IMAGES", images)):
        (origin / "digest").write_bytes(files[file.id])
        checksum = Checksum("sha256", file_digest(origin / "digest"))
        known = getattr(fetchers, table)
        monkeypatch.setattr(fetchers, table, {**known, part: replace(file, checksum=checksum)})
    return folder, files


@pytest.mark.parametrize("part", ["a", "b"])
def test_whatsup_from_drive(server, options, origin, root, monkeypatch, part):
    folder, _ = _publish_whatsup(server, origin, monkeypatch, part)
    for benchmark in find_benchmarks(["whatsup"]):
        if benchmark.part == part:
            assert prepare(benchmark, root, options).groups == benchmark.groups
            assert find_problems(benchmark, root, options) == []
    assert published.tree_of(root / "whatsup") == published.tree_of(
        folder
    )  # the archive is gone, its images are there
    # one page with the form, one look behind it, one download; one look and download of the list
    forms = [request for request in server.seen if "uuid" not in request.query]
    assert len(server.seen) == 4
    assert len(forms) == 3
    assert len(published.manifest_of(root, "whatsup")["benchmarks"]) == 3


def test_a_drive_download_goes_on_though_its_address_changes(
    server, options, origin, root, monkeypatch
):
    folder, files = _publish_whatsup(server, origin, monkeypatch)
    images = fetchers.WHATSUP_IMAGES["a"]
    monkeypatch.setattr(fetch_module, "_SMALL", 0)
    route = server.routes["/drive/download"]
    cuts = [len(files[images.id]) // 2] * 2

    def breaking(request):
        reply = route(request)
        if "uuid" in request.query and cuts:
            return Reply(reply.body, reply.status, reply.headers, cuts.pop())
        return reply

    server.routes["/drive/download"] = breaking
    with pytest.raises(DownloadError, match="connection was lost"):
        prepare(BENCHMARKS["whatsup_a"], root, replace(options, patience=Patience(1, 0.0)))
    cuts.clear()
    prepare(BENCHMARKS["whatsup_a"], root, options)
    sent = [request for request in server.seen if "uuid" in request.query]
    assert sent[-1].headers["range"] == f"bytes={len(files[images.id]) // 2}-"
    assert sent[0].query["uuid"] != sent[-1].query["uuid"]
    assert published.tree_of(root / "whatsup") == published.tree_of(folder)


def test_drive_refuses(server, options, root):
    published.publish_on_drive(server, {})
    with pytest.raises(DownloadError, match="fetched too often today") as caught:
        prepare(BENCHMARKS["whatsup_a"], root, options)
    for file in (fetchers.WHATSUP_ANNOTATIONS["a"], fetchers.WHATSUP_IMAGES["a"]):
        assert f"{file.name} (https://drive.google.com/file/d/{file.id}/view)" in str(caught.value)
    assert f"into {root / 'whatsup'}" in str(caught.value)


def test_a_release_that_changed(server, options, origin, root):
    folder = layouts.write_whatsup(origin, "a")
    annotation = fetchers.WHATSUP_ANNOTATIONS["a"]
    images = fetchers.WHATSUP_IMAGES["a"]
    published.publish_on_drive(
        server,
        {
            annotation.id: (folder / annotation.name).read_bytes(),
            images.id: published.tar_gz(folder / "controlled_images"),
        },
    )
    with pytest.raises(ChangedFile, match=r"expected sha256 77ee94ae.*allow changed files"):
        prepare(BENCHMARKS["whatsup_a"], root, options)
    assert (
        prepare(BENCHMARKS["whatsup_a"], root, replace(options, allow_changed=True)).groups == 412
    )


def test_an_archive_put_there_by_hand_stays(server, options, origin, root, monkeypatch):
    _, files = _publish_whatsup(server, origin, monkeypatch)
    images = fetchers.WHATSUP_IMAGES["a"]
    (root / "whatsup").mkdir(parents=True)
    (root / "whatsup" / images.name).write_bytes(files.pop(images.id))
    prepare(BENCHMARKS["whatsup_a"], root, options)
    assert (root / "whatsup" / images.name).exists()


def test_an_archive_of_something_else(server, options, origin, root, monkeypatch):
    folder, files = _publish_whatsup(server, origin, monkeypatch)
    (folder / "controlled_images").rename(folder / "other")
    files[fetchers.WHATSUP_IMAGES["a"].id] = published.tar_gz(folder / "other")
    with pytest.raises(InputError, match="no folder controlled_images"):
        prepare(BENCHMARKS["whatsup_a"], root, replace(options, allow_changed=True))


def test_a_hostile_archive_leaves_no_trace(server, options, origin, root, monkeypatch):
    from archives import tar_of

    _, files = _publish_whatsup(server, origin, monkeypatch)
    files[fetchers.WHATSUP_IMAGES["a"].id] = tar_of({"controlled_images/../../../evil": b"x"})
    with pytest.raises(InputError, match="may lie outside its folder"):
        prepare(BENCHMARKS["whatsup_a"], root, replace(options, allow_changed=True))
    assert not list(root.parent.rglob("evil"))
    assert not (root / "whatsup" / "controlled_images").exists()


def _page(server, body: str) -> None:
    html = {"Content-Type": "text/html; charset=utf-8"}
    server.routes["/drive/download"] = lambda _: Reply(body.encode(), headers=html)


FIELD = '<input type="hidden" name="id" value="1">'


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("", "a page that this version does not know"),
        ("<html><title>Google Drive - Quota exceeded</title></html>", "fetched too often today"),
        ("<html>You need access. Ask for it.</html>", "asks for a login"),
        ("<form action='/search'>" + FIELD + "</form>", "a page that this version does not know"),
        ("<form method='post' action='/drive/download'>" + FIELD + "</form>", "in a new way"),
        ("<form action='http://evil.example/download'>" + FIELD + "</form>", "in a new way"),
        ("<form action='file:///etc/download'></form>", "in a new way"),
        ("<form action='//evil.example/download'></form>", "in a new way"),
        ("<form action='http://[/download'></form>", "in a new way"),
        ("<!DOCTYPE [<![x", "a page that this version does not know"),
        ("<form " * 20_000, "a page that this version does not know"),
        ("<form action='/drive/download'>" + FIELD * 9999, "web page instead of the file"),
        ("<form action='/drive/download'></form>", "web page instead of the file"),
    ],
)
def test_pages_that_changed(server, options, root, page, message):
    _page(server, page)
    with pytest.raises(DownloadError, match=message) as caught:
        prepare(BENCHMARKS["whatsup_a"], root, options)
    assert "\n" not in str(caught.value)
    assert "https://drive.google.com/file/d/" in str(caught.value)  # what a person can do
    assert len(server.seen) <= 2


def test_forms_may_lead_from_one_host_of_google_to_another():
    page = "https://drive.google.com/uc?id=1"
    assert drive._may_lead_to(page, "https://drive.usercontent.google.com/download")
    assert drive._may_lead_to(page, "https://doc-0.googleusercontent.com/download")
    for other in (
        "https://google.com.evil.example/",
        "https://evilgoogle.com/",
        "http://google.com/",
    ):
        assert not drive._may_lead_to(page, other)
