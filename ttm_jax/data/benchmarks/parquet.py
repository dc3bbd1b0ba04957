"""Rows of a Parquet file with pictures inside, as the Hugging Face hub stores such datasets.

A picture is a struct of `bytes` (the encoded file) and `path`; see
https://huggingface.co/docs/datasets/about_dataset_features#image-feature.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax import limits
from ttm_jax.data.not_prepared import NotPrepared
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import NamedBytes

_OF = re.compile(r"-of-(\d+)")  # test-00000-of-00002.parquet
_ROWS_AT_ONCE = 16  # pictures are large: 16 rows are about 50 MB


@dataclass(frozen=True)
class Row:
    path: Path
    number: int  # from 0, through the file
    values: dict[str, Any]

    def text(self, column: str) -> str:
        value = self.values[column]
        if not isinstance(value, str) or not value.strip():
            raise self._error(column, value, "a text that is not empty")
        return value

    def image(self, column: str) -> NamedBytes:
        """The encoded picture; one without bytes is left empty, to be reported with its group."""
        value = self.values[column]
        if not isinstance(value, dict) or not isinstance(value.get("bytes", 0), bytes | None):
            raise self._error(column, value, "a picture: a struct with bytes")
        return NamedBytes(f"{self.path} row {self.number} {column}", value["bytes"] or b"")

    def _error(self, column: str, value: Any, expected: str) -> InputError:
        return InputError(
            f"{self.path} row {self.number}: {column} is {_short(value)}; expected {expected}"
        )


def find_test_files(folder: Path) -> list[Path]:
    """The Parquet files of the test split: `data/test-00000-of-00002.parquet` and the like.

    The hub's own conversions are called `default/test/0000.parquet`; a file that was put here by
    hand may lie anywhere below the folder.
    """
    files = sorted(
        path
        for path in folder.rglob("*.parquet")
        if path.name.startswith("test") or path.parent.name == "test"
    )
    if not files:
        raise NotPrepared(f"{folder} has no Parquet file of the test split (data/test-*.parquet)")
    for path in files:
        said = _OF.search(path.name)
        total = int(said[1]) if said is not None else 1
        beside = sum(other.parent == path.parent for other in files)
        if beside < total:
            raise NotPrepared(
                f"{path.parent} has {beside} of the {total} Parquet files of the test split"
            )
    return files


def read_rows(files: Sequence[Path], needed: Sequence[str], wanted: Sequence[str]) -> Iterator[Row]:
    """The rows of all files, with the columns that are needed and those of `wanted` that exist."""
    parquet, arrow_error = _pyarrow()
    for path in files:
        try:
            with parquet.ParquetFile(path) as file:
                _check_size(path, file.metadata.num_rows)
                columns = _columns(path, file.schema_arrow.names, needed, wanted)
                number = 0
                for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
                    for values in batch.to_pylist():
                        yield Row(path, number, values)
                        number += 1
        except InputError:
            raise
        except (arrow_error, OSError, ValueError, OverflowError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"{path} cannot be read as Parquet ({reason}); delete it and fetch it again with "
                "`ttm data`"
            ) from error


def _check_size(path: Path, rows: int) -> None:
    largest = limits.allowed("TABLE_ROWS")
    if rows > largest:
        raise InputError(
            f"{path} has {rows} rows, at most {largest} are read; is it another dataset?"
        )


def _columns(
    path: Path, names: Sequence[str], needed: Sequence[str], wanted: Sequence[str]
) -> list[str]:
    missing = [name for name in needed if name not in names]
    if missing:
        raise InputError(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(names)}: "
            "is it a file of another dataset?"
        )
    return [*needed, *(name for name in wanted if name in names)]


def _pyarrow() -> tuple[Any, type[Exception]]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "this benchmark is stored as Parquet, which needs pyarrow: "
            "pip install pyarrow (the extra `data`)"
        ) from error
    return pyarrow.parquet, pyarrow.ArrowException


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
