"""Estimates the tokens and the hours of a study's runs before they begin.

Tokens are those of the store's clients on average, each cut at `client.max_examples` sequences and
sampled as `train.client_sampling` says. Rehearsal adds the general messages that a client receives,
of the average length in their store.

Hours assume the speed of one run: the mean over the rounds that the study's runs have done, or
`ASSUMED_RATE` before the first round. If `jobs` runs train at a time, the hours are divided by
`jobs` only if each trains on its own node, and not below the longest chain of runs that wait for
each other. On one machine the runs share the cores, so the sum stays, as a bound: a speed that was
measured next to other runs is lower than the speed of a run alone.
"""

import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tff_keyboard import config as config_lib
from tff_keyboard.config.sections.fine_tuning_config import RehearsalMethod
from tff_keyboard.data.store.client_sizes import ClientSizes
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host.text_table import aligned
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.plan.study_file import Budget
from tff_keyboard_lab.study.runs import budget, runner

ASSUMED_RATE = 4000.0  # tokens a second: small clients, two cores (docs/performance.md)
START_SECONDS = (
    20.0  # of a run: imports of TensorFlow, and the graphs of a round, on two free cores
)


class Text(NamedTuple):
    """The train population of a store."""

    people: ClientSizes
    tokens: float


def tokens_of(run: Run, stores: dict[str, Text]) -> float:
    """Returns the estimated tokens of a run.

    `stores`, texts by path, is a cache that is filled here.
    """
    config, text = run.config, _text(run.config.data.store, stores)
    clients = config.train.clients_per_round
    if run.task == "train":
        tokens = _tokens_of_client(config, text, stores) * config.client.epochs
    else:  # a round of pooled training has as many messages as the clients of a round may have
        messages = config.client.max_examples or text.people.mean(float)
        tokens = messages * text.tokens
        method = config.fine_tuning.method
        if isinstance(method, RehearsalMethod):
            general = _text(config.fine_tuning.general_store, stores)
            added = clients * messages * method.portion / (1 - method.portion)
            tokens += min(added, general.people.messages) / clients * general.tokens
    return config.train.rounds * clients * tokens


def _tokens_of_client(config: config_lib.RunConfig, text: Text, stores: dict[str, Text]) -> float:
    """Returns the tokens of a client in an epoch.

    This is the average effect of `algorithms/client_inputs.py` and `fine_tuning/rehearsal.py`.
    """
    method, longest = config.fine_tuning.method, config.data.max_length
    max_sequences = config.client.max_examples or math.inf

    def tokens(messages: float) -> float:
        """Returns the tokens of a client with a number of messages in a round."""
        if not isinstance(method, RehearsalMethod):
            return min(messages * text.tokens, max_sequences * min(text.tokens, longest))
        general = _text(config.fine_tuning.general_store, stores)
        user_sequences = min(messages, max_sequences)
        added = min(user_sequences * method.portion / (1 - method.portion), general.people.messages)
        tokens_of_all = user_sequences * text.tokens + added * general.tokens
        # With `max_examples`, a client trains on as many sequences as it has messages.
        return (
            min(tokens_of_all, (user_sequences + added) * longest)
            if config.client.max_examples
            else tokens_of_all
        )

    if config.train.client_sampling == "uniform":
        return text.people.mean(tokens)
    return text.people.mean(tokens, max_sequences, config.train.max_sampling_ratio)


def plan_text(
    runs: Sequence[Run],
    *,
    jobs: int,
    limit: Budget | None = None,
    directories: Sequence[pathlib.Path] = (),
) -> str:
    """Returns a line for each arm and point, the sum, and a comparison with the budget."""
    stores: dict[str, Text] = {}
    tokens = {run.path: tokens_of(run, stores) for run in runs}
    finished = {run.path for run in runs if runner.is_finished(run)}
    remaining = {
        run.path: tokens[run.path] * max(0, 1 - runner.rounds_done(run) / run.config.train.rounds)
        for run in runs
        if run.path not in finished
    }
    rate = measured_rate(runs)
    hours = {path: number / (rate or ASSUMED_RATE) / 3600 for path, number in remaining.items()}
    pace = f"{rate:,.0f} tokens/s as measured here" if rate else f"{ASSUMED_RATE:,.0f} tokens/s"
    with_starts = {path: number + START_SECONDS / 3600 for path, number in hours.items()}
    to_go = budget.Amount(math.fsum(hours.values()), math.fsum(remaining.values()) / 1e6)
    at_a_time = f", {jobs} at a time" if jobs > 1 else ""
    text = (
        f"{_table(runs, tokens, finished)}\n\n{len(runs)} runs{at_a_time}, {len(finished)} "
        f"finished; about {to_go.tokens_m:.1f} M tokens to go, "
        f"{_hours_text(runs, with_starts, jobs, pace)}."
    )
    if limit is None:
        return text
    return f"{text}\n{budget.compare(limit, budget.used_by(directories), to_go)}"


def _table(
    runs: Sequence[Run], tokens: Mapping[pathlib.Path, float], finished: Collection[pathlib.Path]
) -> str:
    """Returns one row per variant: seeds, rounds, clients, tokens, and finished runs."""
    by_variant: dict[str, list[Run]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    rows = [["", "seeds", "rounds", "clients", "M tokens", "done"]]
    for name, members in by_variant.items():
        train = members[0].config.train
        sizes = [str(len(members)), f"{train.rounds:,}", str(train.clients_per_round)]
        millions = f"{sum(tokens[run.path] for run in members) / 1e6:.1f}"
        num_done = f"{sum(run.path in finished for run in members)}/{len(members)}"
        rows.append([name, *sizes, millions, num_done])
    return aligned(rows)


def _hours_text(
    runs: Sequence[Run], hours: Mapping[pathlib.Path, float], jobs: int, pace: str
) -> str:
    total = math.fsum(hours.values())
    starts = f"{START_SECONDS:.0f} s for the start of each run"
    if jobs == 1:
        return f"{_time(total)} at {pace} and {starts}"
    if all(_has_a_node(run) for run in runs):
        on_nodes = _time(hours_on_nodes(runs, hours, jobs))
        return f"{on_nodes} at {pace} per run, each on its own node, and {starts}"
    return (
        f"at most {_time(total)} at {pace} per run, because they share the cores of this machine, "
        f"and {starts}"
    )


def _time(hours: float) -> str:
    """Returns hours from one hour on, else whole minutes, rounded up.

    >>> _time(2.04), _time(0.51), _time(0.001)
    ('2.0 hours', '31 minutes', '1 minute')
    """
    if hours >= 1:
        return f"{hours:.1f} hours"
    minutes = math.ceil(60 * hours)
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


def hours_on_nodes(runs: Sequence[Run], hours: Mapping[pathlib.Path, float], jobs: int) -> float:
    """Returns the hours from start to end with `jobs` runs at a time on their own nodes.

    A run comes after the run that it waits for in `runs`. `hours` has the remaining hours by run
    directory; finished runs may be missing.
    """
    ends: dict[pathlib.Path | None, float] = {None: 0.0}
    for run in runs:
        ends[run.path] = ends[run.after] + hours.get(run.path, 0.0)
    return max(math.fsum(hours.values()) / jobs, *ends.values())


def _has_a_node(run: Run) -> bool:
    """Checks if the run trains on a cluster other than this machine."""
    execution = run.config.execution
    return execution.engine != "local" and execution.cluster.address != "local"


def measured_rate(runs: Sequence[Run]) -> float:
    """Returns tokens a second of one run, over all rounds on disk; 0 if there are none."""
    tokens = seconds = 0.0
    for run in runs:
        of_round = budget.tokens_by_round(run.path)
        for round_num, time in budget.seconds_by_round(run.path).items():
            if round_num in of_round:
                tokens += of_round[round_num]
                seconds += time
    return tokens / seconds if seconds else 0.0


def _text(store: str, stores: dict[str, Text]) -> Text:
    """Returns the sizes of a store's train text, read once."""
    if store not in stores:
        train = read_card(pathlib.Path(store))["populations"]["train"]
        tokens = (train["words"] + train["messages"]) / max(train["messages"], 1)
        stores[store] = Text(ClientSizes.of_card(train), tokens)
    return stores[store]
