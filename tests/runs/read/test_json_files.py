"""JSON within limits: what is refused, and how the message leads to the place."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.errors import InputError
from ttm_jax.runs.read.fields import Place
from ttm_jax.runs.read.json_files import Lines, parse_object, read_object

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
JSON = st.dictionaries(
    st.text(), st.recursive(LEAVES, lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)


def write(tmp_path: Path, data: bytes, name: str = "a.json") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.json line 1: empty"),
        (b"{", "a.json line 1: not JSON: .*column 2"),
        (b'{"a": 1,\n "b": }', "a.json line 2: not JSON: .*column 7"),
        (b'{"a":\n "\xff"}', "a.json line 2: not UTF-8"),
        (b"[]", "a.json: a JSON list; expected an object in braces"),
        (b'{"a": NaN}', "a.json: NaN is not a number"),
        (b'{"a": -Infinity}', "a.json: -Infinity is not a number"),
        (b'{"a": 1e999}', "a.json: 1e999 is too large for a number"),
        (b'{"a": ' + b"1" * 5000 + b"}", "a.json: a number of 5000 digits"),
        (b'{"a": 1, "b": {"c": 2, "c": 3}}', 'a.json: the key "c" appears twice'),
        (b'{"a": "\\ud800"}', "a.json: an unpaired surrogate"),
        (b'{"\\udfff": 1}', "a.json: an unpaired surrogate"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "a.json: nested deeper than 32"),
        (b'{"a": ' + b"[" * 10**6, "a.json: nested too deeply"),
    ],
)
def test_refused(tmp_path, data, message):
    with pytest.raises(InputError, match=message) as caught:
        read_object(write(tmp_path, data))
    assert len(str(caught.value).splitlines()) == 1


@given(st.binary() | st.text().map(str.encode) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes(data):
    """An object, or one line."""
    try:
        values = parse_object(data, Place(Path("a.json")))
    except InputError as error:
        message = str(error)
    else:
        message = ""
        assert isinstance(values, dict)
        json.dumps(values, allow_nan=False).encode()
    assert len(message.splitlines()) <= 1


def test_nesting_that_is_allowed(tmp_path):
    path = write(tmp_path, b'{"a": ' + b"[" * 31 + b"]" * 31 + b', "b": "\\ud83d\\ude00"}')
    assert read_object(path).values["b"] == "😀"


def test_sizes(tmp_path, monkeypatch):
    monkeypatch.setenv("TTM_JAX_MAX_SETTINGS_BYTES", "10")
    read_object(write(tmp_path, b'{"a": 100}'))
    with pytest.raises(InputError, match=r"11 bytes; at most 10.*TTM_JAX_MAX_SETTINGS_BYTES"):
        read_object(write(tmp_path, b'{"a": 1000}'))


def test_what_is_no_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_object(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="not a regular file"):
        read_object(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")  # opening it would wait for ever
    with pytest.raises(InputError, match="not a regular file"):
        read_object(tmp_path / "pipe.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_others(tmp_path):
    path = write(tmp_path, b"{}")
    path.chmod(0)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_object(path)


class TestLines:
    def test_a_last_line_without_its_end_is_left_out(self, tmp_path):
        lines = Lines(write(tmp_path, b'{"a": 1}\n{"a": 2}\n{"a": 3'))
        assert [found.values["a"] for found in lines] == [1, 2]
        assert lines.cut == 3
        whole = Lines(write(tmp_path, b'{"a": 1}\n'))
        assert [found.place.line for found in whole] == [1]
        assert whole.cut is None

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b'{"a": 1}\n\n{"a": 2}\n', "line 2: empty"),
            (b'{"a": 1}\n{"a": }\n', "line 2: not JSON: .*column 7"),
            (b'{"a": 1}\n{"a": "\xe4"}\n', "line 2: not UTF-8"),
            (b'{"a": 1}\n3\n', "line 2: a JSON number; expected an object"),
            (b'{"a": 1}\n{"a": Infinity}\n', "line 2: Infinity is not a number"),
        ],
    )
    def test_a_complete_line_is_not_forgiven(self, tmp_path, data, message):
        with pytest.raises(InputError, match=message):
            list(Lines(write(tmp_path, data)))

    def test_a_line_without_end(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TTM_JAX_MAX_LINE_BYTES", "20")
        with pytest.raises(InputError, match=r"line 2: longer than 20 bytes .*MAX_LINE_BYTES"):
            list(Lines(write(tmp_path, b"{}\n" + b" " * 10**6)))
