"""Learning from sent messages, and the file of the cache."""

import fcntl
import json
import os

import pytest
from werkzeug import test as werkzeug_test

from tests.support.keyboard import hybrid_export
from tests.support.own_seconds import own_seconds
from tff_keyboard.predictors.hybrid.word_cache import EDGE, WordCache
from tff_keyboard.storage.errors import DataError, ExportError, ProgramError
from tff_keyboard_app.keyboard import cache_file, terminal_keyboard
from tff_keyboard_app.keyboard.sentences import sentence_of, sentences_of
from tff_keyboard_app.keyboard.server import keyboard_server
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.user_history import UserHistory, held_cache
from tflite_export.runtime.hybrid_keyboard import open_keyboard


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return hybrid_export.export_hybrid(tmp_path_factory.mktemp("owner"))


@pytest.fixture(scope="module")
def opened(path):
    return open_keyboard(path)


@pytest.fixture
def keyboard(opened):
    opened.cache.forget_all()
    return opened


@pytest.fixture
def owner(keyboard, tmp_path):
    return UserHistory([keyboard], keyboard.cache, tmp_path / "words.cache")


def test_a_message_is_learnt_sentence_by_sentence(owner):
    owner.learn("See you, Johann! I'm home. Call 90482211")
    expected = WordCache()
    expected.observe(["see", "you", "johann"], forms=[None, "you", "Johann"])
    expected.observe(["i'm", "home"])
    expected.observe(["call", None])
    assert owner.cache == expected
    owner.learn("  ...  ")
    assert owner.cache == expected


@pytest.mark.parametrize("text", ["Ok. see", "Really?! yes", "a.\nb", "ok... see", "", "one"])
def test_the_last_sentence_is_the_one_the_strip_reads(text):
    assert (sentences_of(text) or [""])[-1] == sentence_of(text)


@pytest.mark.parametrize("word", ["hunter2", "b0b", "covid-19", "2fa", "4111111111111111"])
def test_codes_and_passwords_with_digits_are_never_learnt(owner, tmp_path, word):
    for _ in range(5):
        owner.learn(f"see {word} later", exempt_words=[word])
    assert owner.personal_dictionary() == []
    assert word not in (tmp_path / "words.cache").read_text()


@pytest.mark.parametrize(
    ("text", "gaps"),
    [
        ("my phone is 98 76 54", ["my", "phone", "is", None, None, None]),
        ("code 8 5 2 0 ok", ["code", None, None, None, None, "ok"]),
        ("pw hunter_2 hunter-2 hunter.2 x", ["pw", None, None, None, None, None, "x"]),
        ("pw hunter² ok", ["pw", None, "ok"]),
        ("pw ⅷhunter ①", ["pw", None]),
        ("pin ٤٣٢١ 一二三四", ["pin", None, None]),
        ("pw a_b ok,see", ["pw", "a", "b", "ok", "see"]),
    ],
)
def test_words_with_or_next_to_digits_are_not_learnt(owner, text, gaps):
    owner.learn(text)
    expected = WordCache()
    expected.observe(gaps)
    assert owner.cache == expected


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("ask Zoë and zoë", {"zoë": {"Zoë": 1, "zoë": 1}}),
        ("Zoë is here. Zoë left", {}),  # a sentence begins with a capital
        ("GIANTX won", {"giantx": {"GIANTX": 1}}),
        ("ask GIANTX, eBay's boss", {"giantx": {"GIANTX": 1}, "ebay's": {"eBay's": 1}}),
        ("SEE YOU AT ZOË", {}),  # all of it is in capitals
        ("GIANTX", {}),
        ("ask Zoë2", {}),
        ("so (Zoë)", {"zoë": {"Zoë": 1}}),
        ("see ½ Zoë", {"zoë": {"Zoë": 1}}),
    ],
)
def test_forms_are_those_that_the_sentence_does_not_explain(owner, text, forms):
    owner.learn(text)
    assert owner.cache.forms == forms


def test_own_words_are_listed_in_their_form(owner):
    for _ in range(2):
        owner.learn("see Zoë")
    assert owner.personal_dictionary() == [("Zoë", 2)]
    assert owner.forget("Zoë") == (["zoë"], [])
    assert owner.cache.forms == {}


def test_private_message_is_not_learnt(owner, tmp_path):
    owner.learn("see johann", exempt_words=["johann"], learn=False)
    assert owner.cache == WordCache()
    assert not (tmp_path / "words.cache").exists()


def test_a_word_typed_against_a_correction_is_learnt_at_once(owner, keyboard):
    owner.learn("see Johann. ok zoë", exempt_words=["Johann", "elsewhere"])
    assert owner.cache.exempt_words == {"johann"}
    assert list(keyboard.own_ids) == ["johann"]
    owner.forget("johann")
    assert not owner.cache.exempt_words


def test_the_file_follows_memory(owner, tmp_path):
    file = tmp_path / "words.cache"
    owner.learn("see johann and zoë")
    assert cache_file.load(file) == owner.cache
    assert file.stat().st_mode & 0o777 == 0o600
    owner.forget("Johann")
    never = WordCache()
    never.observe(["see", None, "and", "zoë"])
    assert cache_file.load(file) == owner.cache == never
    assert "johann" not in file.read_text()
    owner.forget_all()
    assert cache_file.load(file) == WordCache()
    assert owner.num_words == 0


def test_words_of_the_table_are_not_own_words(owner):
    owner.learn("see you johann")
    owner.learn("see you johann")
    owner.learn("zoë")
    assert [word for word, _ in owner.personal_dictionary()] == ["johann", "zoë"]
    assert owner.num_words == 4
    assert EDGE in owner.cache.words


def test_write_errors_are_reported(owner, tmp_path, monkeypatch):
    owner.learn("see johann")
    before = (tmp_path / "words.cache").read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ProgramError, match="No space"):
        owner.forget("johann")
    assert "johann" not in owner.cache.words
    assert (tmp_path / "words.cache").read_bytes() == before


class TestHeldCache:
    def test_is_kept_from_one_time_to_the_next(self, tmp_path):
        file = tmp_path / "words.cache"
        with held_cache(file) as (cache, problem):
            assert problem is None
            cache.observe(["hello"])
            cache_file.save(cache, file)
        with held_cache(file) as (again, problem):
            assert problem is None
            assert again == cache

    @pytest.mark.parametrize("content", [b"", b"tff-keyboard word cache 2\n{"])
    def test_a_damaged_file_is_one_line_and_a_fresh_cache(self, tmp_path, content):
        file = tmp_path / "words.cache"
        file.write_bytes(content)
        with held_cache(file) as (cache, problem):
            assert cache == WordCache()
            assert "\n" not in problem
            assert str(file) in problem
            assert "the learned words are lost" in problem
            assert file.read_bytes() == content  # until something is learnt
            cache_file.save(cache, file)
        assert cache_file.load(file) == WordCache()

    @pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * 99])
    def test_another_file_in_its_place_is_refused_and_stays(self, tmp_path, content):
        file = tmp_path / "notes"
        file.write_bytes(content)
        with pytest.raises(DataError, match="not a word cache"), held_cache(file):
            pass
        assert file.read_bytes() == content

    def test_a_directory_in_its_place(self, tmp_path):
        with pytest.raises(DataError, match="not a file"), held_cache(tmp_path / "."):
            pass

    def test_a_pipe_in_its_place_does_not_block(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(DataError, match="not a file"), held_cache(tmp_path / "pipe"):
            pass

    def test_one_process_at_a_time(self, tmp_path):
        file = tmp_path / "words.cache"
        with held_cache(file):
            refused = pytest.raises(ExportError, match="another keyboard is using this cache")
            with refused, held_cache(file):
                pass
        with held_cache(file) as (_, problem):
            assert problem is None
        descriptor = os.open(tmp_path / ".words.cache.lock", os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free again
        os.close(descriptor)

    def test_no_folder(self, tmp_path):
        refused = pytest.raises(ExportError, match="cannot write a word cache")
        with refused, held_cache(tmp_path / "none" / "words.cache"):
            pass


@pytest.mark.parametrize("size", [21_750])
def test_the_largest_cache_that_can_be_is_read_again(tmp_path, size):
    """Words have 40 characters that JSON writes in six bytes each, and each word occurs once."""
    cache = WordCache()
    number = iter(range(10**9))

    def word():
        letters = str.maketrans("0123456789", "abcdefghij")
        return f"{next(number):010}".translate(letters) + "\x01" * 30

    while len(cache.words) < size * 0.9:
        cache.observe([word() for _ in range(4000)])
        if next(number) > 200_000:
            break
    cache_file.save(cache, tmp_path / "c")
    assert (tmp_path / "c").stat().st_size < cache_file.MAX_BYTES
    assert cache_file.load(tmp_path / "c") == cache


# --- the page's server


@pytest.fixture
def client(keyboard, owner):
    application = keyboard_server.KeyboardApplication({"one": AppKeyboard(keyboard)}, owner)
    return werkzeug_test.Client(application)


def post(client, path, **body):
    return client.post(path, json=body, headers={"Host": "127.0.0.1"})


def words(client):
    return client.get("/api/words", headers={"Host": "127.0.0.1"}).get_json()


def test_the_server_learns_what_is_sent_and_nothing_else(client, owner):
    assert words(client) == {"learns": True, "remembered": 0, "own": []}
    post(client, "/api/suggest", text="see johann", after="")
    assert owner.cache == WordCache()
    for times in (1, 2):
        answer = post(client, "/api/suggest", text="", after="", sent="see johann")
        assert answer.status_code == 200
        own = {"word": "johann", "times": times, "offered": times == 2}
        assert words(client)["own"] == [own]
        assert words(client)["remembered"] == 2
    slots = post(client, "/api/suggest", text="j").get_json()["models"][0]["slots"]
    assert "johann" in [slot["word"] for slot in slots if slot]


def test_the_server_forgets(client, owner):
    post(client, "/api/suggest", text="", sent="see johann and zoë")
    left = post(client, "/api/forget", words="johann").get_json()
    assert {entry["word"] for entry in left["own"]} == {"and", "zoë"}
    assert post(client, "/api/forget", all=True).get_json()["remembered"] == 0
    assert owner.cache == WordCache()


def test_the_server_learns_what_was_kept(client, owner):
    post(client, "/api/suggest", text="", sent="see johann", kept=["johann"])
    assert words(client)["own"] == [{"word": "johann", "times": 1, "offered": True}]
    for kept in ("johann", [7], {"johann": 1}):
        assert post(client, "/api/suggest", text="", sent="ok", kept=kept).status_code == 400


def test_the_server_passes_touches_on(client, monkeypatch):
    passed = []
    real = AppKeyboard.scored_strip

    def scored_strip(keyboard, text, after="", touches=None):
        passed.append(touches)
        return real(keyboard, text, after, touches)

    monkeypatch.setattr(AppKeyboard, "scored_strip", scored_strip)
    touches = [[2.0, 1.5], None]
    assert post(client, "/api/suggest", text="I se", touches=touches).status_code == 200
    assert post(client, "/api/suggest", text="I se", touches=None).status_code == 200
    assert passed == [touches, None]


@pytest.mark.parametrize(
    "touches",
    [
        [[2.0, 1.5]],
        [[2.0, 1.5], [1.0]],
        [[2.0, 1.5], [True, 1.0]],
        [[2.0, 1.5], [10**9, 1.0]],
        [[2.0, 1.5], "x"],
        {"x": 1},
        "ab",
    ],
)
def test_bad_touches_are_refused(client, touches):
    answer = post(client, "/api/suggest", text="I se", touches=touches)
    assert answer.status_code == 400
    assert "touch" in answer.get_json()["error"]


@pytest.mark.parametrize("word", ["İstanbul", "İ", "Straße", "ﬁn"])
def test_an_added_word_leaves_a_file_that_can_be_read(owner, tmp_path, word):
    owner.learn("see you there")
    owner.add(word)  # its small letters may be more characters
    read = cache_file.load(tmp_path / "words.cache")
    assert read == owner.cache
    assert "there" in read.words


def test_the_server_adds_a_word_at_once(client, owner):
    answer = post(client, "/api/add", words=" Zbigniew ")
    assert answer.get_json()["own"] == [{"word": "Zbigniew", "times": 2, "offered": True}]
    slots = post(client, "/api/suggest", text="zbi").get_json()["models"][0]["slots"]
    assert "Zbigniew" in [slot["word"] for slot in slots if slot]
    for text in ("two words", "h4x", "", "!", "x" * 60):
        refused = post(client, "/api/add", words=text)
        assert refused.status_code == 400
        assert "no word that can be learned" in refused.get_json()["error"]
    assert post(client, "/api/add", all=True).status_code == 400
    assert owner.num_words == 1
    assert post(client, "/api/forget", words="zbigniew").get_json()["own"] == []


@pytest.mark.parametrize("body", [{}, {"words": 7}, {"all": "yes"}, {"all": False}, []])
def test_invalid_forget_request_is_rejected(client, body):
    answer = client.post("/api/forget", json=body, headers={"Host": "127.0.0.1"})
    assert answer.status_code == 400


def test_other_sites_cannot_make_it_forget(client, owner):
    owner.learn("see johann")
    form = client.post("/api/forget", data={"all": "true"}, headers={"Host": "127.0.0.1"})
    assert form.status_code == 415
    assert owner.num_words == 2


def test_a_keyboard_that_learns_nothing_says_so(keyboard):
    application = keyboard_server.KeyboardApplication({"one": AppKeyboard(keyboard)})
    client = werkzeug_test.Client(application)
    assert words(client)["learns"] is False
    assert post(client, "/api/forget", all=True).status_code == 409
    post(client, "/api/suggest", text="", sent="see johann")
    assert keyboard.cache == WordCache()


def test_a_full_disk_reaches_the_page_as_one_line(client, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    answer = post(client, "/api/suggest", text="", sent="see johann")
    assert answer.status_code == 500
    assert "No space" in json.loads(answer.data)["error"]


# --- terminal


def typed(keyboard, owner, keys):
    keys, shown = iter(keys), []
    session = terminal_keyboard.run(
        AppKeyboard(keyboard), lambda: next(keys, ""), shown.append, owner
    )
    return session, "".join(shown)


def test_a_long_message_is_learnt_in_linear_time(owner):
    """Its emoji are thousands of words of one sentence."""
    with own_seconds() as seconds:
        owner.learn("👍" * 10_000)  # 45 s in quadratic time
        assert seconds() < 10


def test_the_terminal_learns_and_forgets(keyboard, owner):
    session, shown = typed(keyboard, owner, "see johann zoë\n/forget Johann\nok")
    assert session.messages == ["see johann zoë", "ok"]
    assert session.keystrokes == len("see johann zoë") + 1 + len("ok") + 1
    assert terminal_keyboard.OWNER_HELP in shown
    expected = WordCache()
    expected.observe(["see", None, "zoë"])
    expected.observe(["ok"])
    assert owner.cache == expected
    session, shown = typed(keyboard, owner, "/quit\n/forget\n")
    assert session.messages == []
    assert shown.count("Unknown command.") == 2
    assert owner.cache == expected  # no command is learnt as a word
    typed(keyboard, owner, "/forget-all\n")
    assert owner.cache == WordCache()


def test_terminal_learns_the_correction_by_enter_unless_undone(keyboard, owner):
    session, _ = typed(keyboard, owner, "see dont\nok\n")
    assert session.messages == ["see don't", "ok"]
    assert {"don't"} <= owner.cache.words.keys()
    assert "dont" not in owner.cache.words
    owner.forget_all()
    session, _ = typed(keyboard, owner, "see dont\n\x7f\nok\n")
    assert session.messages == ["see dont", "ok"]
    assert owner.cache.exempt_words == {"dont"}
    session, _ = typed(keyboard, owner, "see dont\n")  # and is not corrected again
    assert session.messages == ["see dont"]


def test_terminal_has_a_private_mode(keyboard, owner):
    session, shown = typed(keyboard, owner, "/private\nsee johann\n/private\nsee zoë\n")
    assert session.messages == ["see johann", "see zoë"]
    assert "(not learnt)" in shown
    assert [word for word, _ in owner.personal_dictionary()] == ["zoë"]


def test_terminal_reports_write_errors(keyboard, owner, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    session, shown = typed(keyboard, owner, "see johann\nok\n")
    assert session.messages == ["see johann", "ok"]
    assert "No space" in shown


def test_the_session_of_the_terminal_forgets_its_messages(keyboard, owner):
    """Words that are forgotten, and messages that are not learned, must not stay in memory."""
    text = "my zylquorvan ok\r/private\rpin brewdimple ok\r/forget-all\rok\r"
    keys = iter(text)
    session = terminal_keyboard.run(
        AppKeyboard(keyboard), lambda: next(keys, ""), lambda _: None, owner
    )
    session.noted.clear()  # by these tests
    assert not any(word in repr(session) for word in ("zylquorvan", "brewdimple"))
