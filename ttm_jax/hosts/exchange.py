"""Small texts between hosts, through the store that JAX's coordinator keeps.

Every function here is called by all hosts in the same order. They wait for as long as it takes: a
host may read images for an hour. If one is lost, the watch ends the others (`watch.py`).
"""

import json
import math
import time
from collections.abc import Callable
from itertools import count as counter
from typing import Any, TypeVar

from ttm_jax.errors import InputError
from ttm_jax.hosts import this_host

T = TypeVar("T")

_PATIENCE = 2_000  # milliseconds between two looks, so that Ctrl-C is heard
_calls = counter()


def from_first(decide: Callable[[], T]) -> T:
    """What the first host finds, on all hosts: for decisions that depend on files or clocks.

    The value goes through JSON. An `InputError` is raised on all hosts.
    """
    if this_host.count() == 1:
        return decide()
    key = f"ttm_jax/{next(_calls)}/first"
    if this_host.index() == 0:
        try:
            value = decide()
        except InputError as error:
            put(key, json.dumps({"error": str(error)}))
            raise
        put(key, json.dumps({"value": value}))
        return value
    found = json.loads(_wait_for(key))
    if "error" in found:
        raise InputError(found["error"])
    return found["value"]


def from_all(value: T) -> list[T]:
    """The values of all hosts, in their order. They go through JSON."""
    if this_host.count() == 1:
        return [value]
    here = f"ttm_jax/{next(_calls)}"
    put(f"{here}/{this_host.index()}", json.dumps(value))
    if this_host.index() == 0:
        values = [json.loads(_wait_for(f"{here}/{host}")) for host in range(this_host.count())]
        put(f"{here}/all", json.dumps(values))
        return values
    return json.loads(_wait_for(f"{here}/all"))


def wait_for_all() -> None:
    """Let every host get here before any goes on."""
    from_all(None)


def agree_on(what: str, value: Any) -> None:
    """Refuse to go on if a host has another value than the first.

    Args:
        what: What the value stands for, as in "host 2 has other WHAT".
        value: JSON types; short, such as a checksum.
    """
    values = from_all(value)
    for host, other in enumerate(values):
        if other != values[0]:
            raise InputError(
                f"host {host} has other {what} than host 0: {_short(other)} instead of "
                f"{_short(values[0])}; all hosts must be given the same"
            )


def put(key: str, value: str) -> None:
    _store().key_value_set(key, value)


def get(key: str, seconds: float = math.inf) -> str | None:
    """Wait for a value and return it; None if it does not come in time."""
    from jax.errors import JaxRuntimeError

    end = time.monotonic() + seconds
    while True:
        try:
            return _store().blocking_key_value_get(key, _PATIENCE)
        except JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            if time.monotonic() > end:
                return None


def _wait_for(key: str) -> str:
    value = get(key)
    assert value is not None  # it was waited for without end
    return value


def _store() -> Any:
    from jax._src import distributed  # no public way to the store; orbax takes the same one

    client = distributed.global_state.client
    assert client is not None, "jax.distributed is not initialized"
    return client


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]} ..."
