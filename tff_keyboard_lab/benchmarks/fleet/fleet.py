r"""Runs a server and the devices of many users, with failures and attacks, and checks the result.

    python -m tff_keyboard_lab.benchmarks.fleet.fleet --store=data/persuasion_for_good \
        --out=build/fleet

Each device is a process: it checks in over TLS, trains on its user's text with LiteRT, and uploads.
A participation is a seat, a kill on the way to one, or an attack. The given shares of
participations are killed at a random moment and started again, are stopped until their round is
over, or attack (`hostile.py`, each kind in turn). The server is killed with SIGKILL at five points
and started again. At the end these must hold: validation loss fell; the final weights are those of
FedAvg in NumPy over the accepted uploads; no answer was 5xx except "busy"; no process is left.
Writes result.json; the exit code is 1 if a check failed.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

from tff_keyboard.command_line import commands
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.host import children
from tff_keyboard.storage import names
from tff_keyboard_lab.benchmarks.fleet import hostile, judge
from tff_keyboard_lab.benchmarks.fleet.people import Person, Shares

CONFIG = """
[model]
type = "cifg"
units = {units}
embedding_size = {dim}
[data]
store = {store}
long_messages = "truncate"
[client]
learning_rate = {rate}
gradient_clip_norm = 0.0
batch_size = 1
epochs = 1
max_examples = {messages}
[server]
type = "fedavg"
learning_rate = 1.0
[aggregation.protection]
type = "off"
{compression}
[train]
rounds = {rounds}
clients_per_round = {goal}
over_selection = 1.3
min_separation_rounds = {separation}
[devices]
deadline_seconds = {deadline}
min_report_fraction = 0.6
[evaluation]
every = 1
clients = 30
"""
# Messages of a device whose round was over before its upload arrived.
TOO_LATE = (": late", ": surplus", ": unknown_round", "closed before", "did not end within")
# When the server is killed: a state of a round, and the minimum number of uploads.
KILLS = (("selecting", 0), ("selecting", 1), ("running", 1), ("aggregating", 0), ("released", 0))


class Server:
    """The process of `serve-rounds`, and the state of its database, read from outside."""

    def __init__(self, config: pathlib.Path, workdir: pathlib.Path, port: int):
        self._command = [
            *(*commands.program(), "serve-rounds", f"--config={config}"),
            *(f"--workdir={workdir}", f"--port={port}"),
        ]
        self.folder = workdir / names.ROUND_SERVER
        self._log = (workdir.parent / "server.log").open("ab")
        self.address = ("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port}"
        self.kills: list[str] = []
        self.places: dict[str, tuple[int, int, int, str]] = {}
        self.start()

    def start(self) -> None:
        """Starts the server with the same command, as an operator does after a crash."""
        command = children.with_parent_death_signal(self._command, signal.SIGKILL)
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def is_there(self) -> bool:
        """Returns whether its port answers."""
        with contextlib.suppress(OSError), socket.create_connection(self.address, timeout=1):
            return True
        return False

    def look(self) -> tuple[int, str, int]:
        """Returns the newest round, its state and its uploads, and notes the accepted uploads."""
        path = self.folder / "rounds.sqlite"
        if not path.exists():
            return 0, "", 0
        try:
            db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)
            try:
                query = "SELECT assignment, number, attempt, place, sha256 FROM seats WHERE place>0"
                for assignment, *seat in db.execute(query):
                    self.places[assignment] = tuple(seat)
                query = (
                    "SELECT number, state, accepted FROM rounds ORDER BY number DESC, attempt DESC"
                )
                newest = db.execute(query).fetchone()
            finally:
                db.close()
        except sqlite3.Error:
            return 0, "", 0
        return newest or (0, "", 0)

    def maybe_kill(self, total_rounds: int) -> None:
        """Kills the server if the next kill is due: one in each of some rounds."""
        if len(self.kills) == len(KILLS) or self.process.poll() is not None:
            return
        state, least = KILLS[len(self.kills)]
        due = 1 + len(self.kills) * max(1, (total_rounds - 1) // len(KILLS))
        number, now, accepted = self.look()
        is_there = now == state and accepted >= least
        if state == "released":  # at the moment in which the next round opens
            is_there, due = now == "selecting" and accepted == 0, due + 1
        if number >= due and is_there:
            self.process.kill()
            self.process.wait()
            self.kills.append(f"round {number}, {now}, {accepted} uploads ({state})")
            self.start()


def main() -> int:
    """Runs the fleet. The exit code is 1 if a check failed."""
    args = _arguments()
    out, rng = args.out.absolute(), random.Random(args.seed)
    if out.exists() and not (out / "copies").is_dir():
        raise SystemExit(f"{out} is not the directory of an earlier fleet. Pass a new one.")
    shutil.rmtree(out, ignore_errors=True)
    (out / "copies").mkdir(parents=True)
    store = ClientStore(args.store)
    ids = sorted(store.client_ids("train"), key=store.pseudonym)[: args.people]
    people = [
        Person(name, out / "devices" / f"{i:03}", [" ".join(w) for w in store.words("train", name)])
        for i, name in enumerate(ids)
    ]
    config = out / "fleet.toml"
    compression = f'[aggregation.compression]\ntype = "uniform_quantization"\nbits = {args.bits}'
    facts = {
        "store": json.dumps(str(args.store.absolute())),
        "compression": "" if args.bits == 32 else compression,
    }
    config.write_text(CONFIG.format(**vars(args) | facts))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(config, out / "run", port)
    _wait_for(lambda: server.is_there() and server.look()[0] > 0, server, 900)
    initial = judge.model_after(server.folder, 0)
    watch = hostile.Connection(server.url)
    began = time.monotonic()
    said: collections.Counter[str] = collections.Counter()
    shares = Shares({"killed": args.killed, "late": args.late, "hostile": args.hostile})
    attackers = Attackers(server, watch, rng, out / "copies", said)
    while server.process.poll() is None:
        number, state, _ = server.look()
        server.maybe_kill(args.rounds)
        for person in people:
            _advance(person, number, state, said, shares)
        running = [p for p in people if p.process is not None and not p.stopped]
        free_ones = [p for p in people if p.process is None and time.time() >= p.not_before]
        seated = [p for p in free_ones if p.has_seat]
        if len(running) < args.at_a_time and (seated or (free_ones and state == "selecting")):
            if seated:
                _begin(seated[0], server.url, out, args)
            elif shares.is_due("hostile") and attackers.begin():
                shares.attacked()
            else:
                person = rng.choice(free_ones)
                shares.begin(person, rng)
                _begin(person, server.url, out, args)
        if time.monotonic() - began > args.seconds:
            server.process.kill()
            print("The fleet did not end in time.", file=sys.stderr)
        time.sleep(0.05)
    server.look()
    for person in people:
        if person.process is not None:
            if person.stopped:  # its round is over, and so are all
                shares.ended(person, happened=True)
            person.process.send_signal(signal.SIGCONT)
            person.process.kill()
            person.process.wait()
    attackers.join()
    result = judge.judge(args, out, server.folder, server.places, initial) | {
        "seconds": round(time.monotonic() - began, 1),
        "load": os.getloadavg(),
        "kills": server.kills,
        "server exit code": server.process.returncode,
        "participations": dict(shares.counts),
        "shares": shares.measured(),
        "devices that began": sum(p.directory.exists() for p in people),
        "said": dict(sorted(said.items())),
        "statuses of attackers": dict(sorted(watch.statuses.items())),
        "wrong answers": attackers.lines + watch.wrong,
        "left over": judge.left_over(out),
    }
    (out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return int(not judge.is_good(result, len(KILLS), shares.targets))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/fleet"))
    for name, default in (
        ("people", 200), ("rounds", 12), ("goal", 10), ("at-a-time", 4), ("seed", 1),
        ("units", 64), ("dim", 32), ("messages", 20), ("separation", 3), ("bits", 32),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, share in (
        ("killed", 0.10), ("late", 0.22), ("hostile", 0.05), ("rate", 0.5), ("deadline", 45.0),
        ("seconds", 7200.0),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=float, default=share)
    parser.add_argument("--libcifg", default="")
    return parser.parse_args()


def _begin(person: Person, url: str, out: pathlib.Path, args: argparse.Namespace) -> None:
    """Starts the device of a user."""
    person.type_on(args.messages)
    person.began, person.round = time.monotonic(), 0
    words = [url, str(person.directory), str(out / "copies"), args.libcifg]
    module = children.python_module("tff_keyboard_lab.benchmarks.fleet.one_device", *words)
    command = children.with_parent_death_signal(module, signal.SIGKILL)
    log = (person.directory / "log").open("ab")
    person.process = subprocess.Popen(command, stdout=log, stderr=log)
    log.close()


def _advance(
    person: Person, number: int, state: str, said: collections.Counter[str], shares: Shares
) -> None:
    """Handles the process of a device: its kill, its stop, its end."""
    process = person.process
    if process is None:
        return
    log = person.directory / "log"
    if not person.round and "a seat in round" in (text := log.read_text()):
        person.round = int(text.split("a seat in round ")[1].split(",")[0])
        shares.seated(person)
        if person.fate == "late":
            process.send_signal(signal.SIGSTOP)
            person.stopped = True
    if person.stopped and (number > person.round or state == "aggregating"):
        process.send_signal(signal.SIGCONT)
        person.stopped = False
    if person.fate == "killed" and time.monotonic() > person.kill_at:
        process.kill()
        is_killed = process.wait() < 0
        said["killed"] += is_killed
        shares.ended(person, happened=is_killed)
        _ended(person)
        log.rename(log.with_name(f"log-{time.time():.3f}"))
    elif process.poll() is not None:
        text = log.read_text()
        is_late = person.fate == "late" and any(word in text for word in TOO_LATE)
        shares.ended(person, happened=is_late)
        _ended(person)
        said[f"exit code {process.returncode}"] += 1
        for line in log.read_text().splitlines():
            words = line.split(" s  ")[-1]
            for key in ("accepted", "not taken", "no seat", "not eligible", "closed", "no part"):
                if key in words:
                    kind = words.split(": ")[1] if key == "not taken" else key
                    said[kind if key != "not taken" else f"not taken: {kind}"] += 1
        log.rename(log.with_name(f"log-{time.time():.3f}"))


def _ended(person: Person) -> None:
    """Notes when a device whose process ended is due again, by the state on its disk."""
    person.process, person.fate, person.stopped = None, "", False
    person.not_before, person.has_seat = time.time() + 3.0, False
    state_file = person.directory / "state.json"
    if state_file.exists():
        state = json.loads(state_file.read_text())
        person.not_before = min(max(person.not_before, state["not_before"]), time.time() + 60)
        person.has_seat = state.get("task") is not None


class Attackers:
    """Attackers, one at a time, each with one attack.

    Attributes:
      lines: Wrong answers to attackers.
    """

    def __init__(
        self,
        server: Server,
        watch: hostile.Connection,
        rng: random.Random,
        copies: pathlib.Path,
        said: collections.Counter[str],
    ):
        self._server, self._watch, self._copies, self._said = server, watch, copies, said
        self._rng, self._thread = rng, threading.Thread()
        self._names: list[str] = []
        self.lines: list[str] = []

    def begin(self) -> bool:
        """Starts the next attacker, if the previous one has ended and the server answers."""
        bodies = [p.read_bytes() for p in sorted(self._copies.iterdir())[:5] if p.name[0] != "."]
        if self._thread.is_alive() or not bodies or not self._server.is_there():
            return False
        self._names = self._names or self._rng.sample(hostile.KINDS, len(hostile.KINDS))
        attacker = hostile.Attacker(self._watch, self._rng.randrange(2**32), bodies)
        arguments = (attacker, self._names.pop(), len(self._server.kills))
        self._thread = threading.Thread(target=self._run, args=arguments)
        self._thread.start()
        return True

    def _run(self, attacker: hostile.Attacker, name: str, kills: int) -> None:
        errors = attacker.run(name)
        self._said[f"attack: {name}"] += 1
        if len(self._server.kills) == kills:  # else its connections were cut
            self.lines += errors

    def join(self) -> None:
        """Waits for the last attacker."""
        if self._thread.ident:
            self._thread.join()


def _wait_for(is_there, server: Server, seconds: float) -> None:
    """Waits until `is_there()`. Ends the program if the server stops, or takes too long."""
    until = time.monotonic() + seconds
    while not is_there():
        if server.process.poll() is not None or time.monotonic() > until:
            raise SystemExit("The server did not start: see server.log.")
        time.sleep(0.2)


if __name__ == "__main__":
    assert threading.current_thread() is threading.main_thread()
    sys.exit(main())
