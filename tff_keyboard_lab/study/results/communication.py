"""Computes the communication of a federated training from the metrics of its run.

    down   the model and the rehearsal messages, to every selected client
    up     the uploads of all clients that reported: as measured by the aggregator if it measures
           them (compression, clients that topK skips), otherwise the whole model

The columns are those of Popov et al. 2018, Table 4, https://arxiv.org/abs/1712.07473.
"""

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from tff_keyboard.storage import npz
from tff_keyboard.storage.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class Communication:
    """Totals of a run. Sizes are in bytes."""

    rounds: int  # finished rounds
    parameters: int
    model_bytes: int  # the model as sent to clients, float32
    uploads_per_round: float  # mean number of clients that reported
    upload_bytes: float  # mean upload of one client
    rehearsal_bytes: float  # mean size of rehearsal messages per client and round
    bytes_down: int  # bytes to all clients, in all rounds
    bytes_up: int  # bytes from all clients, in all rounds

    @property
    def total_bytes(self) -> int:
        """Bytes in both directions."""
        return self.bytes_down + self.bytes_up


def account(
    rows: Iterable[Mapping[str, Any]], *, parameters: int, bytes_per_parameter: int = 4
) -> Communication:
    """Returns the communication totals of a run.

    Args:
      rows: Metrics of each round.
      parameters: Number of model parameters.
      bytes_per_parameter: Size of a parameter sent to clients.

    Raises:
      ValueError: If there are no rows, or they are not from federated training.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("The run has no rounds yet.")
    needed = {"clients", "clients_selected", "bytes_down", "bytes_up"}
    missing = sorted(needed - rows[0].keys())
    if missing:
        raise ValueError(f"Its rounds have no {missing[0]!r}: it is not a federated training.")
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
    """Returns the number of parameters of a run's model.

    Raises `OSError` if there is no model, and `npz.InvalidArchiveError` if it is damaged.
    """
    headers = npz.read_headers(RunDirectory(run_path).weights)
    return sum(header.size for header in headers.values())


def _uploaded(row: Mapping[str, Any]) -> int:
    """Returns the bytes that were sent, without the share of clients that topK skips."""

    def measured(name: str, otherwise: float) -> float:
        return next((x for key, x in row.items() if key.endswith(f"/{name}")), otherwise)

    # The aggregator measures the updates. A client of MimeLite also sends a gradient of the same
    # size, with the same compression, which `bytes_up` contains.
    uncompressed = measured("uncompressed_bytes", row["bytes_up"])
    if not uncompressed:
        return 0
    spared = measured("bytes_not_uploaded", 0) / uncompressed
    uploaded = measured("uploaded_bytes", uncompressed) * (1 - spared)
    return math.floor(uploaded * row["bytes_up"] / uncompressed)
