"""Makes one vocabulary for several corpora: a general one and the users' text, say.

tff-keyboard merge-vocabulary data/general data/nus_sms --out=data/merged.txt [--size=10000]

Each corpus counts equally, however large it is, unless --shares says otherwise; only train
populations count. To encode the corpora with it, prepare them again with
--set=data.vocabulary_path=data/merged.txt.
"""

import dataclasses
import math
import pathlib
from typing import Annotated

from ..options import Range, TaskOptions, Words
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    stores: Annotated[tuple[pathlib.Path, ...], Words("two client stores or more", least=2)]
    out: Annotated[pathlib.Path, "Vocabulary file to write."]
    size: Annotated[int, "V, the rows of the table, the four special ones included.", Range(5)] = (
        10_000
    )
    shares: Annotated[tuple[float, ...], "Weight of each store, as in 1,2; equal if left out."] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shares and not (
            len(self.shares) == len(self.stores)
            and all(0 < share < math.inf for share in self.shares)
        ):
            raise UsageError(
                f"--shares must be {len(self.stores)} numbers > 0, one for each store; got "
                f"{','.join(f'{share:g}' for share in self.shares)}."
            )


def run(options: Options) -> None:
    """Merges, writes the file and prints how much of each corpus it covers."""
    from tff_keyboard.data.preparing.merged_vocabulary import coverage, merge_vocabularies
    from tff_keyboard.data.store.client_store import ClientStore

    stores = [ClientStore(path) for path in options.stores]
    vocabulary = merge_vocabularies(stores, options.size, options.shares or None)
    files.make_directory(options.out.parent)
    vocabulary.save(options.out)
    print(f"{options.out}: {len(vocabulary):,} rows")
    for store in stores:
        own = coverage(store.vocabulary, store, "train")
        merged = coverage(vocabulary, store, "train")
        print(
            f"{store.directory}: {100 * merged:.2f} % of train words in it "
            f"({100 * own:.2f} % in its own vocabulary)"
        )
