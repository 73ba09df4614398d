"""Access control of the keyboard page: only users with the address that `play` printed.

    http://127.0.0.1:8765/PLACE/?token=TOKEN   sets a cookie and redirects the browser to
    http://127.0.0.1:8765/PLACE/               where every request needs that cookie

Every user of a machine can reach its loopback interface, so the port alone identifies no owner. The
token has 256 random bits, is compared in constant time and is in the address bar for one redirect
only; no answer lets a browser send the address to others. The cookie is hidden from scripts, from
pages of other sites, and from paths outside the random PLACE, because browsers send cookies to all
ports of a host. Foreign Host headers are rejected (against DNS rebinding), and bodies of unknown
length.
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
    # The page may load no fonts, scripts or pictures from other hosts.
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
    """The secret of the owner: a random path and a token."""

    place: str = dataclasses.field(default_factory=lambda: secrets.token_urlsafe(9))
    token: str = dataclasses.field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def path(self) -> str:
        """Path of the page."""
        return f"/{self.place}/"

    def address(self, port: int) -> str:
        """Returns the address for the owner's browser."""
        return f"http://{HOST}:{port}{self.path}?{TOKEN}={self.token}"

    def is_among(self, candidates: Iterable[str]) -> bool:
        """Returns whether one of the strings is the token."""
        token = self.token.encode()
        return any(
            hmac.compare_digest(each.encode("utf-8", "replace"), token) for each in candidates
        )


class OwnersOnly:
    """A WSGI application in front of another one, which only passes on requests of the owner.

    The paths of the inner application begin after `key.path`. `admit` is called for each request
    that showed the key.
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
        """Returns the application that answers a request: the keyboard's, or a refusal."""
        host, path = request.host, self._key.path
        if host not in _ALLOWED_HOSTS and host.rpartition(":")[0] not in _ALLOWED_HOSTS:
            return _refusal("Only pages of this machine can use this keyboard.")
        if request.path == path and self._key.is_among(request.args.getlist(TOKEN)):
            return self._welcome()
        is_owner = self._key.is_among(request.cookies.getlist(COOKIE))
        if not is_owner or not request.path.startswith(path):
            return _refusal(
                "The token is missing or wrong. Open the complete address that `tff-keyboard play` "
                "printed."
            )
        self._admit(request.environ)
        if "Transfer-Encoding" in request.headers:
            return _refusal(
                "The request must have a Content-Length.", http.HTTPStatus.LENGTH_REQUIRED
            )
        return self._inside

    def _welcome(self) -> "WSGIApplication":
        """Returns an answer that sets the cookie, and leads to an address without the token."""
        response = wrappers.Response(status=http.HTTPStatus.SEE_OTHER)
        response.headers["Location"] = self._key.path
        response.set_cookie(
            COOKIE, self._key.token, path=self._key.path, httponly=True, samesite="Strict"
        )
        return response

    def _inside(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Calls the keyboard's application with the path below the secret one."""
        prefix, path = self._key.path.rstrip("/"), environ["PATH_INFO"]
        inner = environ | {"SCRIPT_NAME": prefix, "PATH_INFO": path.removeprefix(prefix)}
        return self._application(inner, start_response)


def _refusal(why: str, status: int = http.HTTPStatus.FORBIDDEN) -> wrappers.Response:
    content = json.dumps({"error": why})
    return wrappers.Response(content, status=status, content_type="application/json")
