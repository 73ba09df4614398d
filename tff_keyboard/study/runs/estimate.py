"""Estimates, before any is begun, the tokens of a study's runs and the hours they take here.

Tokens are those of the people of the store on average, each cut at `client.max_examples` sequences
and as often as `train.check_in` draws them. Rehearsal adds the general messages that a client is
sent, of the average length in their store.

Hours are at the rate of one run: over the rounds that the study's runs have done, or `ASSUMED_RATE`
before the first. `jobs` runs at a time divide them only where each trains on a node of its own, and
to no less than the longest chain of runs that wait for each other. On one machine they share the
cores, so the sum stays, as a bound: a rate that was measured beside other runs is lower than that
of a run alone.
"""

import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tff_keyboard import config as config_lib
from tff_keyboard.config.sections.fine_tuning_config import RehearsalMethod
from tff_keyboard.data.store.person_sizes import PersonSizes
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host.text_table import aligned
from tff_keyboard.study.plan.plan import Run
from tff_keyboard.study.plan.study_file import Budget
from tff_keyboard.study.runs import budget, runner

ASSUMED_RATE = 4000.0  # tokens a second: small clients, two cores (docs/performance.md)


class Text(NamedTuple):
    """The train population of a store."""

    people: PersonSizes
    tokens: float


def tokens_of(run: Run, stores: dict[str, Text]) -> float:
    """Tokens that a run trains on, about; `stores`, texts by path, is filled in here."""
    config, own = run.config, _text(run.config.data.store, stores)
    clients = config.train.clients_per_round
    if run.task == "train":
        tokens = _tokens_of_client(config, own, stores) * config.client.epochs
    else:  # a round of pooled training is as many messages as clients may have
        messages = config.client.max_examples or own.people.mean(float)
        tokens = messages * own.tokens
        method = config.fine_tuning.method
        if isinstance(method, RehearsalMethod):
            general = _text(config.fine_tuning.general_store, stores)
            added = clients * messages * method.portion / (1 - method.portion)
            tokens += min(added, general.people.messages) / clients * general.tokens
    return config.train.rounds * clients * tokens


def _tokens_of_client(config: config_lib.RunConfig, own: Text, stores: dict[str, Text]) -> float:
    """Tokens of a client in an epoch; `learning/client_inputs.py` and `fine_tuning/rehearsal.py` on
    average.
    """
    method, longest = config.fine_tuning.method, config.data.max_length
    most = config.client.max_examples or math.inf

    def tokens(messages: float) -> float:
        if not isinstance(method, RehearsalMethod):
            return min(messages * own.tokens, most * min(own.tokens, longest))
        general = _text(config.fine_tuning.general_store, stores)
        chosen = min(messages, most)
        added = min(chosen * method.portion / (1 - method.portion), general.people.messages)
        found = chosen * own.tokens + added * general.tokens
        # With `max_examples` it trains on as many sequences as it has messages.
        return min(found, (chosen + added) * longest) if config.client.max_examples else found

    if config.train.check_in == "uniform":
        return own.people.mean(tokens)
    return own.people.mean(tokens, most, config.train.check_in_factor)


def plan_text(
    runs: Sequence[Run],
    *,
    jobs: int,
    limit: Budget | None = None,
    directories: Sequence[pathlib.Path] = (),
) -> str:
    """A line for each arm and point, the sum, and how the budget compares with it."""
    stores: dict[str, Text] = {}
    tokens = {run.path: tokens_of(run, stores) for run in runs}
    finished = {run.path for run in runs if runner.is_finished(run)}
    left = {
        run.path: tokens[run.path] * max(0, 1 - runner.rounds_done(run) / run.config.train.rounds)
        for run in runs
        if run.path not in finished
    }
    rate = measured_rate(runs)
    hours = {path: number / (rate or ASSUMED_RATE) / 3600 for path, number in left.items()}
    pace = f"{rate:,.0f} tokens/s as measured here" if rate else f"{ASSUMED_RATE:,.0f} tokens/s"
    to_go = budget.Amount(math.fsum(hours.values()), math.fsum(left.values()) / 1e6)
    at_a_time = f", {jobs} at a time" if jobs > 1 else ""
    text = (
        f"{_table(runs, tokens, finished)}\n\n{len(runs)} runs{at_a_time}, {len(finished)} "
        f"finished; about {to_go.tokens_m:.1f} M tokens to go, "
        f"{_hours_text(runs, hours, jobs, pace)}."
    )
    if limit is None:
        return text
    return f"{text}\n{budget.compare(limit, budget.used_by(directories), to_go)}"


def _table(
    runs: Sequence[Run], tokens: Mapping[pathlib.Path, float], finished: Collection[pathlib.Path]
) -> str:
    by_variant: dict[str, list[Run]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    rows = [["", "seeds", "rounds", "clients", "M tokens", "done"]]
    for name, members in by_variant.items():
        train = members[0].config.train
        sizes = [str(len(members)), f"{train.rounds:,}", str(train.clients_per_round)]
        millions = f"{sum(tokens[run.path] for run in members) / 1e6:.1f}"
        done = f"{sum(run.path in finished for run in members)}/{len(members)}"
        rows.append([name, *sizes, millions, done])
    return aligned(rows)


def _hours_text(
    runs: Sequence[Run], hours: Mapping[pathlib.Path, float], jobs: int, pace: str
) -> str:
    total = math.fsum(hours.values())
    if jobs == 1:
        return f"{total:.1f} hours at {pace}"
    if all(_has_a_node(run) for run in runs):
        return f"{hours_on_nodes(runs, hours, jobs):.1f} hours at {pace} a run, each on a node"
    return f"at most {total:.1f} hours at {pace} a run: they share this machine's cores"


def hours_on_nodes(runs: Sequence[Run], hours: Mapping[pathlib.Path, float], jobs: int) -> float:
    """Hours from the beginning to the end, with so many runs at a time that do not slow each other.

    What a run waits for comes before it in `runs`; `hours` are those to go by run directory, and
    finished runs need not be there.
    """
    ends: dict[pathlib.Path | None, float] = {None: 0.0}
    for run in runs:
        ends[run.path] = ends[run.after] + hours.get(run.path, 0.0)
    return max(math.fsum(hours.values()) / jobs, *ends.values())


def _has_a_node(run: Run) -> bool:
    execution = run.config.execution
    return execution.engine != "local" and execution.cluster.address != "local"


def measured_rate(runs: Sequence[Run]) -> float:
    """Tokens a second of one run, over all rounds on disk; 0 where there is none."""
    tokens = seconds = 0.0
    for run in runs:
        of_round = budget.tokens_by_round(run.path)
        for round_num, time in budget.seconds_by_round(run.path).items():
            if round_num in of_round:
                tokens += of_round[round_num]
                seconds += time
    return tokens / seconds if seconds else 0.0


def _text(store: str, stores: dict[str, Text]) -> Text:
    if store not in stores:
        train = read_card(pathlib.Path(store))["populations"]["train"]
        tokens = (train["words"] + train["messages"]) / max(train["messages"], 1)
        stores[store] = Text(PersonSizes.of_card(train), tokens)
    return stores[store]
