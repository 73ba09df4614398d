"""Looks for new words on devices: frequent words outside a vocabulary, without reading text.

Each group of devices counts the cells of the prefixes that earlier groups left alive
(`wire/word_cells.py`, `word_search.py`). Rounds, sums, noise and durability are those of
`summed_rounds.py`. Secure sums are required: without them, the server would read beginnings of
words of each device. The file with the results of groups has only cells above the threshold. This
module needs no TFF.
"""

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models import NextWordModel
from tff_keyboard.privacy.ledger.ledger_header import NEW_WORDS
from tff_keyboard.storage import files, names
from tff_keyboard.storage.errors import ConfigError, UsageError
from tff_keyboard_fleet.on_devices import served_config, word_search
from tff_keyboard_fleet.on_devices.secure_grid import SecureGrid
from tff_keyboard_fleet.on_devices.served_files import GRAPH, TrainingGraphBuilder, graph_of_run
from tff_keyboard_fleet.on_devices.summed_rounds import (
    Facts,
    Serve,
    SummedRounds,
    SumSettings,
    Vectors,
    held_folder,
    open_settings,
)
from tff_keyboard_fleet.on_devices.word_search import GroupResult, WordSearch, alphabet_of
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.wire import messages, word_cells
from tff_keyboard_fleet.wire.plan import Codec, NewWords, Plan

SETTINGS = names.NEW_WORDS_ON_DEVICES  # of the start, which a resumed search must have


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSettings(SumSettings):
    """Settings of a search for new words. The attributes are those of `WordSearch`.

    Attributes:
      min_devices: Number of devices of a group on which a word must be typed.
      max_cells: Largest number of cells of a device.
      letters: Number of letters by which a group extends a prefix.
      slots: Largest number of prefixes that stay alive.
    """

    min_devices: int
    max_cells: int
    letters: int
    slots: int


@dataclasses.dataclass(frozen=True)
class FoundWords:
    """The result of a search.

    Attributes:
      words: The words and their counts (with noise if there is any), the most frequent ones first.
      vocabulary: The known vocabulary, followed by these words.
      threshold: The smallest count of a word.
      groups: Number of groups that took part.
      is_over: False if prefixes were still alive after the last group: longer words may exist.
    """

    words: dict[str, float]
    vocabulary: Vocabulary
    threshold: float
    groups: int
    is_over: bool


def find_words_on_devices(
    config: RunConfig,
    workdir: pathlib.Path,
    model: NextWordModel,
    vocabulary: Vocabulary,
    settings: SearchSettings,
    *,
    directory: pathlib.Path,
    serve: Serve,
    graph: TrainingGraphBuilder,
    clock: Callable[[], float] = time.time,
) -> FoundWords:
    """Looks for new words on devices. Called again with the same arguments, it resumes.

    Args:
      config: `[devices]`, with secure sums, and the report goal and over-selection of `[train]`.
      workdir: Folder of the search, new or of the same search.
      model: The model whose graph tells devices the vocabulary.
      vocabulary: Its words, which are not new.
      settings: The settings.
      directory: Run directory, or folder of the model.
      serve: Serves the application until the search is over.
      graph: Builds the file with the vocabulary.
      clock: Returns seconds since 1970.

    Raises:
      ConfigError, UsageError: If the settings or the config do not fit.
      RunDirectoryError: If the folder has something else, or is damaged.
      ProgramError: If a file cannot be written, or the server was stopped.
    """
    search = _search(config, settings, alphabet_of(vocabulary))
    with held_folder(workdir, SETTINGS, "a search for new words") as run:
        folder = run.round_server
        files.make_directory(folder, mode=0o700, is_part=True)
        blobs = Blobs(folder / "blobs")
        graph_name = blobs.keep(graph_of_run(graph, folder / GRAPH, directory, model, vocabulary))
        on_device = Vocabulary(
            [vocabulary.words[row] for row in graph.rows(vocabulary)], vocabulary.rules
        )
        plan = _plan(config, settings, search.first_work, graph_name, on_device.fingerprint)
        recorded = {**dataclasses.asdict(settings), "plan": plan.sha256}
        results: list[GroupResult] = []

        def result_of(total: np.ndarray) -> Facts:
            work = search.work_after(results)
            assert work is not None
            return dataclasses.asdict(search.result_of(total, work))

        rounds = SummedRounds(
            config,
            run,
            plan,
            settings,
            Vectors(
                clip_norm=word_cells.clip_norm(settings.max_cells),
                step=word_cells.STEP,
                aggregator=NEW_WORDS,
                result_of=result_of,
                is_sound=lambda line: search.is_result(line["prefixes"], line["words"]),
            ),
            recorded=recorded,
            run_id=open_settings(run.path / SETTINGS, recorded),
            blobs=blobs,
            clock=clock,
        )
        with contextlib.closing(rounds):
            results += [GroupResult(line["prefixes"], line["words"]) for line in rounds.results]
            blobs.show(graph_name)
            rounds.restart()
            work = search.work_after(results)
            if work is not None:
                rounds.publish(_with_work(plan, work))
            with serve(rounds.app):
                while work is not None:
                    rounds.next(graph_name, _with_work(plan, work))
                    line = rounds.results[-1]
                    results.append(GroupResult(line["prefixes"], line["words"]))
                    work = search.work_after(results)
    words = {
        word: count
        for word, count in word_search.words_of(results).items()
        if word not in vocabulary.words
    }
    return FoundWords(
        words,
        Vocabulary((*vocabulary.words, *words), vocabulary.rules),
        search.threshold,
        len(results),
        not results[-1].prefixes,
    )


def word_list(words: dict[str, float]) -> bytes:
    """Returns words and counts as the lines that `word_list.read_word_list` reads.

    >>> word_list({"blorp": 12.25})
    b'blorp\\t12.2\\n'
    """
    return "".join(f"{word}\t{count:.1f}\n" for word, count in words.items()).encode()


def _search(config: RunConfig, settings: SearchSettings, alphabet: str) -> WordSearch:
    """Returns the rules of a search. Raises an error if no group can find a word by them."""
    if not config.devices.secure_sums:
        raise ConfigError(
            "`devices.secure_sums` must be true to look for words on devices: without secure sums, "
            "the server would read beginnings of words of each device."
        )
    served_config.check_sums_of_devices(config)
    if not alphabet:
        raise ConfigError("The vocabulary of the model has no letters. Use another model.")
    search = WordSearch(
        alphabet=alphabet,
        letters=settings.letters,
        slots=settings.slots,
        max_cells=settings.max_cells,
        groups=settings.groups,
        min_devices=settings.min_devices,
        noise_multiplier=settings.noise_multiplier,
    )
    if search.threshold > config.train.clients_per_round:
        raise UsageError(
            f"A word must be typed on {search.threshold:.1f} devices (--min-devices and a margin "
            f"for the noise), but a group has `train.clients_per_round` = "
            f"{config.train.clients_per_round}. Use larger groups, fewer --min-devices, less noise "
            "or fewer --max-cells."
        )
    return search


def _with_work(plan: Plan, work: NewWords) -> Plan:
    return dataclasses.replace(plan, new_words=work)


def _plan(
    config: RunConfig, settings: SearchSettings, work: NewWords, graph: str, vocabulary: str
) -> Plan:
    """Returns the plan of the first group.

    Args:
      config: The config of the devices' rounds.
      settings: The settings.
      work: The work of the group.
      graph: Digest of the graph.
      vocabulary: Fingerprint of the vocabulary in the order of the graph.
    """
    grid = SecureGrid(word_cells.clip_norm(settings.max_cells), word_cells.STEP, word_cells.BITS)
    return Plan(
        population=config.devices.population,
        vocabulary=vocabulary,
        graph=graph,
        parameters=0,
        learning_rate=0.0,
        epochs=1,
        max_messages=0,
        max_targets=config.data.max_length,
        weighting="uniform",
        clip=None,
        codec=Codec(name=messages.MASKED),
        phases=["upload"],
        secure_sums=served_config.sums_on_grid(config, grid),
        conditions=served_config.conditions_of(config.devices),
        cache=served_config.cache_of(config.devices),
        min_separation_rounds=settings.groups,
        new_words=work,
    )
