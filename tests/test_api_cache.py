"""Answers on disk: kept, shared, claimed, and refused where the file is not ours."""

import os
import sqlite3
import subprocess
import sys
import time

import pytest

from ttm_jax.errors import InputError
from ttm_jax.scorers.api import cache as cache_module
from ttm_jax.scorers.api.cache import ResponseCache
from ttm_jax.scorers.api.reply import Reply
from ttm_jax.scorers.api.settings import Usage

REPLY = Reply("length", "Ja", None, (("Yes", -0.5), ("Ω", -2.0)), "m-1", "fp", Usage(100, 40, 1))


def put(cache: ResponseCache, key: str, reply: Reply = REPLY) -> None:
    cache.put(key, "model", "prompt", "sha", 1, reply)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "answers.sqlite"


def test_what_was_put_comes_back_after_reopening(path):
    replies = {
        "a": REPLY,
        "b": Reply("content_filter", None, "flagged", None, usage=Usage()),
        "c": Reply("stop", "", None, (), None, None, Usage(7, 0, 0)),
    }
    with ResponseCache(path) as cache:
        for key, reply in replies.items():
            put(cache, key, reply)
    with ResponseCache(path) as cache:
        assert cache.get_many(["a", "b", "c", "d"]) == replies
        assert cache.get("d") is None


def test_the_first_answer_stays(path):
    with ResponseCache(path) as cache:
        put(cache, "a")
        put(cache, "a", Reply("stop", "other", None, None, usage=Usage()))
        assert cache.get("a") == REPLY


def test_many_keys(path):
    keys = [f"key {i}" for i in range(1201)]
    with ResponseCache(path) as cache:
        for key in keys[::2]:
            put(cache, key)
        assert set(cache.get_many(keys)) == set(keys[::2])


def test_lost_requests_are_summed(path):
    with ResponseCache(path) as cache:
        cache.add_lost("a", "no answer", Usage(100, 0, 1))
        cache.add_lost("a", "no answer", Usage(100, 0, 1))
        cache.add_lost("other", "no answer", Usage(9, 0, 9))
        assert cache.lost(["a", "b"]) == Usage(200, 0, 2)


def test_a_claim_keeps_others_away_until_it_is_answered(path):
    with ResponseCache(path) as one, ResponseCache(path) as other:
        assert one.claim("a") == "mine"
        assert one.claim("a") == "mine"
        assert other.claim("a") == "theirs"
        assert other.claim("b") == "mine"
        put(one, "a")
        assert other.claim("a") == "answered"
        assert other.get("a") == REPLY


def test_claims_are_given_back(path):
    with ResponseCache(path) as other:
        with ResponseCache(path) as one:
            one.claim("a")
            one.claim("b")
            one.release("a")
            assert other.claim("a") == "mine"
            assert other.claim("b") == "theirs"
        assert other.claim("b") == "mine"


def test_a_lease_runs_out_unless_it_is_renewed(path, monkeypatch):
    start = time.time()
    with ResponseCache(path) as one, ResponseCache(path) as other:
        one.claim("a")
        monkeypatch.setattr(cache_module.time, "time", lambda: start + 10)
        one.renew()
        monkeypatch.setattr(cache_module.time, "time", lambda: start + 20)
        assert other.claim("a") == "theirs"
        monkeypatch.setattr(cache_module.time, "time", lambda: start + 26)
        assert other.claim("a") == "left"


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the lease must run out")
def test_the_claim_of_a_dead_process_is_taken_at_once(path):
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    with ResponseCache(path) as one, ResponseCache(path) as other:
        one.claim("a")
        one._db.execute("UPDATE claims SET pid = ?", (int(done.stdout),))
        assert other.claim("a") == "left"
        assert other.claim("a") == "mine"
        one.claim("b")
        one._db.execute("UPDATE claims SET pid = ?, host = 'elsewhere'", (int(done.stdout),))
        assert other.claim("b") == "theirs"


def test_files_that_are_not_ours_are_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, " * 100)
    other = tmp_path / "photos.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE photos (name TEXT)")
    db.close()
    newer = tmp_path / "newer.sqlite"
    with ResponseCache(newer) as cache:
        cache._db.execute("PRAGMA user_version = 99")
    for path in (text, other, newer):
        before = path.read_bytes()
        with pytest.raises(InputError, match="--cache"):
            ResponseCache(path)
        assert path.read_bytes() == before


_WRITER = """
import sys
from pathlib import Path
from ttm_jax.scorers.api.cache import ResponseCache
from ttm_jax.scorers.api.reply import Reply
from ttm_jax.scorers.api.settings import Usage

mine = 0
with ResponseCache(Path(sys.argv[1])) as cache:
    for i in range(200):
        if cache.claim(f"key {i}") == "mine":
            mine += 1
            cache.put(f"key {i}", "m", "p", "s", 1, Reply("stop", "x", None, None, usage=Usage()))
print(mine)
"""


def test_two_processes_open_a_new_file_and_share_the_work(path):
    command = [sys.executable, "-c", _WRITER, str(path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=50)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(map(int, outputs)) == 200
    with ResponseCache(path) as cache:
        assert len(cache.get_many(f"key {i}" for i in range(200))) == 200
        assert cache._db.execute("SELECT COUNT(*) FROM claims").fetchone() == (0,)
