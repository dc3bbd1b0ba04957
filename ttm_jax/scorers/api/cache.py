"""Answers on disk: asked once, kept for good, shared by processes of one machine.

A SQLite file with three tables. `responses` has every answer with all that its score needs. `lost`
has the requests that brought no answer but may have been billed. `claims` has the requests that a
process has under way, so that another does not send them too. The key and the headers of a request
are never given to this module.
"""

import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.reply import Reply
from ttm_jax.scorers.api.settings import Usage

_VERSION = 1
_APPLICATION = 0x74746D6A  # "ttmj": tells our files from other SQLite files
_BUSY_SECONDS = 30.0
_AT_ONCE = 500  # keys in one query
LEASE = 15.0  # seconds that a claim holds unless it is renewed

Claim = Literal["mine", "left", "answered", "theirs"]

_TABLES = """
CREATE TABLE IF NOT EXISTS responses (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, prompt TEXT NOT NULL, image_sha256 TEXT NOT NULL,
  run INTEGER NOT NULL, reply TEXT NOT NULL, input_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, answered_at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS lost (
  key TEXT NOT NULL, reason TEXT NOT NULL, input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL, lost_at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS lost_key ON lost (key);
CREATE TABLE IF NOT EXISTS claims (
  key TEXT PRIMARY KEY, owner TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
  expires REAL NOT NULL);
"""


class ResponseCache:
    """One process's door to the file; used from the thread that opened it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner, self._host = uuid.uuid4().hex, socket.gethostname()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = self._open()

    def __enter__(self) -> "ResponseCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the claims back and close the file."""
        with suppress(sqlite3.Error):  # on a full disk the lease runs out instead
            self._db.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))
        self._db.close()

    def get(self, key: str) -> Reply | None:
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Reply]:
        found = {}
        for marks, some in _chunks(keys):
            rows = self._db.execute(
                "SELECT key, reply, input_tokens, cached_tokens, output_tokens FROM responses "
                f"WHERE key IN ({marks})",
                some,
            )
            for key, text, *tokens in rows:
                found[key] = Reply.from_json(text, Usage(*tokens))
        return found

    def lost(self, keys: Iterable[str]) -> Usage:
        """Tokens of the requests that brought nothing but may have been billed (estimated)."""
        total = Usage()
        for marks, some in _chunks(keys):
            query = (
                "SELECT COALESCE(SUM(input_tokens), 0), COALESCE(SUM(output_tokens), 0) "
                f"FROM lost WHERE key IN ({marks})"
            )
            read, written = self._db.execute(query, some).fetchone()
            total += Usage(read, 0, written)
        return total

    def claim(self, key: str) -> Claim:
        """Take a request for this process, unless it has an answer or another has it under way.

        "left" is ours too, but a process that ended without a word may have sent it before.
        """
        with self._transaction():
            row = self._db.execute("SELECT 1 FROM responses WHERE key = ?", (key,)).fetchone()
            if row is not None:
                return "answered"
            row = self._db.execute(
                "SELECT owner, host, pid, expires FROM claims WHERE key = ?", (key,)
            ).fetchone()
            if row is not None and self._holds(*row):
                return "theirs"
            self._db.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                (key, self._owner, self._host, os.getpid(), time.time() + LEASE),
            )
            return "mine" if row is None or row[0] == self._owner else "left"

    def renew(self) -> None:
        """Hold all claims for another lease."""
        self._db.execute(
            "UPDATE claims SET expires = ? WHERE owner = ?", (time.time() + LEASE, self._owner)
        )

    def release(self, key: str) -> None:
        self._db.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self._owner))

    def put(
        self, key: str, model: str, prompt: str, image_sha256: str, run: int, reply: Reply
    ) -> None:
        """Keep an answer and let go of its claim, both or neither."""
        usage = reply.usage or Usage()
        with self._transaction():
            self._db.execute(
                "INSERT OR IGNORE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    key,
                    model,
                    prompt,
                    image_sha256,
                    run,
                    reply.to_json(),
                    usage.input,
                    usage.cached,
                    usage.output,
                    _now(),
                ),
            )
            self._db.execute("DELETE FROM claims WHERE key = ?", (key,))

    def add_lost(self, key: str, reason: str, usage: Usage) -> None:
        self._db.execute(
            "INSERT INTO lost VALUES (?, ?, ?, ?, ?)",
            (key, reason, usage.input, usage.output, _now()),
        )

    def _holds(self, owner: str, host: str, pid: int, expires: float) -> bool:
        """Whether somebody else's claim still stands: renewed in time, by a process that lives."""
        if owner == self._owner or expires < time.time():
            return False
        return not (host == self._host and _is_gone(pid))

    def _open(self) -> sqlite3.Connection:
        try:
            # Autocommit: every transaction of ours is written out below.
            db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                _prepare(db)
            except BaseException:
                db.close()
                raise
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{self.path} cannot be opened as a response cache ({error}); give another --cache"
            ) from error
        return db

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # IMMEDIATE: two processes that read and then write would otherwise both be refused.
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _prepare(db: sqlite3.Connection) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    if application not in (0, _APPLICATION) or (application == 0 and tables):
        raise sqlite3.DatabaseError("it is another program's database")
    if version > _VERSION:
        raise sqlite3.DatabaseError(f"it has version {version}, this program knows {_VERSION}")
    # WAL: readers and a writer do not wait for each other. NORMAL: what was committed outlives a
    # killed process; only a power cut can take the last answers along.
    _patiently(db, "PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    if application == 0:
        db.execute("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")


def _patiently(db: sqlite3.Connection, statement: str) -> None:
    """SQLite does not wait by itself when two processes switch a new file to WAL at once."""
    for _ in range(100):
        try:
            db.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(0.05)
    db.execute(statement)


def _is_gone(pid: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 does not only ask; the lease must run out
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _chunks(keys: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    every = list(keys)
    for start in range(0, len(every), _AT_ONCE):
        some = every[start : start + _AT_ONCE]
        yield ",".join("?" * len(some)), some


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
