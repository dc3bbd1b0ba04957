"""A trace of some steps, with the stages of a run under their names."""

import gzip
import json

import jax
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.engine.ttm import run_ttm
from ttm_jax.runs.profile import Profile


def test_the_trace_names_the_stages(tmp_path):
    devices = jax.devices()[:1]
    run_ttm(tiny_model(), tiny_dataset(), CONFIG, tmp_path / "run", devices=devices, profile=1000)
    (trace,) = (tmp_path / "run" / "profile").rglob("perfetto_trace.json.gz")
    with gzip.open(trace, "rt") as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert {"score", "match", "train", "write", "save"} <= names
    assert list((tmp_path / "run" / "profile").rglob("*.xplane.pb"))  # for TensorBoard


def test_it_begins_when_all_is_compiled_and_ends_after_its_steps(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(jax.profiler, "start_trace", lambda *a, **k: calls.append("start"))
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: calls.append("stop"))
    profile = Profile(tmp_path, 5)
    profile.begin(1, 3)
    profile.steps(4)
    assert calls == []
    profile.begin(2, 3)
    profile.steps(4)
    assert calls == ["start"]
    profile.begin(3, 3)
    profile.steps(1)
    assert calls == ["start", "stop"]
    profile.begin(3, 3)
    profile.end()
    assert calls == ["start", "stop"]
    Profile(None, 5).begin(1, 1)
    Profile(tmp_path, 0).begin(1, 1)
    assert calls == ["start", "stop"]
