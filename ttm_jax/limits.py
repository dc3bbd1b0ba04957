"""How much is read from a file that may be damaged or hostile, before anything is allocated for it.

`allowed("JSON_BYTES")` is the constant `MAX_JSON_BYTES`, unless the environment variable
`TTM_JAX_MAX_JSON_BYTES` gives another number.
"""

import os

from ttm_jax.errors import InputError

MAX_SETTINGS_BYTES = 4 * 2**20  # config.json, environment.json, summary.json, experiment.json
MAX_JSON_BYTES = 64 * 2**20  # groups.json: every caption of a dataset
MAX_LINES_BYTES = 2**30  # metrics.jsonl, ledger.jsonl, matchings.jsonl
MAX_LINE_BYTES = 16 * 2**20  # one line of them: the losses of all steps of an iteration
MAX_JSON_DEPTH = 32  # objects and lists inside each other
MAX_SCORE_BYTES = 2 * 2**30  # the scores of one iteration
MAX_LIST_BYTES = 2**28  # groups.jsonl, annotations, scores as text: lists that people write
MAX_IMAGE_BYTES = 2**29  # one encoded image
MAX_TABLE_ROWS = 100_000  # of one Parquet file
MAX_DOWNLOAD_BYTES = 8 * 2**30  # one file; a listed size is checked as well
MAX_PAGE_BYTES = 64 * 2**20  # one answer of a server that is read into memory, such as a listing
MAX_LISTED_FILES = 50_000  # in one listing
MAX_ARCHIVE_MEMBERS = 50_000  # files and folders in one archive
MAX_ARCHIVE_BYTES = 8 * 2**30  # all that one archive unpacks to
MAX_THUMBNAIL_BYTES = 256 * 2**10  # one small picture; they take 4 to 20 kB
MAX_THUMBNAILS_BYTES = 2**30  # all small pictures of a run
MAX_THUMBNAIL_SIDE = 1024  # pixels; they have 144 to 384


def allowed(name: str) -> int:
    """The limit of this name (without `MAX_`), or what the environment says instead."""
    default: int = globals()[f"MAX_{name}"]
    text = os.environ.get(variable(name))
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19):
        raise InputError(f"{variable(name)} is {text!r}; expected a number such as {default}")
    return int(text)


def variable(name: str) -> str:
    """The environment variable that overrides a limit."""
    return f"TTM_JAX_MAX_{name}"
