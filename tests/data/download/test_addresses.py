"""Which addresses are opened, where redirects may lead, and which names may become files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.data.download.addresses import (
    check_address,
    check_move,
    is_local,
    is_same_host,
    safe_path,
    shown,
)
from ttm_jax.data.download.sources import Sources

HUB = "https://huggingface.co/datasets/x"


@pytest.mark.parametrize(
    ("url", "is_fine"),
    [
        ("https://huggingface.co/x", True),
        ("http://127.0.0.1:8000/x", True),
        ("HTTPS://huggingface.co/x", True),
        ("file:///etc/passwd", False),
        ("ftp://host/x", False),
        ("data:text/plain,x", False),
        ("https://", False),
        ("https:///path", False),
        ("//host/path", False),
        ("huggingface.co", False),
        ("https://host:port/x", False),
        ("https://[::1/x", False),
        ("", False),
    ],
)
def test_addresses(url, is_fine):
    assert (check_address(url) is None) == is_fine


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (HUB, "https://cdn-lfs.hf.co/x?sign=1", None),
        ("http://mirror.example/x", "https://huggingface.co/x", None),
        ("http://127.0.0.1:1/x", "http://127.0.0.1:2/x", None),
        ("http://localhost:1/x", "http://10.0.0.1/x", None),
        (HUB, "http://huggingface.co/x", "which is not secure"),
        (HUB, "file:///etc/passwd", "which is not a web address"),
        (HUB, "ftp://huggingface.co/x", "which is not a web address"),
        (HUB, "https:///x", "which is not a web address"),
        (HUB, "https://127.0.0.1/x", "in the local network"),
        (HUB, "https://localhost/x", "in the local network"),
        (HUB, "https://10.1.2.3/x", "in the local network"),
        (HUB, "https://192.168.0.1/x", "in the local network"),
        (HUB, "https://169.254.169.254/latest/meta-data", "in the local network"),
        (HUB, "https://[::1]/x", "in the local network"),
        (HUB, "https://[::ffff:127.0.0.1]/x", "in the local network"),
        (HUB, "https://2130706433/x", "in the local network"),
        (HUB, "https://0x7f.1/x", "in the local network"),
        (HUB, "https://127.1/x", "in the local network"),
        (HUB, "https://router/x", "in the local network"),
        (HUB, "https://printer.local./x", "in the local network"),
    ],
)
def test_moves(old, new, reason):
    problem = check_move(old, new)
    assert problem is None if reason is None else reason in problem


def test_local_hosts():
    assert not is_local("huggingface.co")
    assert not is_local("8.8.8.8")
    assert not is_local("cafe.be")  # only letters that are digits of hexadecimal numbers
    assert is_local("a.internal")


def test_the_same_host_has_the_same_scheme_and_port():
    assert is_same_host("https://a.b/x", "https://a.b/y?z")
    assert not is_same_host("https://a.b/x", "http://a.b/x")
    assert not is_same_host("https://a.b/x", "https://a.b:444/x")
    assert not is_same_host("https://a.b/x", "https://user@a.b/x")
    assert not is_same_host("https://a.b/x", "https://a.b.c/x")


def test_messages_show_no_secrets():
    assert shown("https://user:pw@host:1/a/b?Signature=secret#x") == "https://host:1/a/b"
    assert shown("no address") == "no address"


@pytest.mark.parametrize(
    "name", ["", "/a", "../a", "a/../b", "a\\b", "C:a", "a\0", "a\nb", "..", "a/..", "\x1b"]
)
def test_names_that_lead_out(name):
    assert safe_path(name) is None


@given(st.text(max_size=30))
def test_a_safe_path_stays_inside(name):
    path = safe_path(name)
    if path is not None:
        assert not path.is_absolute()
        assert ".." not in path.parts


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_makes_the_checks_fail(old, new):
    check_address(new)
    check_move(old, new)
    is_same_host(old, new)
    shown(new)


@pytest.mark.parametrize(
    ("variable", "field"),
    [
        ("HF_ENDPOINT", "hub"),
        ("TTM_JAX_GITHUB", "github"),
        ("TTM_JAX_COCO", "coco"),
        ("TTM_JAX_DRIVE", "drive"),
    ],
)
def test_a_variable_names_a_mirror(variable, field, monkeypatch):
    monkeypatch.delenv(variable, raising=False)
    assert getattr(Sources(), field).startswith("https://")
    monkeypatch.setenv(variable, "http://127.0.0.1:8000")
    assert getattr(Sources(), field) == "http://127.0.0.1:8000"
