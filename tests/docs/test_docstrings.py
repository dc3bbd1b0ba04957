"""Public names are documented: every argument, the result, and an example that runs."""

import ast
import dataclasses
import doctest
import inspect
import itertools
import re
import textwrap

import pytest
from commands import one_device  # noqa: F401  fixture

import ttm_jax

FUNCTIONS = [name for name in ttm_jax.__all__ if inspect.isroutine(getattr(ttm_jax, name))]
CLASSES = [name for name in ttm_jax.__all__ if inspect.isclass(getattr(ttm_jax, name))]
# Made by a function, whose example shows it.
SHOWN_ELSEWHERE = {"Diagnosis": "diagnose", "TTMResult": "run_ttm"}


def docstring(thing) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def section(text: str, title: str) -> str:
    """The indented lines under a title such as `Args:`."""
    found = re.search(rf"^{title}:\n((?:(?:    .*)?\n?)*)", text, re.MULTILINE)
    return found[1] if found else ""


def arguments(function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def check_documented(function, where: str) -> None:
    text = docstring(function)
    listed = re.findall(r"^    (\w+): \S", section(text, "Args"), re.MULTILINE)
    assert listed == arguments(function), f"{where}: Args do not list every argument in order"
    if inspect.signature(function).return_annotation not in (None, "None"):
        assert section(text, "Returns").strip(), f"{where}: no Returns"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_document_their_arguments_and_results(name):
    check_documented(getattr(ttm_jax, name), name)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_document_their_fields_and_methods(name):
    found = getattr(ttm_jax, name)
    assert docstring(found)
    if dataclasses.is_dataclass(found):
        expected = {field.name for field in dataclasses.fields(found)}
        assert described_fields(found) == expected, name
    elif "__init__" in vars(found) and arguments(found.__init__):
        listed = re.findall(r"^    (\w+): ", section(docstring(found), "Args"), re.MULTILINE)
        assert listed == arguments(found.__init__), name
    for member, value in vars(found).items():
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            assert docstring(value), f"{name}.{member}"
        elif inspect.isroutine(value):
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            check_documented(plain, f"{name}.{member}")


def described_fields(found: type) -> set[str]:
    """The fields of a class that are followed by a string that describes them."""
    (body,) = (
        node.body
        for node in ast.parse(textwrap.dedent(inspect.getsource(found))).body
        if isinstance(node, ast.ClassDef)
    )
    return {
        node.target.id
        for node, after in itertools.pairwise(body)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


@pytest.mark.parametrize("name", ttm_jax.__all__)
def test_examples_run(name, tmp_path, monkeypatch, one_device):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    text = docstring(getattr(ttm_jax, SHOWN_ELSEWHERE.get(name, name)))
    example = doctest.DocTestParser().get_doctest(
        section(text, "Examples"), {}, name, filename=None, lineno=0
    )
    assert example.examples, f"{name} has no example"
    shown: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=shown.append)
    assert not shown, "".join(shown)
