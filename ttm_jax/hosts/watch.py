"""If a host is lost, the others end within seconds and say so, instead of waiting for it.

Every host keeps a connection to the first one. A process that dies, whatever the reason, has its
connections closed by its system; a machine that dies is noticed by keep-alive probes, which the
system sends. Neither asks Python, so a host that computes for minutes is not taken for dead.
"""

import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import jax
from jax._src import distributed  # for the coordinator's address, which may have been detected

from ttm_jax.errors import InputError
from ttm_jax.hosts import exchange, shutdown
from ttm_jax.hosts.output import Voice, before_abort

LOST = 1  # exit code of a host that ends because another one has
_PATIENCE = 10.0  # seconds to connect, or for others to say what has happened
_GRACE = 5.0  # seconds in which hosts that fail for the same reason do so
_LONGEST = 65_536  # bytes of a message
_KEY = "ttm_jax/watch"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Seconds before the first probe of a silent connection and between probes, and how many may fail.
_PROBES = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


@dataclass
class _Link:
    """A connection to another host, and what it has said so far."""

    host: int
    socket: socket.socket
    name: str = ""
    received: bytes = b""
    done: bool = False

    def send(self, **message: Any) -> None:
        with suppress(OSError):  # if it is gone, the thread that reads from it says so
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> dict[str, Any] | None:
        """The next message; None if there will not be one."""
        while b"\n" not in self.received:
            try:
                part = self.socket.recv(4096)
            except OSError:
                return None
            if not part or len(self.received) > _LONGEST:
                return None
            self.received += part
        line, self.received = self.received.split(b"\n", 1)
        try:
            message = json.loads(line)
        except ValueError:
            return None
        return message if isinstance(message, dict) else None


@dataclass
class Watch:
    """The connections of this host."""

    host: int
    voice: Voice
    links: dict[int, _Link] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _over: threading.Event = field(default_factory=threading.Event)
    _failed: set[int] = field(default_factory=set)
    _leaving: bool = False
    _code: int = LOST

    def add(self, link: _Link) -> None:
        self.links[link.host] = link
        threading.Thread(target=self._listen, args=(link,), daemon=True).start()

    def _listen(self, link: _Link) -> None:
        while (message := link.read()) is not None:
            if "failed" in message:
                self._hear(int(message["host"]), str(message["failed"]), int(message["code"]))
            elif "lost" in message:
                self._end(str(message["lost"]), LOST)
            elif "done" in message:
                link.done = True
                self._check_over()
            elif "over" in message:
                self._over.set()
        if not (link.done or self._over.is_set() or link.host in self._failed):
            self._lose(link)

    def _lose(self, link: _Link) -> None:
        """A connection has ended without a word: that host is gone."""
        name = f" ({link.name})" if link.name else ""
        text = f"error: host {link.host}{name} is gone; rerun the same command to resume"
        with self._lock:
            if self.host == 0:
                self._tell(link.host, lost=text)
            self._end(text, LOST)

    def _hear(self, host: int, text: str, code: int) -> None:
        """Host `host` has failed. End too, unless this one is about to, for the same reason."""
        self._failed.add(host)
        self._code = code
        self._wait(lambda: self.host in self._failed, _GRACE)
        with self._lock:
            if self.host in self._failed:
                return
            if self.host == 0:
                self._tell(host, failed=text, code=code, host=host)
                self._end(f"host {host}: {text}", code)
            os._exit(code)  # the first host says why

    def _end(self, text: str, code: int) -> None:
        self.voice.say(text if self.host == 0 else f"host {self.host}: {text}")
        os._exit(code)

    def _tell(self, not_to: int, **message: Any) -> None:
        for link in self.links.values():
            if link.host != not_to:
                link.send(**message)

    def fail(self, text: str, code: int) -> bool:
        """Tell the others that this host ends early; whether it should say why itself."""
        with self._lock:
            self._failed.add(self.host)
            self._tell(self.host, failed=text, code=code, host=self.host)
        return self.host == 0 or not self.links

    def speak(self) -> None:
        """This host has something to say after all."""
        self.voice.restore()

    def leave(self) -> None:
        """Wait until all hosts have come to their end; ends the process if one does not."""
        with self._lock:
            self._leaving = True
        if self.host:
            self._tell(self.host, done=True)
        self._check_over()
        if self.links:
            self._over.wait()

    def _check_over(self) -> None:
        with self._lock:
            if self.host == 0 and self._leaving and all(x.done for x in self.links.values()):
                self._over.set()
                for link in self.links.values():
                    link.send(over=True)

    def wait_for_reason(self) -> None:
        """Something failed here that may be due to another host: then the process ends here."""
        self._over.wait(_PATIENCE / 2)

    def aborted(self) -> None:
        """JAX ends this process: another host is gone or has failed, or it has its own reasons."""
        time.sleep(1.0)  # the thread that listens ends the process if a host is gone
        if self._failed - {self.host}:
            os._exit(self._code)  # the first host says why
        self.voice.show_kept()

    @staticmethod
    def _wait(condition: Any, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.02)


def start() -> None:
    """Connect this host with the first one; from now on only the first one prints."""
    watch = Watch(jax.process_index(), Voice())
    shutdown.register(watch)
    if watch.host == 0:
        _accept(watch)
    else:
        watch.voice.silence()
        _connect(watch)
    before_abort(watch.aborted)


def _accept(watch: Watch) -> None:
    """Listen for the other hosts; each shows the token that only this program knows."""
    token, address = secrets.token_hex(16), _coordinator()
    place = address if address in _LOOPBACK else ""
    family = socket.AF_INET6 if place == "::1" else socket.AF_INET
    with socket.create_server((place, 0), family=family, backlog=128) as server:
        server.settimeout(_PATIENCE)
        exchange.put(_KEY, json.dumps([server.getsockname()[1], token]))
        end = time.monotonic() + _PATIENCE
        while len(watch.links) < jax.process_count() - 1 and time.monotonic() < end:
            try:
                link, _ = server.accept()
            except TimeoutError:
                break
            _greet(watch, link, token)
    for host in set(range(1, jax.process_count())) - set(watch.links):
        # It says that it could not connect, or it is gone already.
        if exchange.get(f"{_KEY}/{host}", _PATIENCE) is None:
            raise InputError(f"host {host} is gone; rerun the same command to resume")


def _greet(watch: Watch, connection: socket.socket, token: str) -> None:
    link = _Link(-1, connection)
    connection.settimeout(2.0)
    hello = link.read()
    if hello is None or not secrets.compare_digest(str(hello.get("token")), token):
        connection.close()
        return
    _keep(connection)
    link.host, link.name = int(hello["host"]), str(hello["name"])[:80]
    watch.add(link)


def _connect(watch: Watch) -> None:
    """Without a connection, only JAX notices that a host is gone, after more than a minute."""
    port, token = json.loads(exchange.get(_KEY) or "null")
    try:
        connection = socket.create_connection((_coordinator(), port), timeout=_PATIENCE)
    except OSError as error:
        watch.voice.say(
            f"warning: host {watch.host} cannot connect to port {port} of the first host "
            f"({error.strerror or error}): a host that dies is noticed later"
        )
        exchange.put(f"{_KEY}/{watch.host}", "not connected")
        return
    _keep(connection)
    link = _Link(0, connection, _coordinator())
    link.send(token=token, host=watch.host, name=socket.gethostname())
    watch.add(link)


def _coordinator() -> str:
    address = distributed.global_state.coordinator_address or ""
    return address.rsplit(":", 1)[0].strip("[]")


def _keep(connection: socket.socket) -> None:
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
