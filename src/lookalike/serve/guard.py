"""Who may ask, and what a browser may do with an answer: host, origin and token checks, security headers."""

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookalike.serve.problems import problem
from lookalike.serve.settings import ServeSettings

COOKIE = "lookalike_token"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' blob: data:; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}


class Guard:
    """Middleware that checks every request before the application sees it."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a refused request itself."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        answer: ASGIApp | None = None
        if (refusal := self._refusal(headers)) is not None:
            answer = problem(*refusal)
        elif self._settings.token is not None:
            answer = self._token_answer(scope, headers)
        await (answer or self._app)(_plain(scope), receive, send_with_headers)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname if _is_plain(host) else None
        if name is None or not self._settings.allows_host(name):
            return 400, "this server does not answer to that host name; allow it with --allowed-host"
        origin = headers.get("origin")
        if origin is not None and (not _is_plain(origin) or urlsplit(origin).netloc != host):
            return 403, "requests from pages of other sites are not answered"
        return None

    def _token_answer(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        """None for a request with the token; otherwise what it is answered."""
        token = self._settings.token
        assert token is not None
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if scope["path"] == "/" and any(_equal(value, token) for value in given):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return answer
        bearer = headers.get("authorization", "").partition(" ")
        if bearer[0].casefold() == "bearer" and _equal(bearer[2].strip(), token):
            return None
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None and _equal(cookie.value, token):
            return None
        return problem(
            401,
            "this server asks for its token: open the address that it printed, or send Authorization: Bearer TOKEN",
            {"WWW-Authenticate": "Bearer"},
        )


def _plain(scope: Scope) -> Scope:
    """A request as the routes know it: HEAD as GET, since the server drops the body; no slash at the end."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    return {**scope, "method": method, "path": scope["path"].rstrip("/") or "/"}


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def _equal(given: str, token: str) -> bool:
    """Compared in a time that says nothing about where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _is_plain(text: str) -> bool:
    """Whether a header may be parsed as an address at all."""
    try:
        urlsplit(text if "//" in text else f"//{text}").port  # noqa: B018  # raises for a bad port
    except ValueError:
        return False
    return text.isascii() and not any(character in text for character in " @\\#?")
