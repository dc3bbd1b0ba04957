"""All rows of Parquet files with the same columns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttm_jax import limits
from ttm_jax.errors import InputError


def read_parquet(files: Sequence[Path]) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    """Names of the columns, and the rows, numbered from 0 through all files."""
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError as error:
        raise InputError(
            f"{files[0]} is Parquet, which needs pyarrow: pip install pyarrow (the extra `data`)"
        ) from error
    names: list[str] = []
    rows: list[dict[str, Any]] = []
    for path in files:
        try:
            with parquet.ParquetFile(path) as file:
                _check_size(path, len(rows) + file.metadata.num_rows)
                if names and file.schema_arrow.names != names:
                    raise InputError(f"{path} has other columns than {files[0]}")
                names = file.schema_arrow.names
                for batch in file.iter_batches(16):  # pictures are large
                    rows += batch.to_pylist()
        except (ArrowException, OSError, OverflowError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"{path} cannot be read as Parquet: {reason[:200]}") from error
    return names, list(enumerate(rows))


def _check_size(path: Path, rows: int) -> None:
    largest = limits.allowed("TABLE_ROWS")
    if rows > largest:
        raise InputError(
            f"{path}: {rows} rows, at most {largest} are read; {limits.variable('TABLE_ROWS')} "
            "changes this"
        )
