"""Folders in a bucket: in the memory of this process, and in an emulator that processes share."""

import io
import json
import signal
from pathlib import Path

import fsspec
import numpy as np
import pytest
from bucket import Bucket, bucket  # noqa: F401  (fixture)
from commands import models  # noqa: F401  (fixture)
from hypothesis import given
from hypothesis import strategies as st
from pod import Pod

from ttm_jax import bucket_storage
from ttm_jax.errors import InputError


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """memory://bucket, empty; and no working folders from before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(bucket_storage, "_copies", {})
    system = fsspec.filesystem("memory")
    if system.exists("/bucket"):
        system.rm("/bucket", recursive=True)
    return system


def names(system) -> list[str]:
    return sorted(system.find("/bucket")) if system.exists("/bucket") else []


def test_a_path_is_local_or_an_address():
    for text in ("runs/mine", "/runs/a", ".", "C:/runs", "a:b", "gs:", "photos/gs:/x"):
        assert not bucket_storage.is_address(text)
        assert bucket_storage.working_folder(Path(text)) == Path(text)
        assert bucket_storage.fetched(text) == Path(text)
    assert not bucket_storage.is_address("gs:/bucket/x")  # only a Path loses the second slash
    assert bucket_storage.address_of(Path("gs://bucket/runs/mine")) == "gs://bucket/runs/mine"
    assert bucket_storage.address_of("s3://bucket/runs/") == "s3://bucket/runs"


def test_what_is_written_is_sent_and_what_is_removed_is_removed(memory):
    memory.pipe({"/bucket/run/old.json": b"1", "/bucket/run/checkpoints/3/x": b"big"})
    folder = bucket_storage.working_folder(Path("memory://bucket/run"))
    assert bucket_storage.working_folder(Path("memory://bucket/run")) == folder
    assert [path.name for path in folder.iterdir()] == ["old.json"]  # checkpoints stay there
    (folder / "seed_0").mkdir()
    (folder / "seed_0" / "metrics.jsonl").write_text("a\n")
    (folder / "old.json").unlink()
    (folder / ".lock").write_text("me")
    bucket_storage.push()
    kept = ["/bucket/run/checkpoints/3/x", "/bucket/run/seed_0/metrics.jsonl"]
    assert names(memory) == kept
    with (folder / "seed_0" / "metrics.jsonl").open("a") as file:
        file.write("b\n")
    bucket_storage.push()
    assert memory.cat("/bucket/run/seed_0/metrics.jsonl") == b"a\nb\n"
    assert bucket_storage.shown(folder / "seed_0") == "memory://bucket/run/seed_0"
    assert bucket_storage.stored_at(folder.parent) is None
    memory.pipe("/bucket/run/seed_0/metrics.jsonl", b"from another host")
    bucket_storage.pull()
    assert (folder / "seed_0" / "metrics.jsonl").read_bytes() == b"from another host"


def test_the_summary_comes_last(memory, monkeypatch):
    folder = bucket_storage.working_folder(Path("memory://bucket/run"))
    for name in ("a.json", "summary.json", "z.json"):
        (folder / name).write_text("{}")
    sent = []
    original = type(memory).pipe_file

    def pipe_file(self, path, value, **more):
        sent.append(path.rsplit("/", 1)[-1])
        return original(self, path, value, **more)

    monkeypatch.setattr(type(memory), "pipe_file", pipe_file)
    bucket_storage.push()
    assert sent[-1] == "summary.json"
    assert sorted(sent) == ["a.json", "summary.json", "z.json"]


def test_data_is_downloaded_once_and_again_when_it_changed(memory, monkeypatch):
    memory.pipe({"/bucket/data/images/a.png": b"png", "/bucket/data/captions.txt": b"a cat"})
    here = bucket_storage.fetched("memory://bucket/data")
    assert here.name == "data"
    assert (here / "images" / "a.png").read_bytes() == b"png"
    monkeypatch.setattr(bucket_storage, "_download", None)  # a second download would fail
    assert bucket_storage.fetched("memory://bucket/data") == here
    monkeypatch.undo()
    memory.pipe("/bucket/data/captions.txt", b"a cat and a dog")
    assert (bucket_storage.fetched("memory://bucket/data") / "captions.txt").read_text() == (
        "a cat and a dog"
    )
    file = bucket_storage.fetched("memory://bucket/data/captions.txt")
    assert (file.name, file.read_text()) == ("captions.txt", "a cat and a dog")


@given(st.lists(st.sampled_from(["..", "a", "..b", "c"]), min_size=1, max_size=4))
def test_no_name_in_a_bucket_leads_out_of_the_folder(parts):
    name = "/".join(parts)
    inside = Path("/folder").joinpath(name)
    leads_out = ".." in inside.parts
    assert bucket_storage._is_inside(name) == (not leads_out)


def test_what_cannot_be_opened_is_one_line(memory):
    with pytest.raises(InputError, match="nosuch://a/b cannot be opened: "):
        bucket_storage.working_folder(Path("nosuch://a/b"))
    with pytest.raises(InputError, match="memory://bucket/none does not exist"):
        bucket_storage.fetched("memory://bucket/none")


def experiment(model: Path, run_dir: str) -> tuple[object, ...]:
    return ("mmvp_siglip", "--small", "--model", model, "--limit", 8, "--iterations", 2,
            "--epochs", 2, "--lr", 1e-3, "--seeds", 0, "--run-dir", run_dir)  # fmt: skip


def test_two_hosts_and_a_bucket(tmp_path, models, bucket: Bucket):  # noqa: F811
    """A run in a bucket is killed, resumed by another number of hosts, and equal to a local one."""
    local = tmp_path / "local"
    (ended,) = Pod(1, *experiment(models["siglip"], str(local))).wait()
    assert ended.code == 0, ended.err
    command = experiment(models["siglip"], f"{bucket.url}/runs/two")
    killed = {0: "checkpoints saved:2"}
    first, second = Pod(2, *command, fault=killed, **bucket.variables).wait()
    assert (first.code, second.code) == (-signal.SIGKILL, 1), second.err
    (ended,) = Pod(1, *command, **bucket.variables).wait()
    assert ended.code == 0, ended.err
    assert "gs://bucket/runs/two" in ended.out
    there = {name.removeprefix("runs/two/") for name in bucket.names("runs/two/")}
    here = {str(path.relative_to(local)) for path in local.rglob("*") if path.is_file()}
    kept = {name for name in here if "checkpoints" not in name and ".lock" not in name}
    assert {name for name in there if "checkpoints" not in name} == kept
    for iteration in range(3):
        name = f"seed_0/scores/{iteration:03d}_2x2.npz"
        kept_there = io.BytesIO(bucket.read(f"runs/two/{name}"))
        with np.load(kept_there) as a, np.load(local / name) as b:
            np.testing.assert_allclose(a["scores"], b["scores"], atol=1e-4)
    summary = json.loads(bucket.read("runs/two/seed_0/summary.json"))
    assert summary["iterations"] == 2
