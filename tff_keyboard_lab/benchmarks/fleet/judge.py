"""Checks after a fleet: the weights equal FedAvg over the accepted uploads, and more."""

import argparse
import collections
import json
import os
import pathlib
import sqlite3
from collections.abc import Mapping
from typing import Any

import numpy as np

from tff_keyboard.storage import names, update_codec
from tff_keyboard_fleet.wire import messages, weights

Place = tuple[int, int, int, str]  # round, attempt, place, SHA-256 of the upload's body


def model_after(folder: pathlib.Path, number: int) -> np.ndarray:
    """Returns the weights after a round, [parameters] float64, from the server's folder."""
    with sqlite3.connect(f"{(folder / 'rounds.sqlite').as_uri()}?mode=ro", uri=True) as db:
        query = "SELECT sha256 FROM models WHERE number=?"
        (name,) = db.execute(query, [number]).fetchone()
    return weights.from_bytes((folder / "blobs" / name).read_bytes()).astype(np.float64)


def judge(
    args: argparse.Namespace,
    out: pathlib.Path,
    folder: pathlib.Path,
    places: Mapping[str, Place],
    initial: np.ndarray,
) -> dict[str, Any]:
    """Compares FedAvg in float64 over the accepted uploads with the server's weights."""
    rounds = collections.defaultdict(list)
    lost = 0
    for number, attempt, position, digest in places.values():
        path = out / "copies" / digest
        lost += not path.exists()
        rounds[number, attempt].append((position, path))
    newest = {number: max(a for n, a in rounds if n == number) for number, _ in rounds}
    expected, accepted, median = initial.copy(), 0, 1.0
    for number in sorted(newest):
        total, used, claims = np.zeros_like(expected), 0.0, []
        for _, path in sorted(rounds[number, newest[number]]):
            header, payload = messages.unpack_upload(path.read_bytes())
            delta = (
                weights.from_bytes(payload)
                if header.codec == messages.RAW
                else update_codec.decode(payload, len(expected))
            )
            weight = min(header.weight, 2 * median)  # the guard `weight_cap.py`
            total += weight * delta.astype(np.float64)
            used += weight
            claims.append(header.weight)
        expected += total / used
        median = max(1.0, median * np.exp(np.mean(np.array(claims) > median) - 0.5))
        accepted += len(claims)
    final = model_after(folder, args.rounds)
    rows = [json.loads(line) for line in (out / "run" / names.METRICS).read_text().splitlines()]
    curve = {row["round"]: row["evaluation/perplexity"] for row in rows
             if "evaluation/perplexity" in row}  # fmt: skip
    log = (out / "server.log").read_text()
    return {
        "rounds": len(newest),
        "accepted uploads": accepted,
        "copies missing": lost,
        "largest difference of weights": float(np.abs(final - expected).max()),
        "largest change of weights": float(np.abs(final - initial).max()),
        "validation perplexity": curve,
        "tracebacks": log.count("Traceback"),
    }


def left_over(out: pathlib.Path) -> list[str]:
    """Returns processes of this fleet that still run."""
    processes = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(out) in words and int(path.parent.name) != os.getpid():
            processes.append(words[:200])
    return processes


def is_good(result: Mapping[str, Any], kills: int, target_shares: Mapping[str, float]) -> bool:
    """Returns whether all checks hold and every share is as asked.

    Shares may be off by two participations or 1 %.
    """
    off = max(0.01, 2 / result["participations"]["all"])
    perplexities = list(result["validation perplexity"].values())
    return (
        result["server exit code"] == 0
        and len(result["kills"]) == kills
        and result["copies missing"] == 0
        and all(abs(result["shares"][kind] - share) <= off for kind, share in target_shares.items())
        and result["largest difference of weights"] <= 1e-6
        and len(perplexities) > 1
        and perplexities[-1] < perplexities[0]
        and not (result["tracebacks"] or result["wrong answers"] or result["left over"])
    )
