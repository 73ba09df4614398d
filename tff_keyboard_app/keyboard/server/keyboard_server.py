"""The keyboard page: a local web server that serves the files of `page` and suggestions.

    GET  /                the page; its style and script next to it
    GET  /api/models      facts about each model, and the keys of the first model's language
    POST /api/suggest     {"text": ..., "after": ...} -> one strip for each model, for the text
                          before and after the cursor. "touches" are those of the characters after
                          the last white space (`touches.py`), or null. "sent" is a message that is
                          learnt first, and "kept" its words of which a correction was taken back
    GET  /api/words       the learnt words
    POST /api/forget      {"words": ...} or {"all": true} -> the remaining words
    POST /api/add         {"words": ...}, one word -> the learnt words, with this one
    POST /api/events      {"message": ..., "model": ..., "strips": [...]} -> {}; counts the strips

Learning and forgetting need an owner (`user_history`). Events (`strip_events`)
need a server with a log; its strips also have a "cursor".

The server listens on the loopback interface only, and answers only its owner (`server_access`). It
rejects requests that are not JSON, because a form on another page can send those without asking the
user. The typed text stays in memory, or in the owner's file, and is never logged.
"""

import contextlib
import dataclasses
import http
import io
import json
import pathlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from werkzeug import exceptions, routing, wrappers

from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.storage import json_text
from tff_keyboard.storage.errors import ProgramError, UserError
from tff_keyboard_app.keyboard.multilingual import AnyKeyboard
from tff_keyboard_app.keyboard.server.server_access import HOST, Key, OwnersOnly
from tff_keyboard_app.keyboard.server.server_connections import Server
from tff_keyboard_app.keyboard.strip_events import KeyboardEvents
from tff_keyboard_app.keyboard.touches import Touch
from tff_keyboard_app.keyboard.typed_cache import forget_typed
from tff_keyboard_app.keyboard.user_history import UserHistory

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

PAGE = pathlib.Path(__file__).parent / "page"
LONGEST_TEXT = 20_000  # characters of a message
LONGEST_REQUEST = 4_000_000  # bytes; with --events, the strips of the longest message
MOST_KEYS = 1_000  # the largest coordinate of a touch
WORDS_SHOWN = 60  # maximum number of own words on the page

_CONTENT_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


@dataclasses.dataclass(frozen=True)
class _Wish:
    """A request to add some words, or to forget some or everything."""

    all: bool
    words: str
    adds: bool = False


class KeyboardApplication:
    """The WSGI application of one or two keyboards, by the name to show.

    Args:
      keyboards: The keyboards by name.
      owner: Learns the sent messages. If None, no words are learnt.
      events: Event logs, one for each keyboard, or none.
    """

    def __init__(
        self,
        keyboards: Mapping[str, AnyKeyboard],
        owner: UserHistory | None = None,
        events: Sequence[KeyboardEvents] = (),
    ):
        self._keyboards = dict(keyboards)
        self._events = tuple(events)
        self._owner = owner if owner is not None and owner.can_learn else None
        self._lock = threading.Lock()  # because a model keeps the state of the last text
        self._urls = routing.Map(
            [
                routing.Rule("/", endpoint="index.html", methods=["GET"]),
                *(
                    routing.Rule(f"/{path.name}", endpoint=path.name, methods=["GET"])
                    for path in PAGE.iterdir()
                    if path.suffix in (".css", ".js")
                ),
                routing.Rule("/api/models", endpoint="models", methods=["GET"]),
                routing.Rule("/api/suggest", endpoint="suggest", methods=["POST"]),
                routing.Rule("/api/words", endpoint="words", methods=["GET"]),
                routing.Rule("/api/forget", endpoint="forget", methods=["POST"]),
                routing.Rule("/api/add", endpoint="add", methods=["POST"]),
                routing.Rule("/api/events", endpoint="events", methods=["POST"]),
            ]
        )

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        request = wrappers.Request(environ)
        request.max_content_length = LONGEST_REQUEST
        try:
            response = self._respond(request)
        except exceptions.HTTPException as error:
            status = error.code or http.HTTPStatus.INTERNAL_SERVER_ERROR
            response = _json({"error": error.description}, status)
            if isinstance(error, exceptions.MethodNotAllowed) and error.valid_methods:
                response.headers["Allow"] = ", ".join(error.valid_methods)
        return response(environ, start_response)

    def _respond(self, request: wrappers.Request) -> wrappers.Response:
        """Answers a request of the page for suggestions, for words to learn, or for its files."""
        endpoint, _ = self._urls.bind_to_environ(request.environ).match()
        if endpoint == "models":
            models = [_facts(*item) for item in self._keyboards.items()]
            answer = {"models": models, "logs_events": bool(self._events)}
            first = next(iter(self._keyboards.values()), None)
            if first is not None:  # the page has its keys
                language = first.language
                answer["language"] = {
                    "code": first.code,
                    "keys": language.keys,
                    "held": first.held,
                    "example": language.example,
                }
            return _json(answer)
        if endpoint == "suggest":
            return _json({"models": self._strips(*_texts_of(request))})
        if endpoint == "events":
            self._count(_body_of(request))
            return _json({})
        if endpoint in ("words", "forget", "add"):
            return _json(self._words(_wish_of(request, endpoint)))
        path = PAGE / endpoint
        return wrappers.Response(path.read_bytes(), content_type=_CONTENT_TYPES[path.suffix])

    def _strips(
        self, texts: dict[str, str], exempt_words: list[str], touches: list[Touch | None] | None
    ) -> list[dict[str, object]]:
        """Learns a sent message, and returns the strip of each keyboard as JSON values."""
        strips: list[dict[str, object]] = []
        with self._lock, _errors_on_page():
            if texts["sent"] and self._owner is not None:
                self._owner.learn(texts["sent"], exempt_words)
            elif not texts["text"]:  # after a message that is not learned, which the page keeps
                forget_typed()
            for keyboard in self._keyboards.values():
                try:
                    strip = keyboard.keyboard_strip(texts["text"], texts["after"], touches)
                except ValueError as error:
                    raise exceptions.BadRequest(str(error)) from None
                strips.append(
                    {
                        "slots": [slot and dataclasses.asdict(slot) for slot in strip.slots],
                        "correction": strip.correction and dataclasses.asdict(strip.correction),
                        "latency_ms": 1000 * strip.latency_seconds,
                        "withheld": keyboard.withheld,
                    }
                )
            for strip_json, events in zip(strips, self._events, strict=False):  # there may be none
                strip_json["cursor"] = dataclasses.asdict(events.cursor(texts["text"]))
        return strips

    def _count(self, body: Mapping[str, object]) -> None:
        """Counts the strips of a message that was sent or dropped, for the log."""
        if not self._events:
            raise exceptions.Conflict(
                "This keyboard was started without --events, so it counts nothing."
            )
        message, model = body.get("message"), body.get("model")
        if not (
            isinstance(message, str) and isinstance(model, int) and 0 <= model < len(self._events)
        ):
            raise exceptions.BadRequest(
                'The body must be {"message": "...", "model": 0, "strips": [...]}.'
            )
        _check_length(message)
        with self._lock, _errors_on_page():
            try:
                self._events[model].add_json(body.get("strips"), message)
            except ValueError as error:
                raise exceptions.BadRequest(f"The strips were not counted: {error}.") from None

    def _words(self, wish: _Wish | None) -> dict[str, object]:
        """Grants a request to add or forget, and returns the words in the owner's cache."""
        if self._owner is None:
            if wish is not None:
                raise exceptions.Conflict(
                    "This keyboard does not learn: it was opened without an owner."
                )
            return {"learns": False, "remembered": 0, "own": []}
        with self._lock, _errors_on_page():
            if wish is not None and wish.adds:
                if not self._owner.add(wish.words):
                    raise exceptions.BadRequest(
                        "This is no word that can be learned: it has digits, a space or no letter."
                    )
            elif wish is not None and wish.all:
                self._owner.forget_all()
            elif wish is not None:
                self._owner.forget(wish.words)
            personal_words = self._owner.personal_dictionary()[:WORDS_SHOWN]
            return {
                "learns": True,
                "remembered": self._owner.num_words,
                "own": [
                    {"word": word, "times": times, "offered": self._is_offered(word)}
                    for word, times in personal_words
                ],
            }

    def _is_offered(self, word: str) -> bool:
        return any(keyboard.offers(word) for keyboard in self._keyboards.values())


class KeyboardServer(Server):
    """Serves an application to its owner.

    Attributes:
      address: Address with the token. Only the owner should see it.
    """

    def __init__(self, application: KeyboardApplication, port: int):
        key = Key()
        super().__init__(HOST, port, OwnersOnly(application, key, self.admit))
        self.address = key.address(self.server_port)


@contextlib.contextmanager
def _errors_on_page() -> Iterator[None]:
    """Sends errors that a user can fix to the page, as one line."""
    try:
        yield
    except UserError as error:
        raise exceptions.InternalServerError(str(error)) from None


def make_server(
    keyboards: Mapping[str, AnyKeyboard],
    port: int,
    owner: UserHistory | None = None,
    events: Sequence[KeyboardEvents] = (),
) -> "KeyboardServer":
    """Returns a server on the loopback interface that is bound to a port but does not serve yet.

    Port 0 takes any free port. See `KeyboardApplication` for the other arguments.

    Raises:
      ProgramError: If the port is taken or not allowed.
    """
    application = KeyboardApplication(keyboards, owner, events)
    said = io.StringIO()
    try:
        # werkzeug prints and exits where the address is in use.
        with contextlib.redirect_stderr(said):
            return KeyboardServer(application, port)
    except (OSError, OverflowError, SystemExit) as error:
        why = said.getvalue().partition("\n")[0] or str(error)
        raise ProgramError(
            f"--port={port} on {HOST} cannot be used ({why}). Choose another port, or 0 for any."
        ) from None


def _facts(name: str, keyboard: AnyKeyboard) -> dict[str, object]:
    """Returns facts about the model of a keyboard, or the sums over its models."""
    predictors = keyboard.predictors
    manifests = [predictor.manifest for predictor in predictors]
    return {
        "name": name,
        "quantization": manifests[0].model.quantization,
        "bytes": sum(manifest.model.bytes for manifest in manifests),
        "ngram_bytes": sum(manifest.ngram.bytes for manifest in manifests if manifest.ngram),
        "words": sum(len(predictor.vocabulary) - NUM_SPECIAL for predictor in predictors),
    }


def _body_of(request: wrappers.Request) -> Mapping[str, Any]:
    """Returns the JSON object of a request."""
    if request.mimetype != "application/json":
        raise exceptions.UnsupportedMediaType("The content type must be application/json.")
    try:
        body = json_text.parse(request.get_data(as_text=False))
    except json_text.InvalidJsonError:
        raise exceptions.BadRequest("The body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise exceptions.BadRequest("The body must be a JSON object.")
    return body


def _texts_of(
    request: wrappers.Request,
) -> tuple[dict[str, str], list[str], list[Touch | None] | None]:
    """Returns the texts around the cursor and of the message before, its exempt words, and touches.

    The message is "" if there is none.
    """
    body = _body_of(request)
    texts = {"text": body.get("text"), "after": body.get("after", ""), "sent": body.get("sent", "")}
    exempt_words = body.get("kept", [])
    if not isinstance(exempt_words, list) or not all(
        isinstance(text, str) for text in (*texts.values(), *exempt_words)
    ):
        raise exceptions.BadRequest(
            'The body must be {"text": "...", "after": "...", "sent": "...", "kept": ["..."]}.'
        )
    _check_length(*texts.values(), *exempt_words)
    touches = body.get("touches")
    if touches is not None and not (isinstance(touches, list) and all(map(_is_touch, touches))):
        raise exceptions.BadRequest(
            f'"touches" must be null or a list of null and [x, y], numbers up to {MOST_KEYS}.'
        )
    return texts, exempt_words, touches


def _is_touch(value: object) -> bool:
    """Checks a touch of a request: null, or two numbers, in widths and rows of keys."""
    if value is None:
        return True
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(x) in (int, float) and abs(x) <= MOST_KEYS for x in value)
    )


def _wish_of(request: wrappers.Request, endpoint: str) -> _Wish | None:
    """Returns the words that a request adds or forgets; None if it only asks for the list."""
    if endpoint == "words":
        return None
    body, adds = _body_of(request), endpoint == "add"
    is_all, words = body.get("all") is True and not adds, body.get("words", "")
    if not is_all and not ("words" in body and isinstance(words, str)):
        or_all = "" if adds else ' or {"all": true}'
        raise exceptions.BadRequest(f'The body must be {{"words": "..."}}{or_all}.')
    _check_length(str(words))
    return _Wish(is_all, str(words), adds)


def _check_length(*texts: str) -> None:
    longest = max(map(len, texts))
    if longest > LONGEST_TEXT:
        raise exceptions.RequestEntityTooLarge(
            f"A text can have at most {LONGEST_TEXT:,} characters, got {longest:,}."
        )


def _json(content: Any, status: int = http.HTTPStatus.OK) -> wrappers.Response:
    return wrappers.Response(
        json.dumps(content, ensure_ascii=True), status=status, content_type="application/json"
    )
