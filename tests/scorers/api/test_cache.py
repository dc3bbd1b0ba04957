"""The cache: answers are kept, shared and claimed; files of other programs are refused."""

import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from ttm_jax.errors import InputError
from ttm_jax.scorers.api import cache as cache_module
from ttm_jax.scorers.api.cache import ResponseCache
from ttm_jax.scorers.api.cost import Usage
from ttm_jax.scorers.api.reply import Reply

REPLY = Reply("length", "Ja", None, (("Yes", -0.5), ("Ω", -2.0)), "m-1", "fp", Usage(100, 40, 1))


def put(cache: ResponseCache, key: str, reply: Reply = REPLY) -> None:
    cache.put(key, "model", "prompt", "sha", 1, reply)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "answers.sqlite"


def test_answers_are_there_after_reopening(path):
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


def test_a_claim_excludes_others_until_it_is_answered(path):
    with ResponseCache(path) as one, ResponseCache(path) as other:
        assert one.claim("a") == "mine"
        assert one.claim("a") == "mine"
        assert other.claim("a") == "theirs"
        assert other.claim("b") == "mine"
        put(one, "a")
        assert other.claim("a") == "answered"
        assert other.get("a") == REPLY


def test_claims_are_released(path):
    with ResponseCache(path) as other:
        with ResponseCache(path) as one:
            one.claim("a")
            one.claim("b")
            one.release("a")
            assert other.claim("a") == "mine"
            assert other.claim("b") == "theirs"
        assert other.claim("b") == "mine"


def test_a_claim_expires_unless_it_is_renewed(path, monkeypatch):
    start = time.time()
    with ResponseCache(path) as one, ResponseCache(path) as other:
        one.claim("a")
        monkeypatch.setattr(cache_module.time, "time", lambda: start + 10)
        one.renew()
        monkeypatch.setattr(cache_module.time, "time", lambda: start + 20)
        assert other.claim("a") == "theirs"
        monkeypatch.setattr(cache_module.time, "time", lambda: start + 26)
        assert other.claim("a") == "abandoned"


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the claim must expire")
def test_the_claim_of_a_dead_process_is_taken_over_at_once(path):
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    with ResponseCache(path) as one, ResponseCache(path) as other:
        one.claim("a")
        one._db.execute("UPDATE claims SET pid = ?", (int(done.stdout),))
        assert other.claim("a") == "abandoned"
        assert other.claim("a") == "mine"
        one.claim("b")
        one._db.execute("UPDATE claims SET pid = ?, host = 'elsewhere'", (int(done.stdout),))
        assert other.claim("b") == "theirs"


def test_files_of_other_programs_are_refused_and_not_changed(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, " * 100)
    other = tmp_path / "photos.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE photos (name TEXT)")
    db.close()
    newer = tmp_path / "newer.sqlite"
    with ResponseCache(newer) as cache:
        cache._db.execute("PRAGMA user_version = 99")
    older = tmp_path / "older.sqlite"
    with ResponseCache(older) as cache:
        cache._db.execute("PRAGMA user_version = 0")
    for path in (text, other, newer, older):
        before = path.read_bytes()
        with pytest.raises(InputError, match="choose another file"):
            ResponseCache(path)
        assert path.read_bytes() == before


_WRITER = """
import sys
from pathlib import Path
from ttm_jax.scorers.api.cache import ResponseCache
from ttm_jax.scorers.api.cost import Usage
from ttm_jax.scorers.api.reply import Reply

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


# Damaged files. A damaged answer is refused, not asked for again: that would cost money silently.


def damage(path, *statements: str) -> bytes:
    """A cache with the answers "a" and "b", changed by SQL; returns the content of the file."""
    with ResponseCache(path) as cache:
        put(cache, "a")
        put(cache, "b")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE responses", "no table responses"),
        ("DROP TABLE lost", "no table lost"),
        ("DROP TABLE claims", "no table claims"),
        ("ALTER TABLE responses DROP COLUMN reply", "table responses has other columns"),
        ("ALTER TABLE lost ADD COLUMN more TEXT", "table lost has other columns"),
        ("ALTER TABLE claims RENAME COLUMN pid TO process", "table claims has other columns"),
        ("CREATE VIEW v AS SELECT 1", "triggers or views"),
        (
            "CREATE TRIGGER t AFTER INSERT ON responses BEGIN DELETE FROM responses; END",
            "triggers or views",
        ),
        ("PRAGMA user_version = 2", "version 2"),
        ("PRAGMA user_version = -1", "version -1"),
        ("PRAGMA application_id = 7", "belongs to another program"),
    ],
)
def test_a_file_with_another_schema_is_refused_and_not_changed(path, statement, says):
    before = damage(path, statement)
    with pytest.raises(InputError, match=f"{says}.*choose another file"):
        ResponseCache(path)
    assert path.read_bytes() == before


TOP = '{"finish_reason": null, "content": null, "refusal": null, "served_model": null, ' \
      '"fingerprint": null, "top": %s}'  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("reply", "", "Expecting value"),
        ("reply", "{", "Expecting"),
        ("reply", "[" * 100_000, "not JSON"),
        ("reply", "null", "other fields"),
        ("reply", "[]", "other fields"),
        ("reply", "{}", "other fields"),
        ("reply", TOP % 'null, "more": 1', "other fields"),
        ("reply", TOP % "7", "not pairs"),
        ("reply", TOP % "[7]", "not pairs"),
        ("reply", TOP % '[["Yes", -1, 0]]', "not pairs"),
        ("reply", TOP % '[["Yes", "-1"]]', "not text and number"),
        ("reply", TOP % '[["Yes", true]]', "not text and number"),
        ("reply", TOP % "[[7, -1.0]]", "not text and number"),
        ("reply", TOP % '[["Yes", 0.1]]', "log-probability of 0.1"),
        ("reply", TOP % '[["Yes", -1e9]]', "log-probability of"),
        ("reply", TOP % '[["Yes", -1e999]]', "log-probability of -inf"),
        ("reply", TOP % '[["Yes", NaN]]', "NaN"),
        ("reply", TOP % '[["Yes", -Infinity]]', "-Infinity"),
        ("reply", TOP.replace('"content": null', '"content": 7') % "null", "not text"),
        ("reply", b"\x00\xff", "not text"),
        ("reply", 7, "other fields"),
        ("input_tokens", -1, "token counts"),
        ("input_tokens", "many", "token counts"),
        ("input_tokens", 1.5, "token counts"),
        ("cached_tokens", 101, "token counts"),
        ("output_tokens", b"1", "token counts"),
    ],
)
def test_a_damaged_answer_is_refused_and_not_changed(path, column, value, says):
    damage(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"UPDATE responses SET {column} = ? WHERE key = 'a'", (value,))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    with ResponseCache(path) as cache:
        with pytest.raises(InputError, match=f"the key a is damaged .*{says}.*delete that row"):
            cache.get_many(["b", "a"])
        assert cache.get("b") == REPLY, "other answers can still be read"
    assert path.read_bytes() == before


def test_damaged_lost_requests_are_refused(path):
    damage(path, "INSERT INTO lost VALUES ('a', 'x', -5, 1, 'now')")
    with ResponseCache(path) as cache, pytest.raises(InputError, match="table lost is damaged"):
        cache.lost(["a"])
    damage(path, "UPDATE lost SET input_tokens = 9223372036854775807",
           "INSERT INTO lost SELECT * FROM lost")  # fmt: skip
    with ResponseCache(path) as cache, pytest.raises(InputError, match="integer overflow"):
        cache.lost(["a"])


@pytest.mark.parametrize(
    "values",
    ["'x', 'h', 'not a pid', 'never'", "'x', 'h', 1, 9e999", f"'x', 'h', {2**62}, 1e300"],
)
def test_a_damaged_claim_does_not_block_a_request_forever(path, values):
    damage(path, f"INSERT INTO claims VALUES ('c', {values})")
    with ResponseCache(path) as cache:
        assert cache.claim("c") == "abandoned"


def test_the_claim_of_an_impossible_process_is_taken_over(path):
    soon, host = time.time() + 10, socket.gethostname()
    damage(path, f"INSERT INTO claims VALUES ('c', 'x', '{host}', {2**62}, {soon})")
    with ResponseCache(path) as cache:
        assert cache.claim("c") == "abandoned"


def read_all(path) -> None:
    with ResponseCache(path) as cache:
        cache.get_many(["a", "b"])
        cache.lost(["a"])


@pytest.mark.parametrize("page", [0, 1, 2], ids=["header", "answers", "keys"])
def test_a_file_with_an_overwritten_page_is_refused(path, page):
    data = bytearray(damage(path))
    size = 4096
    data[page * size + 8 : page * size + 2000] = b"\xa5" * 1992
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"answers\.sqlite cannot be used as a response cache"):
        read_all(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("size", [10, 100, 4096, 5000])
def test_a_truncated_file_is_refused(path, size):
    data = damage(path)
    path.write_bytes(data[:size])
    with pytest.raises(InputError, match="choose another file"):
        read_all(path)
    assert path.read_bytes() == data[:size]


def test_paths_that_cannot_be_a_file(tmp_path):
    with pytest.raises(InputError, match="is not a file"):
        ResponseCache(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="cannot be created"):
        ResponseCache(tmp_path / "notes.txt" / "answers.sqlite")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(InputError, match="is not a file"):
            ResponseCache(tmp_path / "fifo")


_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA locking_mode = EXCLUSIVE")
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_file_that_another_process_has_locked(path, monkeypatch):
    before = damage(path)
    monkeypatch.setattr(cache_module, "_BUSY_SECONDS", 0.1)
    command = [sys.executable, "-c", _LOCK, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match="is locked by another program"):
            ResponseCache(path)
        process.communicate()
    assert path.read_bytes() == before
    with ResponseCache(path) as cache:
        assert cache.get("a") == REPLY
