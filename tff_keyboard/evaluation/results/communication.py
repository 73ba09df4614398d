"""Accounts for what a federated training sent over the network, from the metrics of its run.

    down   the model and what is to be rehearsed, to every client that was asked
    up     what every client that reported sent: measured by the aggregator where it measures
           (compression, clients that topK spares), the whole model otherwise

The columns are those of Popov et al. 2018, Table 4, https://arxiv.org/abs/1712.07473.
"""

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tff_keyboard.storage.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class Communication:
    """Totals of a run; sizes in bytes."""

    rounds: int  # rounds done
    parameters: int
    model_bytes: int  # the model as it is sent down, float32
    uploads_per_round: float  # clients that reported, on average
    upload_bytes: float  # one client's upload, on average
    rehearsal_bytes: float  # general messages sent to one client in one round, on average
    bytes_down: int  # bytes to all clients, in all rounds
    bytes_up: int  # bytes from all clients, in all rounds

    @property
    def total_bytes(self) -> int:
        """Both directions."""
        return self.bytes_down + self.bytes_up


def account(
    rows: Iterable[Mapping[str, Any]], *, parameters: int, bytes_per_parameter: int = 4
) -> Communication:
    """Adds a run up, of a model whose parameters are sent down in so many bytes each.

    Raises `ValueError` if there are no rows, or they are not those of federated training.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("The run has no rounds yet.")
    needed = {"clients", "clients_selected", "bytes_down", "bytes_up"}
    missing = sorted(needed - rows[0].keys())
    if missing:
        raise ValueError(f"Its rounds have no {missing[0]!r}: it was not trained federatedly.")
    reports = sum(row["clients"] for row in rows)
    selected = sum(row["clients_selected"] for row in rows)
    rehearsal = sum(row.get("bytes_rehearsal", 0) for row in rows)
    uploaded = sum(_uploaded(row) for row in rows)
    return Communication(
        rounds=len(rows),
        parameters=parameters,
        model_bytes=parameters * bytes_per_parameter,
        uploads_per_round=reports / len(rows),
        upload_bytes=uploaded / reports if reports else 0.0,
        rehearsal_bytes=rehearsal / selected if selected else 0.0,
        bytes_down=sum(row["bytes_down"] for row in rows),
        bytes_up=uploaded,
    )


def num_parameters(run_path: pathlib.Path) -> int:
    """Parameters of the model that a run has left; an `OSError` where there is none."""
    with np.load(RunDirectory(run_path).weights) as arrays:
        return sum(int(arrays[name].size) for name in arrays.files)


def _uploaded(row: Mapping[str, Any]) -> int:
    """What was sent; of clients that topK spares, their share of it."""

    def measured(name: str, otherwise: float) -> float:
        return next((x for key, x in row.items() if key.endswith(f"/{name}")), otherwise)

    whole = measured("uncompressed_bytes", row["bytes_up"])
    spared = measured("bytes_not_uploaded", 0) / whole if whole else 0.0
    return math.floor(measured("uploaded_bytes", whole) * (1 - spared))
