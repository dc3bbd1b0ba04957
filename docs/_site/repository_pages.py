"""MkDocs hook: the repository's pages outside docs/ join the site, and relative links follow.

On GitHub, links are relative to where a page lies in the repository. In the site, README.md is the
home page and the other pages of `OUTSIDE` are beside those of docs/. Links are written for GitHub
and translated here; a link to a file that is not in the site stays as it is, so that
`mkdocs build --strict` reports it.
"""

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))  # MkDocs loads a hook by its path

from notebook_page import as_markdown

# Where a page lies in the repository -> where it is in the site.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
}
NOTEBOOK, TOUR = "examples/tour.ipynb", "tour.md"
_IN_REPOSITORY = {site: source for source, site in OUTSIDE.items()}
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of `OUTSIDE`."""
    root = Path(config.config_file_path).parent
    for source, site in OUTSIDE.items():
        files.append(File.generated(config, site, abs_src_path=str(root / source)))
    files.append(File.generated(config, TOUR, content=as_markdown(root / NOTEBOOK)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Translate the relative links of a page, except in code."""
    site = page.file.src_uri
    source = _IN_REPOSITORY.get(site, f"docs/{site}")
    parts = _CODE.split(markdown)  # text, code, text, ...
    parts[::2] = [_TARGET.sub(lambda m: translate(m[1], source, site), text) for text in parts[::2]]
    return "".join(parts)


def translate(target: str, source: str, site: str) -> str:
    """A link as it has to be in the site, for a page at `source` that is shown at `site`."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if found == NOTEBOOK:
        return posixpath.relpath(TOUR, posixpath.dirname(site) or ".")
    if found not in OUTSIDE and not found.startswith("docs/"):
        return target
    place = OUTSIDE.get(found, found.removeprefix("docs/"))
    return posixpath.relpath(place, posixpath.dirname(site) or ".")
