"""The page's templates. All markup is made here, and Jinja escapes every value that goes into it.

The rest of the package hands over plain text and numbers, so it cannot forget to escape anything.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_PACKAGE = "ttm_jax.report.page"


def render(template: str, **values: Any) -> Markup:
    """A template of `templates/` filled with values; all but `Markup` of this module is escaped."""
    return Markup(_environment().get_template(template).render(values))


def asset(*names: str) -> Markup:
    """Style sheets or scripts that ship with the package, to be put into the page as they are."""
    return Markup("".join((files(_PACKAGE) / name).read_text(encoding="utf-8") for name in names))


def digest(text: str) -> str:
    """How a content security policy names an inline style or script: its SHA-256 in base64."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(_PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # `tojson` writes <, >, & and ' as \u003c and so on. JSON's own escapes (ensure_ascii) do the
    # same for U+2028 and everything else outside ASCII.
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": True,
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment
