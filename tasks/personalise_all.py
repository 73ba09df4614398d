"""Fine-tunes an exported model on each person of a population, and says whom it helps and harms.

tff-keyboard personalise-all trainable.tflite --store=data/nus_sms --people=200 --out=personalised

The model is a file of `tff-keyboard export --trainable`. If it was exported with --ngram as well,
fine-tuning is measured beside and together with the cache of the person's own words. Each person
starts from the model as it came: the earlier messages are trained on, those in the middle decide
whether the result is kept, and the later ones are measured. Run again to go on after a stop, or
with more --people. Writes people.jsonl and personalisation.json to --out.
"""

import dataclasses
import pathlib
from typing import Annotated

from tasks.options import Population, Range, Runtime, TaskOptions, Words
from tff_keyboard import quiet
from tff_keyboard.data.store.store_card import read_card


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    model: Annotated[pathlib.Path, Words("a .tflite file")]
    store: Annotated[pathlib.Path, "Client store of the people."]
    clients: Annotated[Population, "Population of the store."] = "held_out"
    people: Annotated[int, "The most people to take, drawn by --seed.", Range(1)] = 200
    seed: Annotated[int, "Seed by which people are drawn.", Range(0)] = 1
    train_share: Annotated[float, "Share of a person's messages to train on, the first ones."] = 0.6
    validation_share: Annotated[float, "Share after those, which decides what is kept."] = 0.2
    learning_rate: Annotated[float, "Learning rate of the SGD."] = 0.05
    epochs: Annotated[int, "Passes over the messages."] = 1
    most_messages: Annotated[int, "The most messages of a person, the latest ones."] = 400
    out: Annotated[
        pathlib.Path, "Folder of the results; give that of an earlier run to go on with it."
    ] = pathlib.Path("personalised")
    runtime: Runtime = None


def run(options: Options) -> None:
    """Trains, measures and prints the tables.

    Raises:
      ExportError: The model cannot train, or an option is out of range.
      DataError: The store has no such people, or --out is of another run.
    """
    from tflite_export.everybody import Settings

    settings = Settings(
        train_share=options.train_share,
        validation_share=options.validation_share,
        learning_rate=options.learning_rate,
        epochs=options.epochs,
        most_messages=options.most_messages,
    )
    read_card(options.store)  # before TensorFlow is imported
    quiet.import_tensorflow()
    from tff_keyboard.data.store.client_store import ClientStore
    from tflite_export import everybody_run
    from tflite_export.hybrid_keyboard import open_keyboard

    summary = everybody_run.personalise_people(
        open_keyboard(options.model, runtime=options.runtime),
        ClientStore(options.store),
        options.clients,
        settings,
        options.out,
        most=options.people,
        seed=options.seed,
    )
    print(summary.table())
