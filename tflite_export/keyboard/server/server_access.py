"""Who may use the keyboard page: whoever has the address that `play` printed, and nobody else.

    http://127.0.0.1:8765/PLACE/?token=TOKEN   sets a cookie and sends the browser on to
    http://127.0.0.1:8765/PLACE/               where everything wants that cookie

Every user of a machine reaches its loopback interface, so an address alone is no owner. The token
has 256 random bits, is compared in constant time and stands in the address bar for one redirect; no
answer lets a browser name the address to others. The cookie is for no script, for no page of
another site, and for the random PLACE only, as browsers send cookies to all ports of a host.
Foreign Host headers are refused, too (DNS rebinding), and bodies of unknown length.
"""

import dataclasses
import hmac
import http
import json
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from werkzeug import wrappers

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

HOST = "127.0.0.1"
TOKEN, COOKIE = "token", "tff_keyboard"

HEADERS = {
    # Nothing from outside: no fonts, scripts or pictures of others.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_ALLOWED_HOSTS = {HOST, "localhost", "[::1]"}


@dataclasses.dataclass(frozen=True, repr=False)
class Key:
    """What the owner has and nobody else."""

    place: str = dataclasses.field(default_factory=lambda: secrets.token_urlsafe(9))
    token: str = dataclasses.field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def path(self) -> str:
        """Of the page."""
        return f"/{self.place}/"

    def address(self, port: int) -> str:
        """For the owner's browser."""
        return f"http://{HOST}:{port}{self.path}?{TOKEN}={self.token}"

    def is_among(self, given: Iterable[str]) -> bool:
        """Whether one of them is the token."""
        token = self.token.encode()
        return any(hmac.compare_digest(each.encode("utf-8", "replace"), token) for each in given)


class OwnersOnly:
    """A WSGI application in front of another, which sees only what its owner asks for.

    The other's paths begin behind `key.path`. `admit` is told of each request that showed the key.
    """

    def __init__(
        self,
        application: "WSGIApplication",
        key: Key,
        admit: Callable[["WSGIEnvironment"], None] = lambda environ: None,
    ):
        self._application = application
        self._key = key
        self._admit = admit

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            return start_response(status, [*headers, *HEADERS.items()], *rest)

        return self._answer(wrappers.Request(environ))(environ, start)

    def _answer(self, request: wrappers.Request) -> "WSGIApplication":
        host, path = request.host, self._key.path
        if host not in _ALLOWED_HOSTS and host.rpartition(":")[0] not in _ALLOWED_HOSTS:
            return _refusal("Only pages of this machine may talk to this keyboard.")
        if request.path == path and self._key.is_among(request.args.getlist(TOKEN)):
            return self._welcome()
        is_owner = self._key.is_among(request.cookies.getlist(COOKIE))
        if not is_owner or not request.path.startswith(path):
            return _refusal(
                "This keyboard is its owner's. Open the whole address that `tff-keyboard play` "
                "printed, with its token."
            )
        self._admit(request.environ)
        if "Transfer-Encoding" in request.headers:
            return _refusal("Say how long the body is.", http.HTTPStatus.LENGTH_REQUIRED)
        return self._inside

    def _welcome(self) -> "WSGIApplication":
        response = wrappers.Response(status=http.HTTPStatus.SEE_OTHER)
        response.headers["Location"] = self._key.path
        response.set_cookie(
            COOKIE, self._key.token, path=self._key.path, httponly=True, samesite="Strict"
        )
        return response

    def _inside(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        place, path = self._key.path.rstrip("/"), environ["PATH_INFO"]
        inner = environ | {"SCRIPT_NAME": place, "PATH_INFO": path.removeprefix(place)}
        return self._application(inner, start_response)


def _refusal(why: str, status: int = http.HTTPStatus.FORBIDDEN) -> wrappers.Response:
    content = json.dumps({"error": why})
    return wrappers.Response(content, status=status, content_type="application/json")
