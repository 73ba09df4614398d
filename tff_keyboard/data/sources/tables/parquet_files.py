"""Reads messages from Parquet files. Needs pyarrow (`pip install 'tff-keyboard[parquet]'`)."""

import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from tff_keyboard.data.sources.lines import unreadable
from tff_keyboard.data.sources.messages import ParserState, Typed
from tff_keyboard.data.sources.tables import columns
from tff_keyboard.data.sources.tables.columns import ColumnOptions
from tff_keyboard.storage import errors

_BATCH_ROWS = 10_000


def dataset_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the parts of a dataset that Spark, Dask or pandas wrote as a folder, sorted."""
    return sorted({*folder.glob("*.parquet"), *folder.glob("*=*/*.parquet")})


def read_messages(
    path: pathlib.Path, reading: ParserState, options: ColumnOptions, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the messages of a Parquet file, in batches. Reads only the wanted columns.

    Rows are numbered from 1. Raises `DataError` if the file is missing, damaged or not Parquet, or
    a column is not found. If bad lines are errors, also raises it for a row without a client or a
    text.
    """
    import pyarrow
    import pyarrow.parquet

    if path.is_dir():
        raise errors.DataError(f"{path}: is a folder. Pass the path of a file in it.")
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = _names(file.schema_arrow, options)
            table = columns.choose_columns(names, options, str(path))
            reading.note_columns(table.description)
            column_indices = [
                i for i in (table.client, table.text, table.time) if isinstance(i, int)
            ]
            size = path.stat().st_size
            number = 0
            batches = file.iter_batches(_BATCH_ROWS, columns=[names[i] for i in column_indices])
            for batch in batches:
                # By name, because a batch has the columns in the order of the file.
                read = {name: _values(batch.column(name)) for name in batch.schema.names}
                for row in zip(*(_column(read, names[i]) for i in column_indices), strict=True):
                    number += 1
                    client, text, time = (*row, None)[:3]
                    bad = functools.partial(reading.bad_line, path, number)
                    message = table.message(client, text, time, bad)
                    if message is not None:
                        yield message
                share = number / max(file.metadata.num_rows, 1)
                reading.on_position(bytes_before + int(size * share))
    except FileNotFoundError as error:
        raise unreadable(path, error) from None
    except (pyarrow.ArrowException, UnicodeDecodeError, KeyError):
        raise errors.DataError(
            f"{path}: is not a Parquet file, or is damaged. Copy or download it again."
        ) from None
    except OSError as error:
        raise errors.DataError(f"{path}: cannot be read: {error.strerror or 'damaged'}.") from None


def _names(schema: Any, options: ColumnOptions) -> list[str]:
    """Returns the names of the columns, and of wanted fields inside them (`author.id`)."""
    inside = []
    for name in options:
        above, _, field = name.partition(".")
        if field and name not in schema.names and above in schema.names:
            inside.append(name)
    return [*schema.names, *dict.fromkeys(inside)]


def _column(read: dict[str, list[object]], name: str) -> list[object]:
    """Returns the values of a column, or of a field inside a column of objects."""
    if name in read:
        return read[name]
    above, _, field = name.partition(".")
    return [columns.field_of(v, field) if isinstance(v, dict) else None for v in read[above]]


def _values(column: Any) -> list[object]:
    """Returns the values of a column. Dates and times become seconds since 1970."""
    import pyarrow
    from pyarrow import types

    if not types.is_temporal(column.type):
        return column.to_pylist()
    if not types.is_timestamp(column.type) and not types.is_date(column.type):
        return [None] * len(column)  # times of day and durations
    # Python's times have no nanoseconds, and end with the year 9999.
    times = column.cast(pyarrow.timestamp("us"), safe=False).cast(pyarrow.int64())
    return [None if at is None else at / 1e6 for at in times.to_pylist()]
