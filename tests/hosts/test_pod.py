"""Real processes as the hosts of a pod: they give what one process gives, or end together."""

import json
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from commands import models  # noqa: F401  (fixture)
from PIL import Image
from pod import Pod

from ttm_jax.data import world
from ttm_jax.data.folder_reader import write_folder
from ttm_jax.data.groups import Group

pytestmark = pytest.mark.long

KILLS = 20  # of the long test
BOUND = (
    60  # seconds until a host must have noticed that another one is gone; it takes less than one
)


def experiment(model: Path, folder: Path, *more: object) -> tuple[object, ...]:
    return (
        "mmvp_siglip", "--small", "--model", model, "--limit", 8, "--iterations", 3,
        "--epochs", 2, "--lr", 1e-3, "--seeds", 0, "--run-dir", folder, *more,
    )  # fmt: skip


def selected(run: Path) -> list[tuple]:
    """What was selected in every iteration, from the ledger."""
    lines = map(json.loads, (run / "ledger.jsonl").read_text().splitlines())
    return [(x["iteration"], x["group"], x["matching"], x["selected"]) for x in lines]


def assert_same_result(run: Path, other: Path) -> None:
    """The same groups selected, and the same scores up to rounding."""
    assert selected(run) == selected(other)
    names = sorted(path.name for path in (other / "scores").iterdir())
    assert sorted(path.name for path in (run / "scores").iterdir()) == names
    for name in names:
        with np.load(run / "scores" / name) as a, np.load(other / "scores" / name) as b:
            np.testing.assert_allclose(a["scores"], b["scores"], atol=1e-4)
    assert (run / "summary.json").exists()


@pytest.fixture(scope="module")
def alone(tmp_path_factory, models):  # noqa: F811
    """The run of one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    (ended,) = Pod(1, *experiment(models["siglip"], folder)).wait()
    assert ended.code == 0, ended.err
    return folder / "seed_0"


def test_two_hosts_give_the_result_of_one_and_one_of_them_speaks(tmp_path, models, alone):  # noqa: F811
    first, second = Pod(2, *experiment(models["siglip"], tmp_path / "run")).wait()
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert_same_result(tmp_path / "run" / "seed_0", alone)
    environment = json.loads((tmp_path / "run" / "seed_0" / "environment.json").read_text())
    assert environment["processes"] == 2
    assert len(environment["devices"]) == 4
    assert first.out.count("mmvp_siglip (Table 1)") == 1
    assert (second.out, second.err) == ("", "")


def test_a_run_of_one_process_is_resumed_by_four(tmp_path, models, alone):  # noqa: F811
    command = experiment(models["siglip"], tmp_path / "run")
    (ended,) = Pod(1, *command, fault={0: "checkpoints saved:2"}).wait()
    assert ended.code == -signal.SIGKILL
    hosts = Pod(4, *command).wait()
    assert [host.code for host in hosts] == [0, 0, 0, 0], hosts[0].err
    assert_same_result(tmp_path / "run" / "seed_0", alone)
    assert [host.err for host in hosts[1:]] == ["", "", ""]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_lost_host_ends_the_others_and_one_process_resumes(tmp_path, models, alone, victim):  # noqa: F811
    command = experiment(models["siglip"], tmp_path / "run")
    hosts = Pod(2, *command, fault={victim: "checkpoints saved:2"}).wait()
    assert hosts[victim].code == -signal.SIGKILL
    left = hosts[1 - victim]
    assert left.code == 1
    *_, last = left.err.strip().splitlines()
    assert f"error: host {victim} (" in last
    assert "is gone; rerun the same command to resume" in last
    assert "Traceback" not in left.err
    (ended,) = Pod(1, *command).wait()
    assert ended.code == 0, ended.err
    assert_same_result(tmp_path / "run" / "seed_0", alone)


def test_each_host_has_a_seed_of_its_own(tmp_path, models, alone):  # noqa: F811
    command = [*experiment(models["siglip"], tmp_path / "run"), "--one-per-host"]
    place = command.index("--seeds")
    command[place + 1 : place + 2] = [0, 1]
    first, second = Pod(2, *command).wait()
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert_same_result(tmp_path / "run" / "seed_0", alone)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["seeds"] == [0, 1]
    for seed in (0, 1):
        kept = json.loads((tmp_path / "run" / f"seed_{seed}" / "summary.json").read_text())
        assert kept["seed"] == seed
        percent = kept["final"]["group_match"]["percent"]
        assert summary["final"]["group_match"]["values"][seed] == percent


def own_groups(folder: Path) -> Path:
    dataset = world.make("color_swap", 6, size=32)
    (block,) = dataset.blocks
    groups = [
        Group(
            id=block.ids[row],
            images=tuple(dataset.images[i] for i in block.image_index[row]),
            captions=tuple(dataset.captions[i] for i in block.text_index[row]),
        )
        for row in range(6)
    ]
    write_folder(groups, folder)
    return folder


def adapt(model: Path, out: Path) -> tuple[object, ...]:
    return ("adapt", "--model", model, "--data", "data", "--iterations", 2, "--epochs", 2,
            "--lr", 1e-3, "--out", out)  # fmt: skip


def test_adapt_on_two_hosts(tmp_path, models):  # noqa: F811
    own_groups(tmp_path / "data")
    folders = [tmp_path, tmp_path]
    for name, hosts in (("one", 1), ("two", 2)):
        ended = Pod(hosts, *adapt(models["siglip"], tmp_path / name), folders=folders).wait()
        assert [host.code for host in ended] == [0] * hosts, ended[0].err
    assert_same_result(tmp_path / "two" / "run", tmp_path / "one" / "run")
    assert (ended[1].out, ended[1].err) == ("", "")
    lines = [(tmp_path / name / "matchings.csv").read_text() for name in ("one", "two")]
    pairs = [[line.split(",")[:3] for line in text.splitlines()] for text in lines]
    assert pairs[0] == pairs[1]
    assert sorted(x.name for x in (tmp_path / "two").iterdir()) == sorted(
        x.name for x in (tmp_path / "one").iterdir()
    )


def one_line(hosts: list) -> str:
    """All hosts refuse with exit code 2, and together they print one error."""
    assert [host.code for host in hosts] == [2] * len(hosts), [host.err for host in hosts]
    said = [line for host in hosts for line in host.err.splitlines() if "error:" in line]
    assert len(said) == 1, said
    assert not any("Traceback" in host.err for host in hosts)
    return said[0]


def test_other_arguments_on_one_host_stop_all(tmp_path, models):  # noqa: F811
    command = experiment(models["siglip"], tmp_path / "run")
    line = one_line(Pod(2, *command, more={1: ["--quiet"]}).wait())
    assert "host 1 has other arguments than host 0" in line
    assert "--quiet" in line
    assert not (tmp_path / "run").exists()


def test_other_pixels_on_one_host_stop_all(tmp_path, models):  # noqa: F811
    folders = [tmp_path / "a", tmp_path / "b"]
    own_groups(folders[0] / "data")
    shutil.copytree(folders[0] / "data", folders[1] / "data")
    picture = next((folders[1] / "data" / "images").iterdir())
    with Image.open(picture) as image:
        changed = image.convert("RGB")
    changed.putpixel((3, 3), (1, 2, 3))
    changed.save(picture)
    line = one_line(Pod(2, *adapt(models["siglip"], tmp_path / "out"), folders=folders).wait())
    assert "host 1 has other images or captions than host 0" in line
    assert not (tmp_path / "out" / "run" / "metrics.jsonl").exists()


def test_a_folder_that_is_not_shared_is_refused(tmp_path, models, monkeypatch):  # noqa: F811
    monkeypatch.setenv("TTM_JAX_HOSTS_TIMEOUT", "20")
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    command = experiment(models["siglip"], Path("run"))
    line = one_line(Pod(2, *command, folders=folders).wait())
    assert "host 1 does not see run/seed_0, where host 0 writes" in line


@pytest.mark.slow
def test_hosts_killed_at_random_moments(tmp_path, models, capsys):  # noqa: F811
    """None hangs, and no finished iteration is lost."""
    rng = random.Random(0)
    folder, done, kills, slowest = tmp_path / "run", 0, 0, 0.0
    command = list(experiment(models["siglip"], folder))
    command[command.index("--iterations") + 1] = 100  # more than are reached while hosts die
    metrics = folder / "seed_0" / "metrics.jsonl"
    while kills < KILLS:
        hosts = rng.choice([2, 2, 3, 4])
        # Who dies before all have met is missed for as long as hosts wait for each other.
        pod = Pod(hosts, *command, TTM_JAX_HOSTS_TIMEOUT="20")
        victim = rng.randrange(hosts)
        # After none, one or two more iterations: one kill in three is while they start.
        wanted = lines(metrics) + rng.randrange(3)
        deadline = time.monotonic() + 240
        while lines(metrics) < wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(rng.random())
        pod.processes[victim].kill()
        began = time.monotonic()
        ended = pod.wait(BOUND)
        slowest = max(slowest, time.monotonic() - began)
        kills += 1
        for host, found in enumerate(ended):
            assert found.code in ((-signal.SIGKILL,) if host == victim else (1, 2)), found.err
        said = [found.err for found in ended]
        assert any("is gone; rerun" in text or "were not found" in text for text in said), said
        kept = saved(folder / "seed_0" / "checkpoints")
        assert kept >= done - 1, "an iteration that had a checkpoint is gone"
        done = max(done, kept)
    (last,) = Pod(1, *command).wait()
    assert last.code == 0, last.err
    assert lines(metrics) == 101
    with capsys.disabled():
        print(f" {kills} kills, all ended within {slowest:.1f} s", end="")


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def saved(folder: Path) -> int:
    """The last iteration with a checkpoint."""
    return max((int(x.name) for x in folder.glob("*") if x.name.isdecimal()), default=0)
