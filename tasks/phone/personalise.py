"""Trains an exported model on messages of a person, as a phone would, and says what it is worth.

tff-keyboard personalise trainable.tflite --text=messages.tsv --user=12
tff-keyboard personalise trainable.tflite --store=data/nus_sms --people=200 --out=personalised

The model is a file of `tff-keyboard export --trainable`. Of a person's messages the first 60 % are
trained on, the next 20 % decide whether the result is kept, and the last 20 % are measured.

--text is one person: --user, or whoever has the most words in a file of lines `user<TAB>message`,
oldest first. Nothing is written.

--store is many people, each from the model as it came: whom it helps and harms. If the model was
exported with --ngram as well, fine-tuning is measured beside and together with the cache of the
person's own words. Run again to go on after a stop, or with more --people. Writes people.jsonl and
personalisation.json to --out.
"""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

from ..options import Population, Range, Runtime, TaskOptions, Words
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tflite_export.personalisation.on_device import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    model: Annotated[pathlib.Path, Words("a .tflite file")]
    text: Annotated[
        pathlib.Path | None, "One person: file of messages, user<TAB>message, oldest first."
    ] = None
    user: Annotated[
        str | None, "With --text: whose messages; whoever has the most words if left out."
    ] = None
    store: Annotated[pathlib.Path | None, "Many people: their client store."] = None
    clients: Annotated[Population, "With --store: its population."] = "held_out"
    people: Annotated[int, "With --store: the most people, drawn by --seed.", Range(1)] = 200
    seed: Annotated[int, "With --store: seed by which people are drawn.", Range(0)] = 1
    out: Annotated[
        pathlib.Path,
        "With --store: folder of the results; give that of an earlier run to go on with it.",
    ] = pathlib.Path("personalised")
    train_share: Annotated[float, "Share of a person's messages to train on, the first ones."] = 0.6
    validation_share: Annotated[float, "Share after those, which decides what is kept."] = 0.2
    learning_rate: Annotated[float, "Learning rate of the SGD."] = 0.05
    epochs: Annotated[int, "Passes over the messages.", Range(1)] = 1
    most_messages: Annotated[int, "The most messages of a person, the latest ones."] = 400
    runtime: Runtime = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.text is None) == (self.store is None):
            raise UsageError("Give --text=FILE for one person, or --store=DIR for many.")
        if self.user is not None and self.text is None:
            raise UsageError("--user names one person: give --text=FILE with it, not --store.")


def run(options: Options) -> None:
    """Trains, measures and prints the tables.

    Raises:
      ExportError: The model cannot train, an option is out of range, or the text has no such user
        or too few messages.
      DataError: The store has no such people, or --out is of another run.
      CheckFailed: The model crashes the interpreter.
    """
    from tflite_export.format import manifest
    from tflite_export.gate import model_trial, texts
    from tflite_export.personalisation import on_device

    settings = on_device.Settings(
        train_share=options.train_share,
        validation_share=options.validation_share,
        learning_rate=options.learning_rate,
        epochs=options.epochs,
        most_messages=options.most_messages,
    )
    if options.text is not None:
        texts.check_person(options.text, options.user)
    elif options.store is not None:
        read_card(options.store)
    options = dataclasses.replace(options, model=shipped_files.found(options.model))
    manifest.load_checked(options.model)
    model_trial.use_in_child(options.model, options.runtime)
    if options.text is not None:
        print(_one_person(options, options.text, settings))
    elif options.store is not None:
        print(_many_people(options, options.store, settings))


def _one_person(options: Options, text: pathlib.Path, settings: "Settings") -> str:
    from tflite_export.gate import texts
    from tflite_export.personalisation import on_device
    from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

    predictor = KeyboardPredictor(options.model, runtime=options.runtime)
    people = texts.from_file(text, predictor.vocabulary.rules)
    user = options.user or max(people, key=lambda name: sum(map(len, people[name])))
    report = on_device.personalise(predictor, people[user], settings).table()
    return report if options.user else f"{texts.who_it_is(user, people)}\n{report}"


def _many_people(options: Options, store: pathlib.Path, settings: "Settings") -> str:
    from tff_keyboard.data.store.client_store import ClientStore
    from tflite_export.personalisation import population
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    summary = population.personalise_people(
        open_keyboard(options.model, runtime=options.runtime),
        ClientStore(store),
        options.clients,
        settings,
        options.out,
        most=options.people,
        seed=options.seed,
    )
    return summary.table()
