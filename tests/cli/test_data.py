"""What the command says of files on the disk, and how it goes on after it was killed."""

import os
import signal
import subprocess
import sys
import threading
import time

import benchmark_layouts as layouts
import published
import pytest
from local_server import Reply, file_reply
from paths import TESTS

from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.data.download.prepare import find_benchmarks, find_problems, prepare
from ttm_jax.errors import InputError

server, options = published.server, published.options  # fixtures
origin, root = published.origin, published.root

REPO = TESTS.parent


def test_check_finds_every_kind_of_change(server, options, root):
    folder = layouts.write_mmvp(root)
    benchmark = BENCHMARKS["mmvp_vlm"]
    assert find_problems(benchmark, root, options) == [
        f"{folder / 'manifest.json'} does not exist: these files were never checked"
    ]
    prepare(benchmark, root, options)
    assert find_problems(benchmark, root, options) == []
    images = folder / "MLLM_VLM Images" / "Orientation"
    (images / "1.jpg").unlink()
    (images / "3.jpg").write_bytes(layouts.picture(4, "JPEG") + b"\0")
    data = bytearray((images / "5.jpg").read_bytes())
    data[-3] ^= 1  # the same size
    (images / "5.jpg").write_bytes(data)
    (images / "7.jpg").write_bytes(b"no picture")
    problems = find_problems(benchmark, root, options)
    assert len(problems) == 6
    assert f"{images / '1.jpg'} is gone" in problems
    assert any("3.jpg has" in line and "it had" in line for line in problems)
    assert any("5.jpg has changed" in line for line in problems)
    assert any(line.startswith("group '1-2': ") and "does not exist" in line for line in problems)
    assert any(line.startswith("group '7-8': ") and "Pillow" in line for line in problems)


def test_check_of_nothing(options, root):
    (line,) = find_problems(BENCHMARKS["mmvp_vlm"], root, options)
    assert line == f"{root / 'mmvp_vlm'} does not exist: nothing was prepared there"
    (root / "mmvp_vlm").mkdir(parents=True)
    (_, line) = find_problems(BENCHMARKS["mmvp_vlm"], root, options)
    assert "Questions.csv does not exist" in line


def test_a_manifest_of_the_future(server, options, root):
    folder = layouts.write_mmvp(root)
    (folder / "manifest.json").write_text('{"format": 2}')
    with pytest.raises(InputError, match="not a manifest that this version reads"):
        prepare(BENCHMARKS["mmvp_vlm"], root, options)


def test_only_one_command_at_a_time(server, options, root):
    fcntl = pytest.importorskip("fcntl")
    (root / "mmvp_vlm").mkdir(parents=True)
    with (root / "mmvp_vlm" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another `ttm data` is running"):
            prepare(BENCHMARKS["mmvp_vlm"], root, options)


def test_a_data_dir_that_cannot_be_written(options, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written: .*choose another folder"):
        prepare(BENCHMARKS["mmvp_vlm"], tmp_path / "file", options)


def test_names():
    assert [b.name for b in find_benchmarks(["mmvp_vlm", "mmvp_vlm"])] == ["mmvp_vlm"]
    assert len(find_benchmarks(["sugarcrepe"])) == 7
    assert len(find_benchmarks(["whatsup", "whatsup_a"])) == 6
    assert len(find_benchmarks(["sugarcrepe_pp"])) == 5
    assert len(find_benchmarks(["paper"])) == 16
    assert len(find_benchmarks(["all"])) == len(BENCHMARKS)
    with pytest.raises(
        InputError, match="no benchmark is called 'mmvp'; there are all, paper, winoground"
    ):
        find_benchmarks(["mmvp"])


def _command(server, root, *arguments):
    clean = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "HF_ENDPOINT")}
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "ttm_jax.cli.main", "data", *arguments),
            *("--data-dir", str(root), "--sources.hub", server.url),
        ],
        cwd=REPO,
        env={**clean, "HF_TOKEN": "hf_test", "NO_PROXY": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_command_that_is_killed_goes_on_when_it_is_called_again(server, origin, root):
    folder = layouts.write_winoground(origin).parent
    _, second = sorted((folder / "data").iterdir())
    published.publish_on_hub(server, folder, "winoground", token="hf_test")
    stuck = f"/datasets/facebook/winoground/resolve/{published.COMMIT}/data/{second.name}"
    whole, hold = second.read_bytes(), threading.Event()
    server.routes[stuck] = lambda _: Reply(whole, headers={"ETag": '"v1"'}, cut=5000, wait=hold)
    part = root / "winoground" / "data" / f"{second.name}.part"
    command = _command(server, root, "winoground")
    try:
        end = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size == 5000):
            assert command.poll() is None, command.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)
        command.send_signal(signal.SIGKILL)
        command.communicate()
    finally:
        hold.set()
        if command.poll() is None:
            command.kill()
    assert not (root / "winoground" / "manifest.json").exists()

    server.routes[stuck] = lambda request: file_reply(request, whole)
    again = _command(server, root, "winoground")
    out, error = again.communicate(timeout=60)
    assert again.returncode == 0, error
    assert server.asked(stuck)[-1]["range"] == "bytes=5000-"
    assert "winoground: 400 groups, 800 images in" in out
    assert published.tree_of(root / "winoground") == published.tree_of(folder)

    check = _command(server, root, "winoground", "--check")
    out, error = check.communicate(timeout=60)
    assert (check.returncode, error) == (0, "")
    assert "winoground: as it was when it came, 400 groups" in out


def test_one_that_fails_does_not_keep_the_others_from_coming(server, origin, root):
    published.publish_on_hub(server, layouts.write_mmvp(origin), "mmvp_vlm")
    folder = layouts.write_winoground(origin, 2).parent
    published.publish_on_hub(server, folder, "winoground", token="hf_other")
    command = _command(server, root, "winoground", "mmvp_vlm")
    out, error = command.communicate(timeout=60)
    assert command.returncode == 2
    assert "mmvp_vlm: 135 groups" in out
    lines = error.splitlines()
    assert lines[0].startswith("error: winoground: facebook/winoground is gated")
    assert lines[1] == "error: not complete, see above: winoground"
    assert len(lines) == 2


def test_variants_that_fail_for_the_same_reason_say_it_once(tmp_path):
    for flags in (("--check",), ("--sources.drive", "http://127.0.0.1:9")):
        lines = _run("whatsup", "--data-dir", str(tmp_path), *flags).stderr.splitlines()
        assert lines[0].startswith("error: whatsup_a: ")
        assert "the same" not in lines[0]
        assert lines[1].startswith("error: whatsup_b: the same as for whatsup_a; ")
        assert len(lines) == 6 + 1


def test_check_before_anything_was_downloaded_says_how_to(tmp_path):
    asked = _run("mmvp_vlm", "--check", "--data-dir", str(tmp_path))
    where = tmp_path / "mmvp_vlm"
    assert asked.stderr == f"error: mmvp_vlm: {where} does not exist; fetch it: ttm data mmvp_vlm\n"
    assert (asked.returncode, asked.stdout) == (2, "")


def _run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ttm_jax.cli.main", "data", *arguments],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_list():
    lines = _run("--list").stdout.splitlines()
    assert [line.split()[:4] for line in lines] == [
        [
            b.name + "*" * bool(b.unverified),
            *(str(b.groups or "?"), "of", "{}x{}".format(*b.shape)),
        ]
        for b in BENCHMARKS.values()
    ]
    alone = _run()  # what hints name is no error
    assert alone.returncode == 0
    assert alone.stdout.splitlines()[: len(lines)] == lines
    assert "`ttm data paper`" in alone.stdout


def test_one_line_and_exit_code_2_for_a_mistake():
    for arguments, message in ((("mmvp",), "error: no benchmark is called 'mmvp'; there are "),):
        done = _run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1


def test_help_needs_nothing_heavy():
    heavy = ("jax", "flax", "transformers", "pyarrow", "matplotlib", "huggingface_hub", "scipy")
    code = (
        f"import sys, ttm_jax.cli.data\nprint([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
