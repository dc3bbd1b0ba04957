"""The commands end to end: files and table, kill and resume, two processes, no key anywhere."""

import base64
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from chat_server import ChatServer, Request, Response, answer, completion, error
from paths import TESTS
from PIL import Image

from experiments import _gpt
from ttm_jax.cli.evaluate import evaluate
from ttm_jax.data.benchmarks import catalogue
from ttm_jax.data.folder_reader import read_folder
from ttm_jax.data.score_files.read import read_score_file
from ttm_jax.errors import InputError
from ttm_jax.scorers.api.cache import ResponseCache

pytest.importorskip("openai")

KEY = "sk-test-4b7Qw9ZxL0pR2mN8vT6y"
ROOT = TESTS.parent
GROUPS = 6


@pytest.fixture
def data(tmp_path):
    """Groups of a red and a blue square; a caption names one of them."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = []
    for g in range(GROUPS):
        for name, colour in (("red", (200 + g, 0, 0)), ("blue", (0, 0, 200 + g))):
            Image.new("RGB", (32, 32), colour).save(folder / f"{name}_{g}.png")
        group = {
            "id": g,
            "images": [f"red_{g}.png", f"blue_{g}.png"],
            "captions": [f"a red square, number {g}", f"a blue square, number {g}"],
            "truth": [0, 1],
            "tags": ["even"] if g % 2 == 0 else [],
        }
        lines.append(json.dumps(group))
    (folder / "groups.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def colour_of(request: Request) -> str:
    data = base64.b64decode(request.image_url.partition(",")[2])
    from io import BytesIO

    red, _, blue = Image.open(BytesIO(data)).getpixel((0, 0))
    return "red" if red > blue else "blue"


def sees(request: Request) -> Response:
    """Sees the colour, but prefers every red image in groups 0 and 1."""
    right = f"a {colour_of(request)} square" in request.prompt
    number = int(request.prompt.partition("number ")[2].partition('"')[0])
    if number < 2:
        return answer({"red": 0.9, "blue": 0.1}[colour_of(request)] + (0.02 if right else 0.0))
    return answer(0.8 if right else 0.3)


def arguments(server: ChatServer, tmp_path: Path, data: Path, *more: str) -> list[str]:
    return [
        "--data", str(data), "--base-url", server.url, "--model", "some-model",
        "--out", str(tmp_path / "run"), "--cache", str(tmp_path / "answers.sqlite"),
        "--key-env", "SOME_KEY", "--backoff", "0.01", "--longest-backoff", "0.05", *more,
    ]  # fmt: skip


def start(
    server: ChatServer, tmp_path: Path, data: Path, *more: str, **env: str
) -> subprocess.Popen:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "experiments.colorswap_gpt",
            *arguments(server, tmp_path, data, *more),
        ],
        cwd=ROOT,
        env=os.environ | {"SOME_KEY": KEY, "NO_PROXY": "127.0.0.1"} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def call(monkeypatch, server: ChatServer, tmp_path: Path, data: Path, *more: str) -> None:
    """The command in this process."""
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setattr(sys, "argv", ["gpt", *arguments(server, tmp_path, data, *more)])
    _gpt.main("winoground", "winoground_gpt", "about")


def rows(tmp_path: Path) -> int:
    try:
        with sqlite3.connect(tmp_path / "answers.sqlite") as db:
            return db.execute("SELECT COUNT(*) FROM responses").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0
    finally:
        if "db" in locals():
            db.close()


def wait_until(condition, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=50)
    return process.returncode, out.decode(), err.decode()


# Output of a run.


def test_four_runs_and_their_output(monkeypatch, tmp_path, data, capsys):
    with ChatServer(sees) as server:
        call(monkeypatch, server, tmp_path, data, "--price-input", "2", "--price-output", "8")
        assert set(server.received.values()) == {4}
        assert server.received.total() == GROUPS * 4 * 4
        printed = capsys.readouterr().out
        call(monkeypatch, server, tmp_path, data, "--price-input", "2", "--price-output", "8")
        assert server.received.total() == GROUPS * 4 * 4, "the second time costs nothing"
    assert "4/6, 4/6, 4/6, 4/6" in printed
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    group_score, simple_match = (
        summary["results"]["group_score"],
        summary["results"]["simple_match"],
    )
    assert group_score["mean"] == pytest.approx(100 * 4 / 6)
    assert group_score["std"] == 0
    assert simple_match["mean"] == 100
    assert (group_score["paper"], simple_match["paper"]) == (None, None)
    assert summary["served_models"] == {"served-model-2025-01-01": 96}
    assert summary["tokens"] == {"input": 96_000, "cached": 0, "output": 96}
    assert summary["cost_usd"] == pytest.approx(0.096 * 2 + 96e-6 * 8)
    assert summary["runs"][0]["answers"] == {"yes": 24}
    found = read_score_file(tmp_path / "run" / "scores" / "run_4.npz")
    np.testing.assert_allclose(found.scores[2], [[0.8, 0.3], [0.3, 0.8]], rtol=1e-12)
    np.testing.assert_allclose(found.scores[0], [[0.92, 0.9], [0.1, 0.12]], rtol=1e-12)
    np.testing.assert_array_equal(found.truth, [[0, 1]] * GROUPS)
    assert found.tags == (("even",), ()) * 3


def test_evaluate_reads_the_score_files(monkeypatch, tmp_path, data, capsys):
    with ChatServer(sees) as server:
        call(monkeypatch, server, tmp_path, data, "--runs", "1")
    capsys.readouterr()
    evaluate(tmp_path / "run" / "scores" / "run_1.npz", json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["metrics"]["group_score"]["count"] == 4
    assert report["metrics"]["group_match"]["count"] == 6


def test_mean_and_sample_deviation_over_runs_that_differ(monkeypatch, tmp_path, data):
    """In run n the first n - 1 groups are seen wrongly."""
    seen: dict[str, int] = {}

    def script(request: Request) -> Response:
        seen[request.content] = seen.get(request.content, 0) + 1
        number = int(request.prompt.partition("number ")[2].partition('"')[0])
        right = f"a {colour_of(request)} square" in request.prompt
        return answer(0.8 if right != (number < seen[request.content] - 1) else 0.3)

    with ChatServer(script) as server:
        call(monkeypatch, server, tmp_path, data, "--concurrency", "1")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    counts = [run["metrics"]["group_score"]["count"] for run in summary["runs"]]
    assert counts == [6, 5, 4, 3]
    percents = [100 * count / 6 for count in counts]
    result = summary["results"]["group_score"]
    assert result["values"] == pytest.approx(percents)
    assert result["mean"] == pytest.approx(75.0)
    assert result["std"] == pytest.approx(np.std(percents, ddof=1))
    assert result["population_std"] == pytest.approx(np.std(percents))


def test_the_paper_s_numbers_are_shown_for_the_whole_benchmark_only(
    monkeypatch, tmp_path, data, capsys
):
    dataset = read_folder(data)
    loaded = catalogue.LoadedBenchmark(
        catalogue.find_benchmark("winoground"), dataset, GROUPS, (), "published", exif=False
    )
    monkeypatch.setattr(catalogue, "load_benchmark", lambda *args, **rest: loaded)
    monkeypatch.setenv("SOME_KEY", KEY)
    with ChatServer(sees) as server:
        there = arguments(server, tmp_path, data, "--runs", "2")[2:]  # without --data
        monkeypatch.setattr(sys, "argv", ["gpt", *there])
        _gpt.main("winoground", "winoground_gpt", None)
        whole = capsys.readouterr().out
        monkeypatch.setattr(
            sys, "argv", ["gpt", *there, "--groups", "2", "--out", str(tmp_path / "2")]
        )
        _gpt.main("winoground", "winoground_gpt", None)
        part = capsys.readouterr().out
    assert "69.75 ± 0.56   within one group in one run (-3.08)" in whole
    assert "91.38 ± 0.80   off by +8.62 (10.8 standard deviations)" in whole
    assert "66.67 ± 0.00" in whole
    assert "divides by the number of runs, n, as the paper's does" in whole
    assert "69.75" not in part, "the paper's numbers are not for two groups"
    assert "verdict" not in part


def test_missing_answers_fail_at_the_end_and_cost_nothing_to_resolve(monkeypatch, tmp_path, data):
    def script(request: Request) -> Response:
        if "a red square, number 3" in request.prompt:
            return Response(body=json.dumps(completion([("Perhaps", -0.1)])))
        return sees(request)

    with ChatServer(script) as server:
        with pytest.raises(InputError, match=r"4 of 48 answers .* --neither zero .*unanswered"):
            call(monkeypatch, server, tmp_path, data, "--runs", "2")
        sent = server.received.total()
        assert sent == 48
        assert not list((tmp_path / "run").glob("scores/*"))
        lines = (tmp_path / "run" / "unanswered.jsonl").read_text().splitlines()
        listed = [json.loads(line) for line in lines]
        assert [entry["groups"] for entry in listed] == [["3"]] * 4
        assert listed[0]["likeliest"] == [["Perhaps", -0.1]]
        call(monkeypatch, server, tmp_path, data, "--runs", "2", "--neither", "zero")
        zero = json.loads((tmp_path / "run" / "summary.json").read_text())
        call(monkeypatch, server, tmp_path, data, "--runs", "2", "--neither", "drop")
        drop = json.loads((tmp_path / "run" / "summary.json").read_text())
        assert server.received.total() == sent
        with pytest.raises(InputError, match="--neither zero"):
            call(monkeypatch, server, tmp_path, data, "--runs", "2")
        assert not (tmp_path / "run" / "summary.json").exists(), "it was made with another choice"
        call(monkeypatch, server, tmp_path, data, "--runs", "1", "--neither", "drop")
        assert server.received.total() == sent
        written = [path.name for path in (tmp_path / "run" / "scores").iterdir()]
        assert written == ["run_1.npz"]
    assert zero["runs"][0]["answers"] == {"yes": 22, "neither": 2}
    assert zero["runs"][0]["metrics"]["group_score"]["of"] == 6
    assert drop["runs"][0]["metrics"]["group_score"]["of"] == 5
    assert read_score_file(tmp_path / "run" / "scores" / "run_1.npz").scores.shape == (5, 2, 2)


def test_dry_run_estimates_and_writes_nothing(monkeypatch, tmp_path, data, capsys):
    with ChatServer(sees) as server:
        more = ("--dry-run", "--price-input", "2", "--price-output", "8",
                "--requests-per-minute", "48")  # fmt: skip
        call(monkeypatch, server, tmp_path, data, *more)
        assert server.received.total() == 0
    printed = capsys.readouterr().out
    assert "requests: 96, of which 0 are answered and 96 would be sent" in printed
    assert "cost (estimate): $0.0" in printed
    assert "at least 2.0 minutes" in printed
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data"]


def test_dry_run_needs_no_key_and_knows_what_is_answered(monkeypatch, tmp_path, data, capsys):
    with ChatServer(sees) as server:
        call(monkeypatch, server, tmp_path, data, "--runs", "1")
        monkeypatch.delenv("SOME_KEY")
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["gpt", *arguments(server, tmp_path, data, "--dry-run")])
        _gpt.main("winoground", "winoground_gpt", "about")
    assert "requests: 96, of which 24 are answered and 72 would be sent" in capsys.readouterr().out


def test_other_settings_do_not_overwrite_a_run_folder(monkeypatch, tmp_path, data):
    with ChatServer(sees) as server:
        call(monkeypatch, server, tmp_path, data, "--runs", "1")
        before = (tmp_path / "run" / "summary.json").read_bytes()
        with pytest.raises(InputError, match=r"holds another run.*question\.detail: auto -> low"):
            call(monkeypatch, server, tmp_path, data, "--runs", "1", "--detail", "low")
        assert server.received.total() == 24
    assert (tmp_path / "run" / "summary.json").read_bytes() == before


def test_small_runs_on_drawn_pictures(monkeypatch, tmp_path, data, capsys):
    monkeypatch.setenv("SOME_KEY", KEY)
    with ChatServer() as server:
        rest = arguments(server, tmp_path, data, "--small", "--runs", "1")[2:]
        monkeypatch.setattr(sys, "argv", ["gpt", *rest])
        _gpt.main("mmvp_vlm", "mmvp_gpt", None)
        assert server.received.total() == 24
    assert "world-color_swap-test, some-model, runs: 1" in capsys.readouterr().out


# Processes.


def test_a_killed_command_resumes_without_repeating_answered_requests(tmp_path, data):
    """The server answers about 10 requests and hangs on the rest; then the process is killed."""

    def stalls(request: Request) -> Response:
        return sees(request) if server.answered.total() < 10 else Response(hang=True)

    with ChatServer(stalls) as server:
        process = start(server, tmp_path, data, "--concurrency", "4", "--runs", "1")
        wait_until(lambda: server.at_once == 4 and rows(tmp_path) == server.answered.total() >= 10)
        process.kill()
        assert finish(process)[0] == -signal.SIGKILL
        kept = rows(tmp_path)
        assert 10 <= kept < 24
        assert not (tmp_path / "run" / "summary.json").exists()
        server.script = sees
        code, out, err = finish(start(server, tmp_path, data, "--concurrency", "4", "--runs", "1"))
        assert code == 0, err
        assert f"sent now: {24 - kept} requests" in out
        assert set(server.answered.values()) == {1}, "nothing was answered twice"
        assert server.answered.total() == 24
    assert "4/6" in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["tokens_lost"]["output"] == 4, "requests in flight may have been billed"


def test_sigterm_lets_requests_in_flight_finish(tmp_path, data):
    slowly = lambda r: Response(body=sees(r).body, gate=lambda: time.sleep(0.15))  # noqa: E731
    with ChatServer(slowly) as server:
        process = start(server, tmp_path, data, "--concurrency", "2")
        wait_until(lambda: server.answered.total() >= 3)
        process.send_signal(signal.SIGTERM)
        code, _, err = finish(process)
        assert code == 128 + signal.SIGTERM
        assert "stopped by SIGTERM" in err
        assert "rerun the same command to resume" in err
        assert rows(tmp_path) == server.answered.total() == server.received.total() < 96


_FETCH = """
import sys
from pathlib import Path
from ttm_jax.data.folder_reader import read_folder
from ttm_jax.scorers.api import RateLimits, RequestSettings, fetch_replies, make_plan
from ttm_jax.scorers.api import read_api_key, read_run

data, url, cache = sys.argv[1:]
plan = make_plan(read_folder(data), RequestSettings(model="some-model", base_url=url))
key = read_api_key("SOME_KEY")
replies = fetch_replies(plan, Path(cache), key, rates=RateLimits(concurrency=4))
print(replies.sent, read_run(replies, 1).kinds["yes"], replies.used.input)
"""


def test_two_processes_share_the_work(tmp_path, data):
    slowly = lambda r: Response(body=sees(r).body, gate=lambda: time.sleep(0.05))  # noqa: E731
    with ChatServer(slowly) as server:
        command = [sys.executable, "-c", _FETCH, data, server.url, tmp_path / "answers.sqlite"]
        env = os.environ | {"SOME_KEY": KEY, "NO_PROXY": "127.0.0.1"}
        both = [
            subprocess.Popen(
                command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for _ in range(2)
        ]
        results = [finish(process) for process in both]
        assert [code for code, _, _ in results] == [0, 0], results
        assert set(server.received.values()) == {1}, "nothing was sent by both"
        assert server.received.total() == 24
    sent, answered, tokens = zip(*(map(int, out.split()) for _, out, _ in results), strict=True)
    assert sum(sent) == 24
    assert answered == (24, 24)
    assert tokens == (24_000, 24_000)


def hostile(request: Request) -> Response:
    """Repeats the key wherever it can."""
    if request.times == 1 and request.number % 3 == 0:
        return error(500, f"Your key {KEY} is fine, but I am not", x_request_id=KEY)
    if request.times == 1 and request.number % 3 == 1:
        return Response(body=f'{{"you sent": "Bearer {KEY}')
    top = [(KEY, -0.5), ("Yes", -1.0)]
    if "a blue square, number 5" in request.prompt:
        message = {"content": None, "refusal": f"Not with {KEY}"}
        return Response(body=json.dumps(completion(None, choice={"message": message})))
    body = completion(top, model=KEY, system_fingerprint=f"fp-{KEY}")
    return Response(body=json.dumps(body), headers={"x-key": KEY, "set-cookie": f"key={KEY}"})


@pytest.mark.parametrize("then", ["finishes", "is refused"])
def test_the_key_appears_nowhere(tmp_path, data, then):
    def script(request: Request) -> Response:
        if then == "is refused" and request.number > 30:
            return error(403, f"No model for {KEY[:12]}...{KEY[-8:]}")
        return hostile(request)

    with ChatServer(script) as server:
        more = ("--runs", "1", "--neither", "zero")
        code, out, err = finish(start(server, tmp_path, data, *more, OPENAI_LOG="debug"))
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert code == {"finishes": 0, "is refused": 2}[then], err
    if then == "is refused":
        assert "answers 403: No model for [key]...[key]; the key may not use this model" in err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"answers.sqlite", "config.json", "environment.json"} <= {path.name for path in files}
    everything = b"\n".join([out.encode(), err.encode(), *(path.read_bytes() for path in files)])
    for start_ in range(len(KEY) - 7):
        assert KEY[start_ : start_ + 8].encode() not in everything
    for form in (base64.b64encode(KEY.encode())[:-4], KEY.encode().hex().encode(), b"Bearer sk"):
        assert form not in everything


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_server_s_error_cannot_control_the_terminal(tmp_path, data):
    import pty

    hostile_text = "\x1b]0;title\x07 \x1b[2J [/red] [bold]\nerror: forged"
    screen, terminal = pty.openpty()
    with ChatServer(lambda request: error(403, hostile_text)) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "experiments.colorswap_gpt",
             *arguments(server, tmp_path, data, "--runs", "1")],
            cwd=ROOT,
            env=os.environ | {"SOME_KEY": KEY, "NO_PROXY": "127.0.0.1", "TERM": "xterm"},
            stdout=terminal,
            stderr=terminal,
        )  # fmt: skip
        os.close(terminal)
        shown = b""
        try:
            while piece := os.read(screen, 2**16):
                shown += piece
        except OSError:  # Linux reports the end of a pseudo-terminal as an error
            pass
        os.close(screen)
        assert process.wait(50) == 2
    assert b"\x1b]0;" not in shown
    assert b"\x1b[2J" not in shown
    last = shown.decode().rstrip().splitlines()[-1]
    assert "error: http://127.0.0.1" in last
    assert r"answers 403: \x1b]0;title\x07 \x1b[2J [/red] [bold] error: forged" in last


# The command line.


def run_command(*arguments: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "experiments.mmvp_gpt", *arguments],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"} | env,
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['mmvp_gpt', '--help']\n"
        "import runpy\n"
        "try: runpy.run_module('experiments.mmvp_gpt', run_name='__main__')\n"
        "except SystemExit as stop: print('code', stop.code)\n"
        "heavy = {'jax', 'openai', 'matplotlib', 'transformers'}\n"
        "print('heavy', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "--budget" in done.stdout
    assert "code 0" in done.stdout
    assert "heavy []" in done.stdout, done.stdout[-300:]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--prompt", "Is it there?"), "no place for the caption"),
        (("--budget", "5"), "--price-input"),
        (("--base-url", "localhost:8000"), "not an http"),
        (("--groups", "0"), "--groups is 0"),
        (("--runs", "0"), "--runs is 0"),
        (("--key-env", KEY), "NAME of an environment variable"),
        (("--key-env", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE is not set"),
        (("--small",), "give one of them"),
        (("--model", KEY), "--model contains what looks like an API key"),
        (("--base-url", f"https://user:{KEY}@host/v1"), "a password"),
        (
            ("--base-url", f"https://host/{KEY}/v1"),
            "--base-url contains what looks like an API key",
        ),
        (("--base-url", "ftp://host/v1"), "--base-url is not an http"),
        (("--base-url", "http://ho st/v1"), "--base-url is not an http"),
        (("--base-url", "http:///v1"), "--base-url is not an http"),
        (("--budget", "nan", "--price-input", "1", "--price-output", "1"), "--budget is nan"),
        (("--budget", "inf", "--price-input", "1", "--price-output", "1"), "--budget is inf"),
        (("--budget", "0", "--price-input", "1", "--price-output", "1"), "--budget is 0.0"),
        (("--budget", "-5", "--price-input", "1", "--price-output", "1"), "--budget is -5.0"),
        (("--budget", "nan", "--dry-run"), "--budget is nan"),
        (("--price-input", "nan", "--price-output", "1"), "--price-input is nan"),
        (("--price-input", "1", "--price-output", "1e99"), "--price-output is 1e+99"),
        (("--concurrency", "0"), "--concurrency is 0"),
        (("--concurrency", "1000000000"), "--concurrency is 1000000000"),
        (("--timeout", "inf"), "--timeout is inf"),
        (("--timeout", "0"), "--timeout is 0.0"),
        (("--backoff", "nan"), "--backoff is nan"),
        (("--requests-per-minute", "0"), "--requests-per-minute is 0.0"),
        (("--tokens-per-minute", "1e-300"), "--tokens-per-minute is 1e-300"),
        (("--retries", "-1"), "--retries is -1"),
        (("--runs", "1000000000"), "--runs is 1000000000"),
        (("--tokens-per-image", "0"), "--tokens-per-image is 0"),
        (("--top-logprobs", "0"), "--top-logprobs is 0"),
        (("--max-image-size", "0"), "--max-image-size is 0"),
    ],
)
def test_mistakes_are_one_line(monkeypatch, tmp_path, data, capsys, more, says):
    from ttm_jax.cli.exit_codes import run

    monkeypatch.setenv("SOME_KEY", KEY)
    with ChatServer() as server:
        monkeypatch.setattr(sys, "argv", ["gpt", *arguments(server, tmp_path, data, *more)])
        with pytest.raises(SystemExit) as stop:
            run(lambda: _gpt.main("mmvp_vlm", "mmvp_gpt", None))
        assert server.received.total() == 0
    shown = capsys.readouterr().err
    assert stop.value.code == 2
    assert says in shown
    assert shown.startswith("error: ")
    assert shown.count("\n") == 1, "one line"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"], "nothing was written"
    assert "Traceback" not in shown
    assert KEY not in shown


def damaged_caches(path: Path) -> dict[str, str]:
    """Files that are no caches, by name, and what the command says about them."""
    (path / "notes.txt").write_text("not a database, " * 100)
    with closing(sqlite3.connect(path / "photos.db")) as db:
        db.execute("CREATE TABLE photos (name TEXT)")
    with ResponseCache(path / "newer.sqlite") as cache:
        cache._db.execute("PRAGMA user_version = 99")
    with ResponseCache(path / "missing.sqlite") as cache:
        cache._db.execute("DROP TABLE claims")
    return {
        "notes.txt": "file is not a database",
        "photos.db": "it belongs to another program",
        "newer.sqlite": "it has version 99",
        "missing.sqlite": "it has no table claims",
    }


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_damaged_cache_is_one_line_and_not_changed(monkeypatch, tmp_path, data, capsys, more):
    from ttm_jax.cli.exit_codes import run

    monkeypatch.setenv("SOME_KEY", KEY)
    for name, says in damaged_caches(tmp_path).items():
        file = tmp_path / name
        before = file.read_bytes()
        with ChatServer(sees) as server:
            flags = arguments(server, tmp_path, data, "--cache", str(file), *more)
            monkeypatch.setattr(sys, "argv", ["gpt", *flags])
            with pytest.raises(SystemExit) as stop:
                run(lambda: _gpt.main("mmvp_vlm", "mmvp_gpt", None))
            assert server.received.total() == 0
        shown = capsys.readouterr().err
        assert stop.value.code == 2
        assert shown.startswith(f"error: {file} cannot be used as a response cache ({says}")
        assert shown.count("\n") == 1
        assert file.read_bytes() == before
        (tmp_path / "run" / "config.json").unlink(missing_ok=True)


def test_a_damaged_answer_is_one_line_and_nothing_is_sent(monkeypatch, tmp_path, data, capsys):
    from ttm_jax.cli.exit_codes import run

    with ChatServer(sees) as server:
        call(monkeypatch, server, tmp_path, data, "--runs", "1")
        with closing(sqlite3.connect(tmp_path / "answers.sqlite", isolation_level=None)) as db:
            change = "UPDATE responses SET reply = replace(reply, '-', '') WHERE rowid = 3"
            db.execute(change)  # the log-probabilities become positive
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = (tmp_path / "answers.sqlite").read_bytes()
        flags = arguments(server, tmp_path, data, "--runs", "1")
        monkeypatch.setattr(sys, "argv", ["gpt", *flags])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            run(lambda: _gpt.main("winoground", "winoground_gpt", None))
        assert server.received.total() == 24, "all of it was sent before"
    shown = capsys.readouterr().err
    assert stop.value.code == 2
    assert "is damaged (a log-probability of" in shown
    assert shown.count("\n") == 1
    assert (tmp_path / "answers.sqlite").read_bytes() == before


def test_without_the_openai_package(tmp_path, data):
    """The extra is not installed: one line says how to install it, and nothing is sent."""
    missing = tmp_path / "path" / "openai"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ImportError('not here')")
    with ChatServer() as server:
        done = run_command(
            *arguments(server, tmp_path, data), SOME_KEY=KEY, PYTHONPATH=str(missing.parent)
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "error: models behind an API need the openai package: pip install openai (the extra `api`)"
    )


def test_the_key_itself_in_a_setting_is_refused_before_anything_is_written(
    monkeypatch, tmp_path, data, capsys
):
    """A key that looks like a word can only be recognised by comparing it with the real one."""
    from ttm_jax.cli.exit_codes import run

    monkeypatch.setenv("SOME_KEY", "quitesecretword")
    with ChatServer() as server:
        more = ("--model", "the-quitesecretword-model")
        monkeypatch.setattr(sys, "argv", ["gpt", *arguments(server, tmp_path, data, *more)])
        with pytest.raises(SystemExit) as stop:
            run(lambda: _gpt.main("mmvp_vlm", "mmvp_gpt", None))
        assert server.received.total() == 0
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: --model contains the API key")
    assert "quitesecret" not in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
