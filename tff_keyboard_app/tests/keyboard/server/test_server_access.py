"""Access to the keyboard page: a token, then a cookie; all other clients are rejected."""

import json
import re
import threading
from urllib import error, parse, request

import pytest
from werkzeug import test as werkzeug_test
from werkzeug import wrappers

from tff_keyboard_app.keyboard.server import keyboard_server, server_access
from tff_keyboard_app.keyboard.server.server_access import Key, OwnersOnly


class Inside:
    """An application that records its requests."""

    def __init__(self):
        self.asked = []

    def __call__(self, environ, start_response):
        asked = wrappers.Request(environ)
        self.asked.append((asked.method, asked.path))
        response = wrappers.Response(asked.get_data(), status=200)
        return response(environ, start_response)


@pytest.fixture
def inside():
    return Inside()


@pytest.fixture
def key():
    return Key()


@pytest.fixture
def front(inside, key):
    return OwnersOnly(inside, key)


@pytest.fixture
def stranger(front):
    return werkzeug_test.Client(front, use_cookies=False)


def owner_of(front, key):
    """Returns a browser that opened the printed address."""
    client = werkzeug_test.Client(front)
    assert client.get(f"{key.path}?token={key.token}").status_code == 303
    return client


PATHS = [
    "/", "/keyboard.js", "/keyboard.css", "/favicon.ico", "/nowhere", "/api/words", "/api/models",
    "/api/suggest", "/api/forget", "//{}api/words", "{}", "{}keyboard.js", "{}api/words",
    "{}api/suggest", "{}nowhere", "{}../api/words",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "DELETE"])
def test_a_stranger_gets_403_for_every_path(stranger, inside, key, path, method):
    answer = stranger.open(path.format(key.path), method=method, json={"all": True})
    assert answer.status_code == 403
    assert inside.asked == []
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "wrong",
    ["", "x", "{}x", "x{}", "%ff%ed%b2%80", "%c3%bc", "%00", "{}%00"],
)
def test_a_wrong_token_is_none(stranger, inside, key, wrong):
    token = wrong.format(key.token)
    assert stranger.get(f"{key.path}?token={token}").status_code == 403
    cookie = f"{server_access.COOKIE}={parse.unquote(token, 'latin-1')}"
    assert stranger.get(key.path, headers={"Cookie": cookie}).status_code == 403
    assert inside.asked == []


def test_the_token_opens_no_other_path(stranger, inside, key):
    for path in ("/", "/api/words", f"{key.path}api/words", f"/{key.place}"):
        assert stranger.get(path, query_string={"token": key.token}).status_code == 403
    assert inside.asked == []


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger, inside, key):
    answer = stranger.get(key.path, query_string={"token": key.token})
    assert (answer.status_code, answer.headers["Location"]) == (303, key.path)
    assert inside.asked == []
    cookie = answer.headers["Set-Cookie"]
    name, *attributes = cookie.split("; ")
    assert name == f"{server_access.COOKIE}={key.token}"
    assert set(attributes) == {"HttpOnly", "SameSite=Strict", f"Path={key.path}"}
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_the_owner_reaches_everything_and_again(front, inside, key):
    owner = owner_of(front, key)
    for _ in range(2):  # the second time is a reload
        assert owner.get(key.path).status_code == 200
        assert owner.get(f"{key.path}keyboard.js").status_code == 200
        assert owner.post(f"{key.path}api/suggest", data=b"abc").data == b"abc"
    assert inside.asked == [("GET", "/"), ("GET", "/keyboard.js"), ("POST", "/api/suggest")] * 2
    assert owner.get(f"{key.path}?token=old").status_code == 200  # the cookie says enough
    assert owner.get("/api/words").status_code == 403


def test_two_keyboards_do_not_share_a_cookie(inside):
    keys = [Key(), Key()]
    fronts = [OwnersOnly(inside, key) for key in keys]
    browser = werkzeug_test.Client(None)  # one for both, as ports do not part cookies
    for front, key in zip(fronts, keys, strict=True):
        browser.application = front
        browser.get(f"{key.path}?token={key.token}")
    for front, key, other in zip(fronts, keys, keys[::-1], strict=True):
        browser.application = front
        assert browser.get(key.path).status_code == 200
        assert browser.get(other.path).status_code == 403
    assert browser.get_cookie(server_access.COOKIE, path="/") is None  # what other ports would see


def test_cookie_of_another_port_does_not_lock_out_the_owner(stranger, key):
    name = server_access.COOKIE
    both = {"Cookie": f"{name}=planted; {name}={key.token}"}
    assert stranger.get(key.path, headers=both).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.example"])
def test_other_names_of_this_machine_are_refused(front, inside, key, host):
    """A page whose name resolves to 127.0.0.1 is rejected, even with the owner's token."""
    stranger = werkzeug_test.Client(front, use_cookies=False)
    answer = stranger.get(key.path, query_string={"token": key.token}, headers={"Host": host})
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (403, False)
    cookie = {"Host": host, "Cookie": f"{server_access.COOKIE}={key.token}"}
    assert stranger.get(key.path, headers=cookie).status_code == 403
    assert inside.asked == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8765", "localhost:1", "localhost", "[::1]"]
)
def test_own_host_names_are_accepted(front, key, host):
    cookie = {"Host": host, "Cookie": f"{server_access.COOKIE}={key.token}"}
    stranger = werkzeug_test.Client(front, use_cookies=False)
    assert stranger.get(key.path, headers=cookie).status_code == 200


def test_a_body_of_unknown_length_is_not_read(front, inside, key):
    owner = owner_of(front, key)
    chunked = {"Transfer-Encoding": "chunked"}
    answer = owner.post(f"{key.path}api/suggest", headers=chunked)
    assert answer.status_code == 411
    assert inside.asked == []


def test_every_answer_has_the_headers(front, key):
    owner = owner_of(front, key)
    paths = ["/", key.path, f"{key.path}?token={key.token}", f"{key.path}keyboard.js"]
    for answer in map(owner.get, paths):
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"


def test_keys_are_long_random_and_not_shown():
    keys = [Key() for _ in range(100)]
    assert len({key.token for key in keys}) == len({key.place for key in keys}) == 100
    assert all(re.fullmatch(r"[\w-]{43}", key.token) for key in keys)
    assert keys[0].token not in repr(keys[0])


def test_the_printed_address_opens_the_page(capfd):
    with keyboard_server.KeyboardServer(keyboard_server.KeyboardApplication({}), 0) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            browser = request.build_opener(request.HTTPCookieProcessor())
            with browser.open(server.address) as answer:
                assert b"<title>tff-keyboard demo</title>" in answer.read()
                assert "token" not in answer.url
            with browser.open(f"{answer.url}api/models") as models:
                assert json.load(models) == {"models": [], "logs_events": False}
            with pytest.raises(error.HTTPError, match="403"):
                request.urlopen(answer.url)
        finally:
            server.shutdown()
            serving.join()
    assert capfd.readouterr() == ("", "")
