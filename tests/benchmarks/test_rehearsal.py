"""The rehearsal itself, in the small: what is served, how it arrives, how commands are measured."""

import json
import math
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from benchmarks.rehearsal import data, models, processes, table, weights
from benchmarks.rehearsal.plan import REHEARSED
from benchmarks.rehearsal.server import TOKEN, Site, serving
from benchmarks.rehearsal.stage import Stage
from benchmarks.rehearsal.support import ROOT, smolvlm_files
from ttm_jax import load_model
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.download import hub
from ttm_jax.data.download.http import AccessDenied
from ttm_jax.data.download.options import Options
from ttm_jax.data.download.prepare import prepare
from ttm_jax.data.download.sources import Sources
from ttm_jax.data.paper.models import MODELS


def parameters(shapes: weights.Shapes) -> int:
    return sum(math.prod(s) for name, s in shapes.items() if not name.endswith("position_ids"))


def test_sizes_are_those_of_the_published_models(tmp_path):
    """Numbers of parameters as transformers counts them in the published checkpoints."""
    base, words = weights.Tower(768, 3072, 12), weights.Tower(512, 2048, 12)
    assert parameters(weights.siglip_shapes(base, 16, 196, 32000, 64)) == 203_155_970
    assert parameters(weights.clip_shapes(base, words, 512, 32, 49, 49408)) == 151_277_313
    assert parameters(weights.clip_shapes(base, words, 512, 16, 196, 49408)) == 149_620_737
    config = json.loads((smolvlm_files.unpack(tmp_path) / "config.json").read_text())
    assert parameters(weights.smolvlm_shapes(config)) == 256_484_928


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All five models and four of the sources, tiny."""
    origin = tmp_path_factory.mktemp("origin")
    site = Site()
    for name in MODELS:
        site.models[MODELS[name]] = models.make_hub(name, origin / name, tiny=True)
    stage = Stage("data", origin, quick=True)
    for source in ("winoground", "mmvp_vlm", "sugarcrepe", "whatsup"):
        data.make_source(source, origin / "origin", tiny=True)
        stage.publish(source, site)
    with serving(site):
        yield site


@pytest.mark.long
def test_the_models_come_from_the_hub_and_load(site, tmp_path):
    """In another process, because huggingface_hub reads its settings on import."""
    code = "import sys\nfrom ttm_jax.weights.hub import resolve\n"
    code += "for name in sys.argv[1:]: print(resolve(name))"
    env = {**os.environ, **site.environment(), "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    env["HF_HUB_OFFLINE"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", code, *MODELS.values()], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folders = dict(zip(MODELS, done.stdout.splitlines(), strict=True))
    loaded = {name: load_model(folder) for name, folder in folders.items()}  # strict about names
    assert {len(model.params) for model in loaded.values()} <= {2, 3, 4}
    assert not (Path(folders["clip_b32"]) / models.PICKLE).exists()
    assert done.stderr.count("using the hub's conversion, refs/pr/66") == 2, "both CLIPs"


@pytest.fixture
def online(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.mark.parametrize(
    "name", ["winoground", "mmvp_vlm", "sugarcrepe_swap_obj", "whatsup_b_left_right"]
)
def test_the_data_come_from_their_sites(site, online, name, tmp_path, monkeypatch):
    for variable, value in site.environment().items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(hub, "find_token", lambda endpoint: TOKEN)
    ready = prepare(BENCHMARKS[name], tmp_path, Options(Sources(), allow_changed=True))
    assert ready.groups == BENCHMARKS[name].groups
    assert ready.fetched > 1


def test_gated_data_need_the_token(site, online, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "find_token", lambda endpoint: None)
    with pytest.raises(AccessDenied, match="facebook/winoground is gated"):
        prepare(BENCHMARKS["winoground"], tmp_path, Options(Sources(hub=site.url)))


class TestProcesses:
    def test_time_and_peak_memory(self, tmp_path):
        """More than this process has used, which the kernel counts for its children too."""
        size = round(1.2 * processes.peak_gb(resource.getrusage(resource.RUSAGE_SELF)) * 2**30)
        words = ("python", "-c", f"print(len(b'x' * {size}))")
        done = processes.run(words, tmp_path, os.environ, tmp_path / "log")
        assert done.code == 0
        assert size / 2**30 < done.peak_gb < 1.5 * size / 2**30 + 0.1
        assert (tmp_path / "log").read_text().endswith(f"{size}\n")
        assert done.seconds > 0

    def test_killed_when_the_event_is_seen(self, tmp_path):
        code = "import pathlib, time; pathlib.Path('here').touch(); time.sleep(600)"
        done = processes.run(
            ("python", "-c", code), tmp_path, os.environ, tmp_path / "log",
            events={"here": (tmp_path / "here").exists}, kill_at="here",
        )  # fmt: skip
        assert done.code == -signal.SIGKILL
        assert done.events["here"] <= done.seconds


def test_the_table():
    row = table.Row("clip_b32", "ttm inspect x", "done", 12.3, 4.567, disk_gb=1.5, disk="runs/x")
    text = table.markdown([row, row], "2 cores")
    assert text.count("### clip_b32") == 1
    assert "| `ttm inspect x` | done | 12 |  | 4.57 | 1.50 (runs/x) |" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REHEARSED))
def test_a_whole_rehearsal(name, tmp_path, monkeypatch):
    """Every command of a tiny model, with the kill and the resumption."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    rows = Stage(name, tmp_path, quick=True).rehearse()
    assert [row.result for row in rows].count("killed") == 1
    assert all(row.seconds > 0 and row.peak_gb > 0 for row in rows)
