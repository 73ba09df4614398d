"""Makes one vocabulary for several corpora: a general one and the users' text, say.

tff-keyboard merge-vocabulary data/general data/nus_sms --out=data/merged.txt [--size=10000]

Each corpus counts equally, however large, or by --shares; only train populations count. Prepare
the corpora again with --set=data.vocabulary_path=data/merged.txt to encode them with it.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from tasks import cli
from tff_keyboard import quiet

FLAGS = flags.FlagValues()  # of this task alone
_OUT = flags.DEFINE_string("out", None, "Vocabulary file to write.", flag_values=FLAGS)
_SIZE = flags.DEFINE_integer(
    "size", 10_000, "V, rows of the table with the four special ones.", flag_values=FLAGS
)
_SHARES = flags.DEFINE_list(
    "shares", None, "Weight of each store, as in 1,2; equal if left out.", flag_values=FLAGS
)


def run(
    store_paths: Sequence[str], out: pathlib.Path, size: int, shares: Sequence[float] | None
) -> None:
    """Merges, writes the file and prints how much of each corpus it covers."""
    quiet.import_tensorflow()
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.store.merged_vocabulary import coverage, merge_vocabularies

    stores = [ClientStore(path) for path in store_paths]
    vocabulary = merge_vocabularies(stores, size, shares)
    vocabulary.save(out)
    print(f"{out}: {len(vocabulary):,} rows")
    for store in stores:
        own = coverage(store.vocabulary, store, "train")
        merged = coverage(vocabulary, store, "train")
        print(
            f"{store.directory}: {100 * merged:.2f} % of train words in it "
            f"({100 * own:.2f} % in its own vocabulary)"
        )


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    if len(argv) < 2:
        raise cli.UsageError("Name two client stores at least. See --help.")
    if not _OUT.value:
        raise cli.UsageError("Give --out=FILE for the vocabulary.")
    if _SIZE.value < 5:
        raise cli.UsageError(f"`--size` must be >= 5, got {_SIZE.value}.")
    out = pathlib.Path(_OUT.value)
    out.parent.mkdir(parents=True, exist_ok=True)
    run(argv, out, _SIZE.value, _parsed_shares(len(argv)))


def _parsed_shares(count: int) -> list[float] | None:
    if _SHARES.value is None:
        return None
    try:
        shares = [float(share) for share in _SHARES.value]
    except ValueError:
        shares = []
    if len(shares) != count or not all(share > 0 for share in shares):
        raise cli.UsageError(
            f"`--shares` must be {count} numbers > 0, one for each store; got "
            f"{','.join(_SHARES.value)!r}."
        )
    return shares


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
