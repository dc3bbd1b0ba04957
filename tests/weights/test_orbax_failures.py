"""Reads that end after an error are not reported; everything else is."""

import asyncio
import sys
from types import SimpleNamespace

import pytest

from ttm_jax.weights.orbax_failures import only_the_error


@pytest.fixture
def heard(monkeypatch) -> list[BaseException]:
    found: list[BaseException] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: found.append(unraisable))
    with only_the_error():
        pass
    return found


def report(error: BaseException) -> None:
    sys.unraisablehook(SimpleNamespace(exc_value=error, object=None))  # type: ignore[arg-type]


def test_a_result_for_a_closed_loop(heard):
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(RuntimeError) as raised:
        loop.call_soon_threadsafe(print)
    report(raised.value)
    assert not heard


def test_other_errors_are_reported(heard):
    report(RuntimeError("no memory"))
    report(ValueError("Event loop is closed"))
    assert len(heard) == 2


def test_the_hook_is_installed_once(heard):
    first = sys.unraisablehook
    with only_the_error():
        pass
    assert sys.unraisablehook is first
