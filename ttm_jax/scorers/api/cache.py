"""The cache of answers: one SQLite file, which several processes on one machine can share.

It has three tables. `responses` has every answer with everything that its score needs. `lost` has
the requests without an answer that may have been billed. `claims` has the requests that a process
has in flight, so that no other process sends them too. This module never sees the API key or the
headers of a request.
"""

import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ttm_jax.errors import InputError
from ttm_jax.plain_text import one_line
from ttm_jax.scorers.api.cost import Usage
from ttm_jax.scorers.api.reply import Reply

_VERSION = 1
_APPLICATION = 0x74746D6A  # "ttmj": distinguishes our files from other SQLite files
_BUSY_SECONDS = 30.0
_KEYS_PER_QUERY = 500
LEASE = 15.0  # seconds after which a claim expires unless it is renewed

Claim = Literal["mine", "abandoned", "answered", "theirs"]

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
    """A connection to the file, for the thread that opened it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner, self._host = uuid.uuid4().hex, socket.gethostname()
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a file; choose another file for the response cache")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{path.parent} cannot be created ({error.strerror}); choose another file for the "
                "response cache"
            ) from error
        self._db = self._open()

    def __enter__(self) -> "ResponseCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all claims and close the file."""
        with suppress(sqlite3.Error):  # on a full disk, the claims expire instead
            self._db.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))
        self._db.close()

    def get(self, key: str) -> Reply | None:
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Reply]:
        """The answers to these keys that there are; `InputError` if one of them is damaged."""
        found = {}
        for marks, some in _chunks(keys):
            rows = self._read(
                "SELECT key, reply, input_tokens, cached_tokens, output_tokens FROM responses "
                f"WHERE key IN ({marks})",
                some,
            )
            for key, text, *tokens in rows:
                try:
                    if not isinstance(text, str):
                        raise ValueError("not text")
                    found[key] = Reply.from_json(text, _stored_usage(*tokens))
                except ValueError as error:
                    raise InputError(
                        f"{self.path}: the answer with the key {key} is damaged ({error}); delete "
                        "that row of the table responses to ask again, or choose another file"
                    ) from error
        return found

    def lost(self, keys: Iterable[str]) -> Usage:
        """Estimated tokens of the requests without an answer that may have been billed."""
        total = Usage()
        for marks, some in _chunks(keys):
            query = (
                "SELECT COALESCE(SUM(input_tokens), 0), COALESCE(SUM(output_tokens), 0) "
                f"FROM lost WHERE key IN ({marks})"
            )
            ((read, written),) = self._read(query, some)
            try:
                total += _stored_usage(read, 0, written)
            except ValueError as error:
                raise InputError(
                    f"{self.path}: the table lost is damaged ({error}); choose another file"
                ) from error
        return total

    def claim(self, key: str) -> Claim:
        """Claim a request, unless it is answered or another process has it in flight.

        "abandoned" is ours too, but a process that died may already have sent it.
        """
        with self._transaction():
            row = self._db.execute("SELECT 1 FROM responses WHERE key = ?", (key,)).fetchone()
            if row is not None:
                return "answered"
            # CAST: in a damaged row, numbers may be text.
            row = self._db.execute(
                "SELECT owner, host, CAST(pid AS INTEGER), CAST(expires AS REAL) FROM claims "
                "WHERE key = ?",
                (key,),
            ).fetchone()
            if row is not None and self._holds(*row):
                return "theirs"
            self._db.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                (key, self._owner, self._host, os.getpid(), time.time() + LEASE),
            )
            return "mine" if row is None or row[0] == self._owner else "abandoned"

    def renew(self) -> None:
        """Extend all claims by another lease."""
        self._db.execute(
            "UPDATE claims SET expires = ? WHERE owner = ?", (time.time() + LEASE, self._owner)
        )

    def release(self, key: str) -> None:
        self._db.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, self._owner))

    def put(
        self, key: str, model: str, prompt: str, image_sha256: str, run: int, reply: Reply
    ) -> None:
        """Store an answer and release its claim, in one transaction."""
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
        """Whether another process holds a claim: it was renewed in time, and the process lives."""
        now = time.time()
        # The upper bound is for damaged rows: nobody would ever be let through.
        if owner == self._owner or not now <= expires <= now + 10 * LEASE:
            return False
        return not (host == self._host and _is_gone(pid))

    def error(self, error: sqlite3.Error) -> InputError:
        """What to tell the user about an error of SQLite."""
        if "locked" in str(error):
            return InputError(
                f"{self.path} is locked by another program; wait until it has finished, or choose "
                "another file"
            )
        return InputError(
            f"{self.path} cannot be used as a response cache ({one_line(str(error))}); choose "
            "another file"
        )

    def write_error(self, error: sqlite3.Error) -> InputError:
        """The same for a file that could be opened, but not written."""
        if "locked" in str(error):
            return self.error(error)
        return InputError(
            f"{self.path} cannot be written ({one_line(str(error))}); is the disk full? All "
            "answers in it are kept: run again to resume"
        )

    def _read(self, query: str, values: list[str]) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self.error(error) from error

    def _open(self) -> sqlite3.Connection:
        try:
            # Autocommit: transactions are explicit, see `_transaction`.
            db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                _prepare(db)
            except BaseException:
                db.close()
                raise
        except sqlite3.Error as error:
            raise self.error(error) from error
        return db

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # IMMEDIATE: otherwise two processes that read and then write would both be refused.
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
        raise sqlite3.DatabaseError("it belongs to another program")
    if application == _APPLICATION:
        if version != _VERSION:
            raise sqlite3.DatabaseError(f"it has version {version}; this ttm_jax reads {_VERSION}")
        _check_tables(db)
    # WAL: readers and a writer do not block each other. NORMAL: committed answers survive a killed
    # process; only a power failure can lose the last ones.
    _execute_patiently(db, "PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    if application == 0:
        db.execute("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")


def _check_tables(db: sqlite3.Connection) -> None:
    """Raise unless the tables are exactly as `_TABLES` makes them."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(_TABLES)
        for (table,) in fresh.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            columns = f"PRAGMA table_info({table})"
            found = db.execute(columns).fetchall()
            if not found:
                raise sqlite3.DatabaseError(f"it has no table {table}")
            if found != fresh.execute(columns).fetchall():
                raise sqlite3.DatabaseError(f"its table {table} has other columns")
    others = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view') LIMIT 1"
    if db.execute(others).fetchone() is not None:
        raise sqlite3.DatabaseError("it has triggers or views")


def _execute_patiently(db: sqlite3.Connection, statement: str) -> None:
    """SQLite itself does not wait when two processes switch a new file to WAL at the same time."""
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
    if os.name != "posix":  # elsewhere signal 0 is not harmless; the claim must expire
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def _stored_usage(read: Any, cached: Any, written: Any) -> Usage:
    if not all(isinstance(n, int) and n >= 0 for n in (read, cached, written)) or cached > read:
        raise ValueError("token counts that are not whole numbers of 0 or more")
    return Usage(read, cached, written)


def _chunks(keys: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    every = list(keys)
    for start in range(0, len(every), _KEYS_PER_QUERY):
        some = every[start : start + _KEYS_PER_QUERY]
        yield ",".join("?" * len(some)), some


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
