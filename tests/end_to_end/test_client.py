"""client.js in Chromium, on a page of another origin: tabs, storage, lost answers, other users.

The service runs in this process, so that answers can get lost after it has acted. A page's clock is
moved, and no test waits for a token to expire.
"""

import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from flask import Flask
from helpers import PASSWORD, execute, rows
from real_service import serving
from sqlalchemy import delete

from models import UserSession

pytestmark = pytest.mark.browser

HOUR = 3_600_000
PAGE = """<!doctype html><title>A front end</title><link rel="icon" href="data:,">
<script type="module">
import { createClient, Problem } from "SERVICE/client.js";
const heard = [];
const storage = new URLSearchParams(location.search).get("storage");
const client = createClient({ url: "SERVICE", storage });
client.onChange((user, why) => heard.push(`${why} ${user?.username ?? "nobody"}`));
// What a promise gives: its value, or the code of its Problem.
const told = (promise) => promise.then(
  (value) => value?.username ?? value ?? "nothing",
  (problem) => (problem instanceof Problem ? problem.code : `${problem}`));
Object.assign(window, { client, heard, told, Problem });
</script>"""
# The clock can be moved; without locks, as on plain http; without storage, as where it is blocked.
CLOCK = "window.late = 0; const now = Date.now; Date.now = () => now() + window.late;"
NO_LOCKS = "Object.defineProperty(navigator, 'locks', { value: undefined });"
BLOCKED = """for (const name of ["localStorage", "sessionStorage"])
 Object.defineProperty(window, name, { get() { throw new DOMException("", "SecurityError"); } });"""
FULL = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); };"
NO_CHANNEL = "delete window.BroadcastChannel;"


class Wire:
    """Between browser and service: holds a call back, or loses its answer."""

    def __init__(self, app):
        self.inner, self.calls, self.lost, self.held = app.wsgi_app, [], 0, None
        app.wsgi_app = self

    def __call__(self, environ, start_response):
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if method != "OPTIONS" and path.startswith("/api/"):
            self.calls.append(path.removeprefix("/api/"))
        is_refresh = path == "/api/auth/refresh" and method == "POST"
        held = self.held
        if is_refresh and held and not held.met.is_set():
            held.met.set()
            held.go.wait(20)
        answer = self.inner(environ, start_response)
        if is_refresh and self.lost:
            self.lost -= 1
            b"".join(answer)
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        return answer

    @contextmanager
    def holding(self):
        """Hold the next refresh back until the end."""
        self.held = SimpleNamespace(met=threading.Event(), go=threading.Event())
        try:
            yield self.held
        finally:
            self.held.go.set()


@pytest.fixture
def world(make_app, browser):
    """A service, a front end, and `open(storage)`, which opens a tab of one browser."""
    pages = Flask("front_end")
    texts = {}
    pages.add_url_rule("/", "page", lambda: texts["page"])
    with serving(pages) as front:
        origins = (front, front.replace("127.0.0.1", "localhost"))
        app = make_app(cors_origins=origins, public_url="http://127.0.0.1:1")
        wire = Wire(app)
        with serving(app) as url:
            texts["page"] = PAGE.replace("SERVICE", url)
            context = browser.new_context()
            context.set_default_timeout(15_000)
            context.add_init_script(CLOCK)

            def open(storage="cookie", host="127.0.0.1", before=""):
                tab = context.new_page()
                if before:
                    tab.add_init_script(before)
                tab.goto(f"{front.replace('127.0.0.1', host)}/?storage={storage}")
                tab.wait_for_function("window.client")
                return Tab(tab)

            yield SimpleNamespace(app=app, wire=wire, open=open, url=url, context=context)
            context.close()


class Tab:
    def __init__(self, page):
        self.page = page

    def do(self, expression, argument=None):
        """Return what a promise gives, or its problem's code."""
        return self.page.evaluate(f"(argument) => told({expression})", argument)

    def begin(self, name, expression):
        """Begin something whose end is read by `end`."""
        self.page.evaluate(f"() => {{ window.{name} = told({expression}); }}")

    def end(self, name):
        return self.page.evaluate(f"() => window.{name}")

    def sign_in(self, user, **more):
        login = {"email": user.username, "password": PASSWORD, **more}
        return self.do("client.signIn(argument)", login)

    def verify(self):
        return self.do("client.call('GET', 'auth/verify').then(({ user }) => user)")

    def later(self, by=HOUR):
        self.page.evaluate("(by) => { window.late += by; }", by)

    def is_user(self, name):
        self.page.wait_for_function("(name) => (client.user?.username ?? null) === name", arg=name)

    @property
    def heard(self):
        return self.page.evaluate("heard")

    def reload(self):
        self.page.reload()
        self.page.wait_for_function("window.client")


both = pytest.mark.parametrize("storage", ["cookie", "local"])
each = pytest.mark.parametrize("storage", ["cookie", "local", "memory"])


@both
@pytest.mark.parametrize(
    "before", ["", NO_LOCKS, NO_CHANNEL], ids=["usual", "no locks", "no channel"]
)
def test_three_tabs_are_one_session(world, make_user, storage, before):
    ada = make_user("ada")
    tabs = [world.open(storage, before=before) for _ in range(3)]
    for tab in tabs:
        assert tab.do("client.resume()") == "nothing"
        for other in tabs if storage == "cookie" else ():  # they may read it a moment later
            other.page.wait_for_function("Object.values(localStorage)[0] === 'ended'")
    # Whether there is a cookie is asked once.
    assert world.wire.calls == (["auth/refresh"] if storage == "cookie" else [])
    assert tabs[0].sign_in(ada) == "ada"
    for tab in tabs:
        tab.is_user("ada")
        assert tab.verify() == "ada"
    for _ in range(3):
        for tab in tabs:
            tab.later()
            tab.begin("found", "client.call('GET', 'auth/verify').then(({ user }) => user)")
        assert [tab.end("found") for tab in tabs] == ["ada"] * 3
    assert len(rows(world.app, UserSession)) == 1
    tabs[1].reload()
    assert tabs[1].do("client.resume()") == "ada"
    assert tabs[2].do("client.signOut()") == "nothing"
    for tab in tabs:
        tab.is_user(None)
        assert tab.verify() == "token_missing"
    assert tabs[0].heard == ["signed_in ada", "signed_out nobody"]
    assert rows(world.app, UserSession) == []


@each
def test_a_reload_is_signed_in_with_what_the_storage_has(world, make_user, storage):
    tab = world.open(storage)
    tab.sign_in(make_user("ada"))
    tab.reload()
    world.wire.calls.clear()
    assert tab.do("client.resume()") == {"memory": "nothing"}.get(storage, "ada")
    assert world.wire.calls == (["auth/refresh"] if storage == "cookie" else [])


CLEAR = "() => { localStorage.clear(); sessionStorage.clear(); }"


@pytest.mark.parametrize("own", [True, False])
def test_a_browser_that_has_forgotten_is_signed_in_by_its_cookie(world, make_user, own):
    """Safari drops what scripts store after seven days; it may also be a shared computer."""
    tab = world.open()
    tab.sign_in(make_user("ada"), ownDevice=own)
    tab.page.evaluate(CLEAR)
    tab.reload()
    assert tab.do("client.resume()") == "ada"
    assert tab.page.evaluate("client.ownDevice") is False
    (cookie,) = world.context.cookies(world.url)
    assert cookie["expires"] == -1
    assert len(rows(world.app, UserSession)) == 1
    tab.reload()
    assert tab.do("client.resume()") == "ada"


def test_a_tab_whose_storage_is_cleared_goes_on_as_it_was(world, make_user):
    tab, other = world.open(), world.open()
    tab.sign_in(make_user("ada"), ownDevice=True)
    other.is_user("ada")
    other.page.evaluate(CLEAR)
    for each in (tab, other):
        assert each.page.evaluate("client.ownDevice") is True
        each.later()
        assert each.verify() == "ada"
    (cookie,) = world.context.cookies(world.url)
    assert cookie["expires"] > 0
    assert tab.heard == other.heard == ["signed_in ada"]
    other.page.evaluate(CLEAR)
    assert tab.do("client.signOut()") == "nothing"
    assert world.context.cookies(world.url) == []


def test_who_has_signed_out_here_does_not_come_back(world, make_user):
    """Though somebody signs in at another front end, and the cookie is the same."""
    tab, ada = world.open(), make_user("ada")
    tab.sign_in(ada)
    tab.do("client.signOut()")
    headers = "{ 'Content-Type': 'application/json', 'X-Refresh-Cookie': '1' }"
    body = f'{{"email": "ada", "password": "{PASSWORD}"}}'
    options = f"{{ method: 'POST', credentials: 'include', headers: {headers}, body: '{body}' }}"
    tab.page.evaluate(f"fetch('{world.url}/api/auth/login', {options}).then(() => 0)")
    assert len(world.context.cookies(world.url)) == 1
    tab.reload()
    world.wire.calls.clear()
    assert tab.do("client.resume()") == "nothing"
    assert world.wire.calls == []


def test_a_visitor_is_asked_for_once_and_again_only_where_no_answer_came(world):
    tab = world.open()
    world.context.set_offline(True)
    assert tab.do("client.resume()") == "no_response"
    world.context.set_offline(False)
    for calls in (["auth/refresh"], []):
        world.wire.calls.clear()
        assert tab.do("client.resume()") == "nothing"
        assert world.wire.calls == calls
        tab.reload()
    tab.page.evaluate(CLEAR)
    tab.reload()
    assert tab.do("client.resume()") == "nothing"
    assert world.wire.calls == ["auth/refresh"]


@both
@pytest.mark.parametrize("before", [BLOCKED, FULL], ids=["blocked", "full"])
def test_without_storage_a_tab_is_alone(world, make_user, storage, before):
    tab, other = world.open(storage, before=before), world.open(storage, before=before)
    assert tab.sign_in(make_user("ada")) == "ada"
    tab.later()
    assert tab.verify() == "ada"
    assert other.do("client.resume()") == "nothing"
    assert tab.do("client.signOut()") == "nothing"
    assert tab.verify() == "token_missing"


@pytest.mark.parametrize(("storage", "later"), [("cookie", "local"), ("local", "cookie")])
def test_a_front_end_may_change_its_storage(world, make_user, storage, later):
    ada = make_user("ada")
    world.open(storage).sign_in(ada)
    tab = world.open(later)
    assert tab.do("client.resume()") == "nothing"
    assert tab.sign_in(ada) == "ada"
    tab.reload()
    assert tab.do("client.resume()") == "ada"


def test_an_unknown_storage_stores_nothing(world, make_user):
    tab = world.open("sessionStorage")
    assert tab.sign_in(make_user("ada")) == "ada"
    assert tab.page.evaluate("localStorage.length") == 0


@both
def test_a_page_that_comes_back_is_signed_in_as_the_others_are(world, make_user, storage):
    deaf = "addEventListener('storage', (event) => event.stopImmediatePropagation());"
    tab, other = world.open(storage, before=deaf), world.open(storage)
    other.sign_in(make_user("ada"))
    assert tab.page.evaluate("client.user") is None
    tab.page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    tab.is_user("ada")


@both
@pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["slow", "fast"])
def test_a_clock_that_is_wrong_changes_nothing(world, make_user, storage, by):
    tab, other = world.open(storage), world.open(storage)
    tab.later(by)
    tab.sign_in(make_user("ada"))
    other.is_user("ada")
    assert (tab.verify(), other.verify()) == ("ada", "ada")
    execute(world.app, delete(UserSession))
    tab.later(3 * HOUR)
    assert tab.verify() == "token_revoked"


@both
@pytest.mark.parametrize("lost", [1, 2])
def test_an_answer_that_is_lost_ends_nothing(world, make_user, storage, lost):
    tab = world.open(storage)
    tab.sign_in(make_user("ada"))
    tab.later()
    world.wire.lost = lost
    assert tab.verify() == ("ada" if lost == 1 else "no_response")
    assert tab.verify() == "ada"
    assert tab.heard == ["signed_in ada"]


@both
def test_a_network_that_is_gone_ends_nothing(world, make_user, storage):
    tab = world.open(storage)
    tab.sign_in(make_user("ada"))
    tab.later()
    world.context.set_offline(True)
    assert tab.verify() == "no_response"
    tab.page.evaluate("window.name = 'kept'")
    world.context.set_offline(False)
    assert tab.verify() == "ada"


@pytest.mark.parametrize("status", [401, 429, 503])
@both
def test_a_busy_service_and_a_proxy_end_nothing(world, make_user, storage, status):
    tab = world.open(storage)
    tab.sign_in(make_user("ada"))
    tab.later()
    allowed = {"Access-Control-Allow-Origin": tab.page.evaluate("location.origin")}
    allowed["Access-Control-Allow-Credentials"] = "true"
    answer = {"status": status, "body": "<p>A proxy", "headers": allowed}
    tab.page.route("**/auth/refresh", lambda route: route.fulfill(**answer), times=1)
    assert tab.verify() == "unavailable"
    assert tab.verify() == "ada"


@both
def test_a_session_that_has_ended_is_told_once(world, make_user, storage):
    tab, other = world.open(storage), world.open(storage)
    tab.sign_in(make_user("ada"))
    other.is_user("ada")
    execute(world.app, delete(UserSession))
    tab.later()
    assert tab.verify() == "token_revoked"
    other.is_user(None)
    assert tab.heard == other.heard == ["signed_in ada", "ended nobody"]
    tab.reload()
    world.wire.calls.clear()
    assert tab.do("client.resume()") == "nothing"
    assert world.wire.calls == []


@both
def test_a_refresh_waits_for_the_one_of_another_tab(world, make_user, storage):
    tab, other = world.open(storage), world.open(storage)
    tab.sign_in(make_user("ada"))
    other.is_user("ada")
    other.verify()
    world.wire.calls.clear()
    with world.wire.holding() as held:
        for each in (tab, other):
            each.later()
            each.begin("found", "client.call('GET', 'auth/verify').then(({ user }) => user)")
            held.met.wait(10)
        other.page.wait_for_function(
            "navigator.locks.query().then(({ held, pending }) => held.length && pending.length)"
        )
        assert world.wire.calls == ["auth/refresh"]
    assert (tab.end("found"), other.end("found")) == ("ada", "ada")
    # With "local", the other tab finds the tokens, unless its process reads a moment too early.
    assert world.wire.calls.count("auth/refresh") in {"cookie": (2,), "local": (1, 2)}[storage]


@both
def test_a_sign_out_during_a_refresh_signs_out(world, make_user, storage):
    tab, other = world.open(storage), world.open(storage)
    tab.sign_in(make_user("ada"))
    other.is_user("ada")
    tab.later()
    with world.wire.holding() as held:
        tab.begin("found", "client.call('GET', 'auth/verify').then(({ user }) => user)")
        held.met.wait(10)
        other.begin("left", "client.signOut()")
    # With a cookie, the tab may ask for new tokens after the other one has had it deleted.
    assert tab.end("found") in ("ada", "token_revoked", "token_missing")
    assert other.end("left") == "nothing"
    for each in (tab, other):
        each.is_user(None)
        each.reload()
        assert each.do("client.resume()") == "nothing"
    assert rows(world.app, UserSession) == []


@both
@pytest.mark.parametrize("before", ["", NO_LOCKS], ids=["usual", "no locks"])
def test_nobody_becomes_another_user_who_signs_in_elsewhere(world, make_user, storage, before):
    ada, bob = make_user("ada"), make_user("bob")
    tab, other = (world.open(storage, before=before) for _ in range(2))
    tab.sign_in(ada)
    other.is_user("ada")
    assert other.sign_in(bob) == "bob"
    tab.is_user(None)
    assert (tab.verify(), tab.verify()) == ("token_revoked", "token_revoked")
    assert tab.do("client.call('GET', 'auth/options')") == "token_revoked"
    assert tab.heard == ["signed_in ada", "replaced nobody"]
    assert tab.do("client.resume()") == "bob"
    assert tab.verify() == "bob"
    assert other.heard == ["signed_in ada", "signed_in bob"]


@both
def test_a_call_under_way_gives_nothing_to_the_next_user(world, make_user, storage):
    make_user("bob")
    tab, other = world.open(storage), world.open(storage)
    tab.sign_in(make_user("ada"))
    other.is_user("ada")
    tab.later()
    with world.wire.holding() as held:
        tab.begin("found", "client.call('GET', 'auth/verify').then(({ user }) => user)")
        held.met.wait(10)
        other.begin("found", f"client.signIn({{ email: 'bob', password: '{PASSWORD}' }})")
    assert other.end("found") == "bob"
    assert tab.end("found") in ("ada", "token_revoked")
    tab.is_user(None)
    assert tab.do("client.resume()") == "bob"


def test_the_cookie_of_another_front_end_makes_nobody_another_user(world, make_user):
    tab = world.open("cookie")
    tab.sign_in(make_user("ada"))
    elsewhere = world.open("memory")  # it has no part in the storage
    make_user("bob")
    headers = "{ 'Content-Type': 'application/json', 'X-Refresh-Cookie': '1' }"
    options = f"{{ method: 'POST', credentials: 'include', headers: {headers}, body }}"
    elsewhere.page.evaluate(
        f"([url, body]) => fetch(url, {options}).then((answer) => answer.json())",
        [f"{world.url}/api/auth/login", f'{{"email": "bob", "password": "{PASSWORD}"}}'],
    )
    tab.later()
    assert tab.verify() == "token_revoked"
    assert tab.heard == ["signed_in ada", "replaced nobody"]
    assert tab.do("client.resume()") == "bob"


@both
def test_a_refused_sign_in_leaves_the_session_before(world, make_user, storage):
    tab = world.open(storage)
    ada = make_user("ada")
    tab.sign_in(ada)
    assert tab.do("client.signIn({ email: 'bob', password: 'wrong' })") == "invalid_credentials"
    assert tab.verify() == "ada"
    wrong = "client.call('POST', '/auth/login', { email: 'bob', password: 'x' })"
    assert tab.do(wrong) == "invalid_credentials"
    assert tab.heard == ["signed_in ada"]


@each
def test_a_sign_out_without_an_answer(world, make_user, storage):
    tab = world.open(storage)
    tab.sign_in(make_user("ada"))
    world.context.set_offline(True)
    answer, user = ("no_response", "ada") if storage == "cookie" else ("nothing", None)
    assert tab.do("client.signOut()") == answer
    world.context.set_offline(False)
    assert tab.page.evaluate("client.user?.username ?? null") == user


def test_the_cookie_is_kept_as_the_user_says(world, make_user):
    tab, ada = world.open("cookie"), make_user("ada")
    for own in (True, False):
        tab.sign_in(ada, ownDevice=own)
        tab.later()
        tab.verify()
        (cookie,) = world.context.cookies(world.url)
        assert (cookie["expires"] > 0) == own
        assert tab.page.evaluate("client.ownDevice") == own


def test_sign_up_signs_in_and_says_in_words_what_is_wrong(world):
    tab = world.open("local")
    form = {"username": "ada", "email": "ada@example.org", "firstName": "A", "lastName": "L"}
    wrong = "client.signUp(argument).catch(({ code, reasons }) => [code, reasons.password])"
    assert tab.do(wrong, {**form, "password": "password"}) == ["weak_password", ["common"]]
    assert tab.do("client.signUp(argument)", {**form, "password": PASSWORD}) == "ada"
    assert tab.verify() == "ada"


def test_a_lock_that_another_tab_never_frees_holds_nobody_for_long(world, make_user):
    tab = world.open(
        "local",
        before="AbortSignal.timeout = (time) => { const end = "
        "new AbortController(); setTimeout(() => end.abort(), time / 50); return end.signal; };",
    )
    name = f"accounts {world.url}/ local"
    tab.page.evaluate(
        "(name) => { navigator.locks.request(name, () => new Promise(() => {})); }", name
    )
    assert tab.sign_in(make_user("ada")) == "ada"


def test_calls_take_queries_uploads_and_bodies(world, make_user):
    tab = world.open("memory")
    tab.sign_in(make_user("ada", role="admin"))
    assert tab.do("client.call('GET', '/users', { search: 'ada' }).then(({ total }) => total)") == 1
    upload = """(() => { const form = new FormData();
      form.append("avatar", new Blob(["x"]), "x.png");
      return client.call("POST", "users/avatar", form); })()"""
    assert tab.do(upload) == "invalid_image"
    assert tab.do("client.call('PUT', 'users/profile', { bio: 'x' }).then(({ bio }) => bio)") == "x"


def test_an_own_back_end_gets_a_token_that_is_fresh(world, make_user):
    tab = world.open("local")
    assert tab.do("client.token()") == "nothing"
    tab.sign_in(make_user("ada"))
    first = tab.do("client.token()")
    assert tab.do("client.token()") == first
    tab.page.evaluate("window.late = 3_600_000")
    assert tab.do("client.token()").count(".") == 2
    assert tab.do("client.token()") != first


def test_a_listener_can_leave_and_its_mistakes_break_nothing(world, make_user):
    tab = world.open("memory")
    tab.page.evaluate("""() => {
      window.other = [];
      const end = client.onChange(() => other.push("gone"));
      client.onChange(() => { throw new Error("a mistake"); });
      client.onChange((user) => other.push(user?.username ?? null));
      end();
    }""")
    assert tab.sign_in(make_user("ada")) == "ada"
    assert tab.page.evaluate("other") == ["ada"]


@pytest.mark.parametrize("before", [BLOCKED, "delete Crypto.prototype.subtle;"])
def test_a_provider_needs_storage_and_https(world, before):
    tab = world.open("local", before=before)
    assert tab.do("client.signInWith('school')") == "provider_blocked"


def test_nobody_has_come_without_a_fragment_of_the_service(world):
    tab = world.open("local")
    assert tab.do("client.arrived()") == "nothing"
    tab.page.evaluate("location.hash = 'section'; location.reload()")
    tab.page.wait_for_function("window.client && location.hash")
    assert tab.do("client.arrived()") == "nothing"
    assert tab.page.url.endswith("#section")


def test_who_brings_code_and_verifier_in_a_link_signs_nobody_in(world):
    tab = world.open("local")
    tab.page.evaluate(f"location.hash = 'provider=school&code=x&verifier={'x' * 43}'")
    tab.reload()
    assert tab.do("client.arrived()") == "again"
    assert tab.do("client.signIn({ email: 'a', password: 'b', link: true })") == "again"
    assert "#" not in tab.page.url
    assert world.wire.calls == []
