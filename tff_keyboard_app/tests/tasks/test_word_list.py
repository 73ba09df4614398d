"""`word-list`, from a run directory to a list that `compare` reads."""

import functools

import pytest

from tasks.evaluate import compare
from tasks.phone import export
from tests.support.fakes import ledger_header, save_untrained_run, tiny_config
from tff_keyboard.command_line import cli
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models.saved_model import load_model, save_model
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.storage import names
from tff_keyboard_app.aosp import aosp_export, combined_file
from tff_keyboard_app.commands import word_list


@pytest.fixture(scope="module", autouse=True)
def opened_once():
    """Opens each network once, so that it is traced once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aosp_export, "_open", functools.cache(aosp_export._open))
        yield


@pytest.fixture(scope="module")
def data_root(store, tmp_path_factory):
    """Returns a folder with two runs of an untrained CIFG, one of them with a ledger."""
    folder = tmp_path_factory.mktemp("aosp")
    (folder / "store").symlink_to(store)
    config = tiny_config(folder / "store", "model.units=10", "model.embedding_size=6")
    save_untrained_run(folder / "run", config)
    header = ledger_header(uniform_sampling=False, noise_multiplier=8.0)
    save_untrained_run(folder / "private", config)
    PrivacyLedger(folder / "private" / names.LEDGER, header).record(1)
    return folder


def launch(*arguments):
    return cli.launch(word_list, [*map(str, arguments)])


def people_of(store, population):
    return [
        {word for message in store.words(population, person) for word in message}
        for person in store.client_ids(population)
    ]


def test_a_list_of_what_several_people_type(data_root, tmp_path, capsys):
    out, own = tmp_path / "en.combined", tmp_path / "mine.txt"
    own.write_text("omw\ton my way\t\n\tKagi\t\n\tÜber\tde\n")
    assert launch(data_root / "run", f"--out={out}", f"--dictionary={own}") == cli.OK
    lines = capsys.readouterr().out.splitlines()
    words = combined_file.read(out)
    assert lines[0] == (
        f"{out}: {len(words.words):,} words, {words.num_bigrams:,} bigrams, "
        f"{out.stat().st_size:,} bytes"
    )
    store = ClientStore(data_root / "store")
    people = people_of(store, "train")
    assert lines[1] == (
        f"words that only one client typed: 0 (each word needs at least 2 of {len(people)} clients)"
    )
    assert lines[2].startswith("privacy: none. The sums have no noise")
    assert "makedict -s" in lines[3]
    assert "HeliBoard" in lines[3]
    assert f"# {len(people)} clients of 'train'\n# privacy: none." in out.read_text()
    typed = {word: sum(word in person for person in people) for word in store.vocabulary.words}
    assert words.words["Kagi"] == 160
    assert "  shortcut=on my way,f=14" in out.read_text().splitlines()
    listed = {word.lower() for word in words.words} - {"kagi"}
    assert listed == {w for w, n in typed.items() if n >= 2 and combined_file.may_be_listed(w)}
    assert words.num_bigrams > len(words.words)  # an untrained network knows no context
    assert {w for b in words.bigrams.values() for w in b} <= set(words.words)


def test_a_word_needs_the_minimum_number_of_clients(data_root, tmp_path, capsys):
    out = tmp_path / "x.combined"
    arguments = [data_root / "run", f"--out={out}"]
    assert launch(*arguments, "--min-word-users=3") == cli.OK
    words = combined_file.read(out)
    people = people_of(ClientStore(data_root / "store"), "train")
    fewest = min(sum(word.lower() in person for person in people) for word in words.words)
    assert fewest == 3
    assert f"at least 3 of {len(people)} clients" in capsys.readouterr().out
    assert launch(*arguments, "--min-word-users=999") == cli.USAGE
    assert "no word was typed by enough clients" in capsys.readouterr().err


@pytest.mark.slow
def test_the_list_is_compared_beside_its_model(data_root, tmp_path, capsys):
    out = tmp_path / "en.combined"
    public = tmp_path / "public.tsv"
    public.write_text("zebra\t2\n")
    arguments = [data_root / "run", f"--out={out}", "--tail=200", f"--word-list={public}"]
    assert launch(*arguments) == cli.OK
    store = ClientStore(data_root / "store")
    people = people_of(store, "train")
    table = set(store.vocabulary.words)
    beyond = {w.lower() for w in combined_file.read(out).words} - table
    several = {w for p in people for w in p if sum(w in other for other in people) >= 2}
    assert "zebra" in beyond  # of the public list; no client typed it
    assert beyond - {"zebra"} <= several
    arguments = [str(data_root / "run"), str(out), "unigram", f"--out={tmp_path / 'c'}"]
    assert cli.launch(compare, arguments) == cli.OK
    assert "en.combined" in capsys.readouterr().out


def test_words_beyond_the_table_obey_the_same_rule_of_people(data_root, tmp_path, capsys):
    out, public = tmp_path / "en.combined", tmp_path / "public.tsv"
    store = ClientStore(data_root / "store")
    people = people_of(store, "train")
    table = set(store.vocabulary.words)

    def beyond(*flags):
        assert launch(data_root / "run", f"--out={out}", "--tail=200", *flags) == cli.OK
        return {w.lower() for w in combined_file.read(out).words} - table

    def typists(word):
        return sum(word in person for person in people)

    few, many = beyond(), beyond("--min-word-users=3")
    assert min(map(typists, few)) < 3
    assert many == {word for word in few if typists(word) >= 3}
    rare = min(few - many)
    public.write_text(f"{rare}\t2\n")
    with_list = beyond("--min-word-users=3", f"--word-list={public}")
    assert with_list == many | {rare}
    shown = capsys.readouterr().out
    of = f"{len(people)} clients"
    assert (
        f"(each word needs at least 3 of {of}; outside the vocabulary 3 of {of} of 'train')\n"
        in shown
    )
    assert f"3 of {of} of 'train', or an entry in public.tsv)\n" in shown
    assert "several clients typed each word that is not on a public list" in shown


def test_words_of_the_public_list_are_listed_in_any_case(data_root, tmp_path, capsys):
    """Whether no client typed them, or too few; and whether the model knows them or not."""
    out, public = tmp_path / "en.combined", tmp_path / "public.tsv"
    store = ClientStore(data_root / "store")
    people = people_of(store, "train")
    minimum = 3
    rare = next(
        word
        for word in store.vocabulary.words
        if combined_file.may_be_listed(word) and sum(word in p for p in people) in (1, 2)
    )
    public.write_text(f"zebra\t9\nquokka\t3\n{rare}\t1\n")
    flags = [f"--out={out}", f"--min-word-users={minimum}"]
    assert launch(data_root / "run", *flags) == cli.OK
    assert not {"zebra", "quokka", rare} & {word.lower() for word in combined_file.read(out).words}
    assert launch(data_root / "run", *flags, "--tail=500", f"--word-list={public}") == cli.OK
    words = {word.lower(): f for word, f in combined_file.read(out).words.items()}
    assert words["zebra"] > words["quokka"] > 0
    assert words[rare] > 0


def test_a_list_without_a_new_word_names_the_list(data_root, tmp_path, capsys):
    public = tmp_path / "public.tsv"
    public.write_text("zebra9\t9\n")  # a word with a digit is never listed
    flags = [f"--out={tmp_path / 'x.combined'}", "--tail=5", f"--word-list={public}"]
    assert launch(data_root / "run", *flags, "--min-word-users=99") == cli.USAGE
    error = capsys.readouterr().err
    assert f"Add words that are not in the vocabulary to {public}" in error
    assert "Pass a public list" not in error


@pytest.mark.parametrize("run", ["private", "private/model"])
def test_private_runs_are_rejected(data_root, tmp_path, capsys, run):
    out = tmp_path / "en.combined"
    flags = [data_root / run, f"--out={out}", f"--store={data_root / 'store'}"]
    assert launch(*flags) == cli.BAD_INPUT
    assert "was trained with privacy" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--out=x.txt"], cli.USAGE, "--out must end in .combined"),
        (["--word-list=x"], cli.USAGE, "--tail"),
        (["--store={folder}/nowhere"], cli.BAD_INPUT, "nowhere"),
        (["--out={folder}/run/config.toml/x.combined"], cli.MACHINE, "Cannot write"),
    ],
)
def test_refuses_with_one_line(data_root, capsys, arguments, code, message):
    given = [argument.format(folder=data_root) for argument in arguments]
    assert launch(data_root / "run", *given) == code
    error = capsys.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1


def test_an_exported_file_needs_a_store(capsys):
    assert launch("models/messages/keyboard.tflite") == cli.USAGE
    assert "Pass --store=DIR" in capsys.readouterr().err


def test_an_export_that_continues_a_private_run_is_rejected(data_root, tmp_path, capsys):
    model, vocabulary = load_model(data_root / "run")
    save_model(tmp_path / "copy", model, vocabulary, continues_private_run=True)
    exported = tmp_path / "k.tflite"
    assert (
        cli.launch(export, [str(tmp_path / "copy"), f"--out={exported}", "--no-parity"]) == cli.OK
    )
    out = tmp_path / "en.combined"
    assert launch(exported, f"--out={out}", f"--store={data_root / 'store'}") == cli.BAD_INPUT
    assert "or a model before it, was trained with differential privacy" in capsys.readouterr().err
    assert not out.exists()
