"""What the pages say about the repository is so: links, paths, modules, commands, extras."""

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from pages import REPOSITORY, anchors, links, page_ids, pages, prose, spans, text_of

import ttm_jax
from configs.experiments import EXPERIMENTS
from ttm_jax.cli.main import COMMANDS

PAGES = pages()
ALL = [*PAGES, "CHANGELOG.md", "SECURITY.md"]
FOLDERS = ("ttm_jax", "tests", "configs", "experiments", "benchmarks", "docs", "examples")


@pytest.mark.parametrize("page", ALL, ids=page_ids(ALL))
def test_relative_links_lead_somewhere(page):
    """On GitHub; `mkdocs build --strict` looks at the site."""
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (REPOSITORY / page).parent / target if target else REPOSITORY / page
        assert path.is_file(), f"{page} links to {link}"
        if anchor:
            relative = path.resolve().relative_to(REPOSITORY.resolve()).as_posix()
            assert anchor in anchors(relative), f"{page} links to {link}"


@pytest.mark.parametrize("page", ALL, ids=page_ids(ALL))
def test_paths_in_the_text_exist(page):
    for span in spans(page):
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./]*", span):
            assert (REPOSITORY / span).exists(), f"{page}: {span}"


@pytest.mark.parametrize("page", ALL, ids=page_ids(ALL))
def test_dotted_names_in_the_text_exist(page):
    for span in spans(page):
        for name in re.findall(r"\bttm_jax(?:\.\w+)+", span):
            if not (REPOSITORY / name).exists():  # ttm_jax.md and the like
                assert resolve(name) is not None, f"{page}: {name}"


def resolve(name: str) -> object:
    """The module, or the attribute of one, that a dotted name means."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value: object = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            value = getattr(value, part, None)
        return value
    return None


@pytest.mark.parametrize("page", ALL, ids=page_ids(ALL))
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text_of(page), re.MULTILINE))
    assert named <= targets, page


def test_the_readme_lists_every_subcommand():
    assert re.findall(r"^\| `ttm (\w+)` \|", text_of("README.md"), re.MULTILINE) == [*COMMANDS]


def test_the_readme_lists_every_extra():
    section = text_of("README.md").partition("## Install")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    assert listed == set(project["optional-dependencies"])


def test_the_page_of_experiments_lists_them_all():
    table = prose("docs/experiments.md").partition("## Available experiments")[2]
    named = set(re.findall(r"`(\w+)(?: --\w+ \.\.\.)?`", table.partition("\n## ")[0]))
    assert {experiment.name for experiment in EXPERIMENTS} <= named
    files = {path.stem for path in (REPOSITORY / "experiments").glob("*.py")}
    flagless = {name for name in named if name.partition("_")[0] in ("ablation", "global")}
    assert flagless <= files


def test_every_table_and_figure_of_the_paper_has_its_command():
    """The paper has 11 tables and 4 figures; test_snippets.py checks the flags of each command."""
    section = text_of("docs/experiments.md").partition("### Every table and figure")[2]
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", section.partition("\n\n#")[0], re.MULTILINE)
    listed: list[str] = []
    for where, what in rows[2:]:  # below the heading
        kind = where.split()[0].rstrip("s")
        listed += [f"{kind} {number}" for number in re.findall(r"\d+", where) if kind != "Section"]
        found = re.findall(r"`(ttm|python -m) ([\w.]+)", what)
        assert found, where
        for program, name in found:
            if program == "ttm":
                assert name in COMMANDS, where
            else:
                assert (REPOSITORY / f"{name.replace('.', '/')}.py").is_file(), where
    paper = [*(f"Table {n}" for n in range(1, 12)), *(f"Figure {n}" for n in range(1, 5))]
    assert sorted(listed) == sorted(paper)


def test_the_reference_has_every_public_name():
    named = re.findall(r"^::: (\S+)$", text_of("docs/reference.md"), re.MULTILINE)
    assert {f"ttm_jax.{name}" for name in ttm_jax.__all__} <= set(named)
    assert all(resolve(name) is not None for name in named)


def test_the_layout_of_the_readme_names_every_folder():
    section = text_of("README.md").partition("## Layout")[2].partition("\n## ")[0]
    folders = {
        path.name for path in (REPOSITORY / "ttm_jax").iterdir() if (path / "__init__.py").exists()
    }
    assert {name for name in folders if f"`ttm_jax/{name}/`" in section} == folders


def test_the_layers_of_contributing_are_those_that_are_tested():
    (layers,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(text_of("tests/test_layers.py")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS"
    )
    section = text_of("CONTRIBUTING.md").partition("## Layers")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert [tuple(re.findall(r"`(\w+)`", row)) for row in rows] == list(layers)


def test_the_site_has_every_page():
    """Pages outside docs/ are listed in the hook, all of them in the navigation."""
    hook = ast.parse(text_of("docs/_site/repository_pages.py"))
    (outside,) = (
        ast.literal_eval(node.value)
        for node in hook.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "OUTSIDE"
    )
    assert set(outside) == {page for page in ALL if not page.startswith("docs/")}
    navigation = set(re.findall(r": (\w+\.md)$", text_of("mkdocs.yml"), re.MULTILINE))
    inside = {Path(page).name for page in ALL if page.startswith("docs/")}
    assert navigation == inside | set(outside.values()) | {"tour.md"}  # made from the notebook
