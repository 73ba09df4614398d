"""Fine-tunes an exported model on clients' messages, as a phone would, and measures the effect.

tff-keyboard personalise trainable.tflite --text=messages.tsv --user=12
tff-keyboard personalise trainable.tflite --store=data/nus_sms --max-clients=200 --out=personalised

The model must be an export with --trainable. For each client, the first 60 % of the messages are
trained on, the next 20 % decide whether the trained weights are kept, and the last 20 % are
evaluated.

--text reads one client: --user, or the user with the most words in a file with lines of
`user<TAB>message`, oldest first. Writes no files.

--store reads many clients. Each one starts from the exported model. The table shows how many
clients improve and how many get worse. If the model was also exported with --ngram, fine-tuning is
compared with the cache of the client's own words, and with both together. Writes clients.jsonl and
personalisation.json to --out. Run again to resume, or with a larger --max-clients to continue.
"""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

from absl import flags

from tff_keyboard.command_line.options import Population, Positional, TaskOptions
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tff_keyboard_app.personalisation.on_device import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `personalise`."""

    model: Annotated[pathlib.Path, Positional("a .tflite file")]
    text: Annotated[
        pathlib.Path | None,
        "One client: file with lines of user<TAB>message, oldest first, or an exported chat.",
    ] = None
    user: Annotated[
        str | None, "With --text: the user to train on. Default: the user with the most words."
    ] = None
    store: Annotated[pathlib.Path | None, "Many clients: their client store."] = None
    clients: Annotated[Population, "With --store: population."] = "held_out"
    max_clients: Annotated[
        int, "With --store: maximum number of clients, drawn at random.", flags.IntegerParser(1)
    ] = 200
    out: Annotated[
        pathlib.Path,
        "With --store: folder for the results. The folder of an earlier run is continued.",
    ] = pathlib.Path("personalised")
    learning_rate: Annotated[float, "Learning rate of SGD."] = 0.05
    epochs: Annotated[int, "Passes over the messages.", flags.IntegerParser(1)] = 1

    def __post_init__(self) -> None:
        if (self.text is None) == (self.store is None):
            raise UsageError("Pass --text=FILE for one client, or --store=DIR for many.")
        if self.user is not None and self.text is None:
            raise UsageError("--user requires --text=FILE; it cannot be used with --store.")


def run(options: Options) -> None:
    """Trains, measures and prints the tables.

    Raises:
      ExportError: If the model cannot train, if an option is out of range, or if the text does not
        have the user or enough messages.
      DataError: If the store has no such clients, or if --out belongs to another run.
      CheckFailed: If the model crashes the interpreter.
    """
    from tff_keyboard_app.personalisation import on_device
    from tflite_export.format import manifest
    from tflite_export.gate import model_trial, texts

    settings = on_device.Settings(
        learning_rate=options.learning_rate,
        epochs=options.epochs,
    )
    if options.text is not None:
        texts.check_client(options.text, options.user)
    elif options.store is not None:
        read_card(options.store)
    options = dataclasses.replace(options, model=shipped_files.locate(options.model))
    manifest.load_checked(options.model)
    model_trial.use_in_child(options.model)
    if options.text is not None:
        print(_one_client(options, options.text, settings))
    elif options.store is not None:
        print(_many_clients(options, options.store, settings))


def _one_client(options: Options, text: pathlib.Path, settings: "Settings") -> str:
    """Returns the report of one user: that of the options, or the one with the most words."""
    from tff_keyboard_app.personalisation import on_device
    from tflite_export.gate import texts
    from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

    predictor = KeyboardPredictor(options.model)
    clients = texts.from_file(text, predictor.vocabulary.rules)
    user = options.user or max(clients, key=lambda name: sum(map(len, clients[name])))
    report = on_device.personalise(predictor, clients[user], settings).table()
    return report if options.user else f"{texts.who_it_is(user, clients)}\n{report}"


def _many_clients(options: Options, store: pathlib.Path, settings: "Settings") -> str:
    """Returns the summary of many users of a store. Their results are in `options.out`."""
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard_app.personalisation import population
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    summary = population.personalise_clients(
        open_keyboard(options.model),
        ClientStore(store),
        options.clients,
        settings,
        options.out,
        max_clients=options.max_clients,
        seed=1,
    )
    return summary.table()
