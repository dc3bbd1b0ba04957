"""Limits can be raised from outside, and only by a number."""

import pytest

from ttm_jax import limits
from ttm_jax.errors import InputError


def test_default_and_environment(monkeypatch):
    assert limits.allowed("LINE_BYTES") == limits.MAX_LINE_BYTES == 16 * 2**20
    monkeypatch.setenv(limits.variable("LINE_BYTES"), "123")
    assert limits.allowed("LINE_BYTES") == 123


@pytest.mark.parametrize("text", ["", "1e9", "-1", "many", "9" * 30, "١٢"])
def test_other_texts(monkeypatch, text):
    monkeypatch.setenv("TTM_JAX_MAX_LINE_BYTES", text)
    with pytest.raises(InputError, match=r"TTM_JAX_MAX_LINE_BYTES is .*; expected a number"):
        limits.allowed("LINE_BYTES")
