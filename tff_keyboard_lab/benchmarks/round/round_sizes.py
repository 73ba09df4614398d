r"""Runs `benchmarks/round/round.py` at three sizes of clients: 1, 13 and 256 messages.

python -m tff_keyboard_lab.benchmarks.round.round_sizes --irc=STORE --sms=STORE \
    --python=VENV/bin/python --jax-python=JAX_VENV/bin/python \
    --out=docs/results/measured/performance_sizes.json --plot=docs/figures/performance_sizes.png

  1 and 13 messages   50 clients of ubuntu_irc, batches of 8
  256 messages        8 clients of NUS SMS, batches of 16

It writes one JSON file and one picture. The clients are the first by id with enough messages, of
which the seed draws a sample. Every size runs in its own process, so that memory is of this size
alone. `--python` has torch, pfl and flwr, `--jax-python` has jax and fedjax; a program that they
cannot import is left out, with the error in the JSON.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
from typing import Any, NamedTuple

from tff_keyboard.host import children

_OTHERS = {"torch": "torch", "pfl": "pfl", "flower": "flwr", "jax": "jax"}  # name -> module
_LABELS = {
    "ours": "ours",
    "defaults": "ours, all protections",
    "stock": "stock TFF",
    "stock_best": "stock TFF, DATASET_ITERATOR",
    "jax": "JAX loop",
    "jax_2": "JAX loop, 2 devices",
    "fedjax": "FedJAX",
    "torch": "PyTorch loop",
    "torch_1": "PyTorch loop, 1 thread",
    "torch_2": "PyTorch loop, 2 processes",
    "pfl": "pfl-research",
    "pfl_1": "pfl-research, 1 thread",
    "flower": "Flower",
}


class Size(NamedTuple):
    """A cohort: its store, clients, messages of each, and batch size."""

    store: str
    clients: int
    messages: int
    batch_size: int


SIZES = {
    "1": Size("irc", 50, 1, 8),
    "13": Size("irc", 50, 13, 8),
    "256": Size("sms", 8, 256, 16),
}


def importable(
    python: str | None, jax_python: str | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns program -> Python for the programs that can be imported, and errors of the others.

    An error is the last line of its message.
    """
    pythons, errors = {}, {}
    for name, module in _OTHERS.items():
        flag = "--jax-python" if name == "jax" else "--python"
        of_program = jax_python if name == "jax" else python
        if of_program is None:
            errors[name] = f"no {flag} given"
            continue
        process = subprocess.run(
            [of_program, "-c", f"import {module}"], capture_output=True, text=True, check=False
        )
        if process.returncode:
            errors[name] = (process.stderr.strip().splitlines() or ["no message"])[-1]
        else:
            pythons[name] = of_program
    return pythons, errors


def command(size: Size, store: pathlib.Path, repeats: int, out: pathlib.Path) -> list[str]:
    """Returns the command of `tff_keyboard_lab.benchmarks.round.round` without other programs."""
    return [
        *children.python_module("tff_keyboard_lab.benchmarks.round.round"),
        f"--store={store}",
        f"--repeats={repeats}",
        f"--clients={size.clients}",
        f"--messages={size.messages}",
        f"--batch-size={size.batch_size}",
        "--no-parts",
        f"--out={out}",
    ]


def table(sizes: dict[str, Any]) -> str:
    """Returns a Markdown table with a row for each contestant and size."""
    lines = [
        "| messages | | clients / s | tokens / s | tokens / CPU s | ours over it, wall | CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for messages, result in sizes.items():
        for name in (name for name in _LABELS if name in result["results"]):
            row = result["results"][name]
            ratios = (result[key].get(name) for key in ("ours_over", "cpu_ours_over"))
            cells = [
                messages,
                _LABELS[name],
                f"{row['clients_per_second']:.1f}",
                f"{row['tokens_per_second']:,.0f}",
                f"{row['tokens_per_cpu_second']:,.0f}",
                *("" if ratio is None else f"{ratio:.1f}" for ratio in ratios),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(sizes: dict[str, Any], path: pathlib.Path) -> None:
    """Draws clients a second, with a column for each size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(sizes), figsize=(4.8 * len(sizes), 3.4), constrained_layout=True, squeeze=False
    )
    for (messages, result), speed in zip(sizes.items(), axes[0], strict=True):
        names = [name for name in _LABELS if name in result["results"]][::-1]
        rates = [result["results"][name]["clients_per_second"] for name in names]
        _bars(speed, names, rates, "{:.1f}")
        speed.set_title(f"{messages} {'message' if messages == '1' else 'messages'} a client")
        speed.set_xlabel("clients a second, wall")
    figure.savefig(path, dpi=110)


def _bars(axis: Any, names: list[str], values: list[float], form: str) -> None:
    colours = ["#1f77b4" if name in ("ours", "defaults") else "#b0b0b0" for name in names]
    bars = axis.barh([_LABELS[name] for name in names], values, color=colours)
    axis.bar_label(bars, [form.format(value) for value in values], padding=3)
    axis.margins(x=0.2)
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--irc", type=pathlib.Path, required=True, help="store of ubuntu_irc")
    parser.add_argument("--sms", type=pathlib.Path, required=True, help="store of NUS SMS")
    parser.add_argument("--python", help="Python that can import torch, pfl and flwr")
    parser.add_argument("--jax-python", help="Python that can import jax and fedjax")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--clients", type=int, help="number of clients, for every size")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file")
    parser.add_argument("--plot", type=pathlib.Path, help="PNG file")
    flags = parser.parse_args()

    peers, errors = importable(flags.python, flags.jax_python)
    for name, error in errors.items():
        print(f"{name} is skipped: {error}", flush=True)
    result: dict[str, Any] = {"left_out": errors, "sizes": {}}
    with tempfile.TemporaryDirectory() as directory:
        for messages in flags.sizes:
            size = SIZES[messages]
            size = size._replace(clients=flags.clients or size.clients)
            part = pathlib.Path(directory) / f"{messages}.json"
            store = flags.irc if size.store == "irc" else flags.sms
            pythons = [f"--{name}-python={python}" for name, python in peers.items()]
            subprocess.run([*command(size, store, flags.repeats, part), *pythons], check=True)
            result["sizes"][messages] = json.loads(part.read_text())
            flags.out.write_text(json.dumps(result, indent=1) + "\n")  # a later size may fail
    print(table(result["sizes"]))
    if flags.plot:
        plot(result["sizes"], flags.plot)


if __name__ == "__main__":
    main()
