"""Finds frequent words outside a vocabulary on devices, without reading their text.

tff-keyboard find-words-on-devices runs/fleet --config=configs/fleet.toml --workdir=words
tff-keyboard find-words-on-devices ... --min-devices=20 --noise-multiplier=1 && \\
    tff-keyboard privacy words

Devices check in as for `serve-rounds`. A group of devices counts the beginnings of new words, the
next group extends those that at least --min-devices devices have, and so on. The server gets only
the masked sum of a group (`devices.secure_sums`). To resume, run the same command again.

Writes new_words.tsv, lines of word<TAB>devices for `export --tail --word-list`, and
extended_vocabulary.txt, the vocabulary of the model with these words for `data.vocabulary_path`.
Without --noise-multiplier, --min-devices is the only protection, and there is NO CLAIM.
"""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

from absl import flags

from tff_keyboard.command_line.options import ConfigOptions, Positional, Workdir
from tff_keyboard.parts.privacy_mechanism import NOISE_MULTIPLIERS
from tff_keyboard.storage import files, names
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tff_keyboard_fleet.on_devices.word_rounds import FoundWords


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """Flags of `find-words-on-devices`."""

    model: Annotated[str, Positional("run directory or folder of the model with the vocabulary")]
    workdir: Workdir
    groups: Annotated[
        int,
        "Largest number of groups of devices. Words of up to groups x letters - 1 letters are "
        "found.",
        flags.IntegerParser(1),
    ] = 8
    min_devices: Annotated[
        int,
        "Number of devices of a group on which a word must be typed, at least 2.",
        flags.IntegerParser(2),
    ] = 10
    max_cells: Annotated[
        int, "Bound on the new words of a device that count.", flags.IntegerParser(1)
    ] = 20
    letters: Annotated[
        int, "Letters by which a group extends the beginning of a word.", flags.IntegerParser(1, 3)
    ] = 2
    slots: Annotated[
        int, "Largest number of beginnings that stay alive.", flags.IntegerParser(1)
    ] = 200
    first_round: Annotated[
        int,
        "Number of the first group's round. An earlier search in the population prints it, because "
        "its devices refuse rounds below.",
        flags.IntegerParser(1),
    ] = 1
    noise_multiplier: Annotated[
        float, "Noise in the counts of a group, in bounds of a device's part. 0: no noise."
    ] = 0.0
    delta: Annotated[float, "Delta of the guarantee, with --noise-multiplier."] = 1e-6
    noise_secret: Annotated[str, "As `aggregation.privacy.noise_secret`."] = ""
    host: Annotated[str, "Address to listen on. Only the proxy should reach it."] = "127.0.0.1"
    port: Annotated[int, "Port. 0 selects a free one.", flags.IntegerParser(0, 65_535)] = 8470

    def __post_init__(self) -> None:
        if self.config is None:
            raise UsageError("`find-words-on-devices` requires --config. See docs/fleet/README.md.")
        try:
            NOISE_MULTIPLIERS.check("--noise-multiplier", self.noise_multiplier)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta must be in (0, 1), got {self.delta}.")


def run(options: Options) -> None:
    """Serves the groups, and writes and prints the words.

    Raises:
      ConfigError, UsageError: If the config or the flags do not fit.
    """
    config = options.run_config()
    from tff_keyboard.models.saved_model import load_model
    from tff_keyboard_fleet.on_devices import served_graph, word_rounds
    from tff_keyboard_fleet.round_server import serving

    settings = word_rounds.SearchSettings(
        groups=options.groups,
        min_devices=options.min_devices,
        max_cells=options.max_cells,
        letters=options.letters,
        slots=options.slots,
        first_round=options.first_round,
        noise_multiplier=options.noise_multiplier,
        delta=options.delta,
        noise_secret=options.noise_secret,
    )
    directory = pathlib.Path(options.model)
    model, vocabulary = load_model(directory)
    found = word_rounds.find_words_on_devices(
        config,
        options.workdir,
        model,
        vocabulary,
        settings,
        directory=directory,
        serve=lambda app: serving.served(app, options.host, options.port),
        graph=served_graph,
    )
    path = options.workdir / names.NEW_WORDS
    files.write_atomically(path, [word_rounds.word_list(found.words)], mode=files.OWNER_ONLY)
    found.vocabulary.save(options.workdir / names.EXTENDED_VOCABULARY)
    for line in report(options, found):
        print(line)


def report(options: Options, found: "FoundWords") -> list[str]:
    """Returns the lines that the command prints about its result."""
    lines = [
        f"{options.workdir / names.NEW_WORDS}: {len(found.words):,} new words, each counted on "
        f"{found.threshold:.1f} devices of a group or more, in {found.groups} groups"
    ]
    if not found.is_over:
        lines.append(
            f"Words of {options.groups * options.letters} letters or more were not finished: use "
            "more --groups to find them."
        )
    if not options.noise_multiplier:
        lines.append(
            "NO CLAIM: without --noise-multiplier, a word was typed on at least "
            f"{options.min_devices} devices of its group, and there is no epsilon."
        )
    # A device of the last group refuses the next `groups` - 1 rounds.
    following = options.first_round + found.groups + options.groups - 1
    lines.append(f"The next search in this population needs --first-round={following} or more.")
    return lines
