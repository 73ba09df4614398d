"""Builds one vocabulary for several corpora, for example a general corpus and the users' text.

tff-keyboard merge-vocabulary data/general data/nus_sms --out=data/merged.txt [--size=10000]

Only the train populations are counted. All corpora have equal weight, whatever their size. To use
the vocabulary, prepare the corpora again with --set=data.vocabulary_path=data/merged.txt.
"""

import dataclasses
import pathlib
from typing import Annotated

from absl import flags

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.storage import files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `merge-vocabulary`."""

    stores: Annotated[
        tuple[pathlib.Path, ...], Positional("at least two client stores", min_count=2)
    ]
    out: Annotated[pathlib.Path, "Vocabulary file to write."]
    size: Annotated[
        int, "Number of rows, including the four special ones.", flags.IntegerParser(5)
    ] = 10_000


def run(options: Options) -> None:
    """Merges, writes the file and prints its coverage of each corpus."""
    from tff_keyboard.data.preparing.merged_vocabulary import coverage, merge_vocabularies
    from tff_keyboard.data.store.client_store import ClientStore

    stores = [ClientStore(path) for path in options.stores]
    vocabulary = merge_vocabularies(stores, options.size)
    files.make_directory(options.out.parent)
    vocabulary.save(options.out)
    print(f"{options.out}: {len(vocabulary):,} rows")
    for store in stores:
        of_store = coverage(store.vocabulary, store, "train")
        merged = coverage(vocabulary, store, "train")
        print(
            f"{store.directory}: covers {100 * merged:.2f} % of the train words "
            f"(the store's own vocabulary: {100 * of_store:.2f} %)"
        )
