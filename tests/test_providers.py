"""Sign in with a provider: the walk, which account it opens, and what links and unlinks one."""

import re
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from authenticator import set_up
from fake_provider import CLIENT_ID, GONE, challenge_of, fragment_of
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    Log,
    assert_ended,
    bearer,
    change_password,
    choose,
    connections_held,
    execute,
    failure,
    forgot,
    login,
    on_both,
    race,
    register,
    rows,
    set_user,
    stored,
    success,
)
from sqlalchemy import delete
from test_copies import contents

from core import passwords
from models import Counter, Event, SecondFactor, User, UserSession
from services import providers

VERIFIER = "a-verifier.of~the_front-end" * 2
OWN, OTHER = "https://school.test/account", "https://other.example/?from=school"
START, CALLBACK = (f"/api/auth/providers/school/{step}" for step in ("start", "callback"))


def start(client, **changes):
    return client.post(START, json={"challenge": challenge_of(VERIFIER), **changes})


def return_of(client, provider, **changes):
    """Return the URL at which a browser comes back that has signed in at the provider."""
    url = urlsplit(success(start(client, **changes))["url"])
    return provider.authorize(url.query).removeprefix("https://school.test")


def come_back(client, **query):
    return client.get(CALLBACK, query_string=query)


def sign_in(client, proof, **more):
    return client.post("/api/auth/login", json={"provider": proof, **more})


def state_of(url):
    return parse_qs(urlsplit(url).query)["state"][0]


@pytest.fixture
def invited(make_user):
    """An account that nobody can sign in to, with the address of who signs in."""
    return make_user("pupil", email="pupil@school.example", password_hash=passwords.unusable())


@pytest.fixture
def linked(client, visit, make_user, outbox):
    """An account that the provider opens, and a password too; logged in."""
    user = make_user("ada", email="ada@home.example")
    data = success(sign_in(client, visit(), email="ada", password=user.password))
    outbox.deliver()
    return SimpleNamespace(**vars(user), access=data["accessToken"], refresh=data["refreshToken"])


# The walk


@pytest.mark.asvs("10.2.3")
def test_first_sign_in_makes_an_account_and_nothing_is_stored_before(
    app, client, provider, visit, monkeypatch
):
    before, held = contents(app), connections_held(app, monkeypatch, provider, "answer")
    proof = visit()
    assert contents(app) == before
    assert {*held} == {0}
    (asked,) = provider.requests
    assert min(len(asked.pop(name)) for name in ("state", "nonce", "code_challenge")) >= 43
    assert asked == {
        **{"response_type": "code", "client_id": CLIENT_ID, "code_challenge_method": "S256"},
        **{"redirect_uri": f"https://school.test{CALLBACK}", "scope": "openid email profile"},
        "prompt": "select_account",
    }
    session = success(sign_in(client, proof))
    profile = success(client.get("/api/users/profile", headers=bearer(session["accessToken"])))
    told = {"username": "pupil", "firstName": "Ada", "lastName": "Lovelace", "role": "student"}
    told |= {"email": "pupil@school.example", "emailVerified": True, "hasPassword": False}
    assert {**told, "provider": provider.issuer}.items() <= profile.items()
    assert stored(app).identity == f"{provider.issuer} subject-1"
    success(sign_in(client, visit()))
    assert len(rows(app, User)) == 1


@pytest.mark.asvs("3.7.1", "3.7.2")
def test_walk_begins_with_a_challenge_and_ends_at_a_page_of_the_settings(client, connect, provider):
    connect(SIGN_IN_RETURN_URLS=f"https://third.example/,{OTHER}", OIDC_SCHOOL_PROMPT="none")
    for page in (OWN, OTHER):
        back = client.get(return_of(client, provider, returnTo=page))
        success(back, 303)
        assert back.headers["Location"].startswith(f"{page}#provider=school&code=")
        assert "prompt" not in provider.requests[-1]
    right = challenge_of(VERIFIER)
    wrong = {"challenge": ("", right[1:], f"{right}=", f"{right[:-1]}+", f"{right[:-1]}\u00e4")}
    wrong["returnTo"] = ("", f"{OWN}/", "https://third.example", f"{OTHER}#", "//third.example/")
    for field, values in wrong.items():
        for value in values:
            refused = start(client, **{field: value})
            assert failure(refused, 400, "invalid_request").keys() == {field}
    connect(ACCOUNT_PAGES="0")
    assert failure(start(client), 400, "invalid_request").keys() == {"returnTo"}
    provider.metadata = {"issuer": "https://other.example"}
    connect()
    failure(start(client), 503, "unavailable")
    connect(OIDC_PROVIDERS="")
    failure(start(client), 404, "not_found")
    failure(come_back(client), 404, "not_found")
    assert success(client.get("/api/auth/options"))["providers"] == []


@pytest.mark.asvs("6.8.1", "10.2.2")
def test_state_that_is_not_ours_leads_nowhere(client, connect, provider, visit, clock):
    others = dict.fromkeys(("OIDC_OTHER_CLIENT_ID", "OIDC_OTHER_CLIENT_SECRET"), "x")
    connect(OIDC_PROVIDERS="school,other", OIDC_OTHER_ISSUER="https://other.example", **others)
    assert failure(come_back(client), 400, "invalid_request").keys() == {"state"}
    back = return_of(client, provider)
    failure(client.get(back.replace("school", "other", 1)), 400, "invalid_token")
    for wrong in ("x", f"{state_of(back)}x", f"x{state_of(back)}", visit()["code"]):
        answer = come_back(client, state=wrong, code="x")
        failure(answer, 400, "invalid_token")
        assert "Location" not in answer.headers
    clock.move(minutes=61)
    failure(client.get(back), 400, "invalid_token")


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        ({"error": "access_denied"}, "denied", "user:access_denied"),
        ({"error": "server_error", "code": "x"}, "failed", "user:server_error"),
        *(({"error": odd}, "failed", None) for odd in ("x" * 41, "An Error", "<b>", "pupil@x.org")),
        *(({}, "failed", None), ({"code": "unknown"}, "failed", "invalid_grant")),
    ],
    ids=str,
)
def test_callback_says_how_it_ended_and_the_log_why(client, connect, query, error, reason):
    connect(LOG_FORMAT="json")
    state, log = state_of(success(start(client))["url"]), Log()
    # A scanner of links must not use up what the provider said.
    assert client.head(f"/api/auth/providers/school/callback?state={state}").status_code == 405
    back = come_back(client, state=state, **query, error_description="No", unknown="")
    success(back, 303)
    assert fragment_of(back) == {"provider": "school", "error": error}
    (event,) = log.events()
    assert (event["message"], event["provider"]) == ("provider_failed", "school")
    assert event["reason"] == reason or (not reason and event["reason"] not in query.values())


# Our code


@pytest.mark.asvs("10.1.2", "10.2.1")
def test_code_opens_one_session_for_its_verifier_within_ten_minutes(app, client, visit, clock):
    proof = visit()
    for wrong in ("x", VERIFIER, f" {proof['verifier']}", f"{proof['verifier']}\n"):
        refused = sign_in(client, {**proof, "verifier": wrong})
        assert (refused.status_code, rows(app, User)) == (400, [])
    odd = [visit(verifier=odd) for odd in ("x" * 42, "x" * 129, "+" * 43)]
    codes = ("x", f"{proof['code']}x", f" {proof['code']}")
    for wrong in (*odd, *({**proof, "code": code} for code in codes)):
        failure(sign_in(client, wrong), 400, "invalid_token")
    clock.move(minutes=9)
    success(sign_in(client, proof))
    failure(sign_in(client, proof), 400, "invalid_token")
    execute(app, delete(User))
    failure(sign_in(client, proof), 400, "invalid_token")
    assert rows(app, User) == []
    proof = visit()
    clock.move(minutes=10, seconds=1)
    failure(sign_in(client, proof), 400, "invalid_token")


@pytest.mark.parametrize("is_new", [True, False])
@on_both
def test_one_code_opens_one_session(app, client, visit, is_new):
    if not is_new:
        success(sign_in(client, visit()))
    proof, before = visit(), len(rows(app, UserSession))
    answers = race(lambda _: sign_in(client, proof))
    assert sorted(answer.status_code for answer in answers) == [200, *15 * [400]]
    for answer in answers:
        if answer.status_code == 400:
            failure(answer, 400, "invalid_token")
    assert (len(rows(app, UserSession)), len(rows(app, User))) == (before + 1, 1)


def test_new_secret_key_ends_walks_at_the_provider_but_no_code(client, connect, visit, provider):
    keys = [f"key number {number} of this service and its rotation" for number in range(2)]
    connect(SECRET_KEY=keys[0])
    proof, back = visit(), return_of(client, provider)
    connect(SECRET_KEY=keys[1], SECRET_KEY_FALLBACKS=keys[0])
    success(sign_in(client, proof))
    assert fragment_of(client.get(back)) == {"provider": "school", "error": "failed"}
    connect(SECRET_KEY=keys[1])
    failure(client.get(back), 400, "invalid_token")


# Which account


@pytest.mark.asvs("10.5.2")
def test_linked_account_stays_as_it_is_whatever_the_provider_says_now(app, client, linked, visit):
    before = stored(app, linked)._asdict()
    for said in ({"email": "other@school.example", "given_name": "Other"}, {"email": GONE}):
        assert success(sign_in(client, visit(**said)))["user"]["id"] == linked.id
    after = stored(app, linked)._asdict()
    assert {name for name in after if after[name] != before[name]} == {"last_login_at"}
    other = sign_in(client, visit(sub="SUBJECT-1", email="pupil@school.example"))
    assert success(other)["user"]["id"] != linked.id


@pytest.mark.parametrize("said", [True, "true", GONE])
def test_account_that_nobody_can_sign_in_to_is_joined(
    app, client, admin, invited, visit, outbox, said
):
    path, body = f"/api/users/{invited.id}/access-link", {"deliver": "mail"}
    success(client.post(path, json=body, headers=admin.headers))
    invitation = outbox.deliver_token()
    success(client.post(path, json=body, headers=admin.headers))
    before = stored(app, invited)
    success(sign_in(client, visit(email="Pupil@School.Example", email_verified=said)))
    joined = stored(app, invited)
    assert joined.password_version > before.password_version
    assert joined.email_verified_at
    assert (joined.first_name, joined.username) == ("First", "pupil")
    # The invitation that waited is dropped, and the one that is out is dead.
    assert [mail["Subject"] for mail in outbox.deliver()] == ["Your account was linked"]
    failure(choose(client, invitation), 400, "invalid_token")


TAKEN = [{"password_hash": "$2b$"}, {"identity": "https://x.example y"}, {"role": "admin"}]
CHANGED = [{"email": "other@school.example"}, {"password_version": 9}]


@pytest.mark.parametrize(
    ("values", "late"),
    [*((each, False) for each in TAKEN), *((each, True) for each in TAKEN + CHANGED)],
    ids=str,
)
def test_account_that_somebody_can_sign_in_to_is_not_joined(
    app, client, invited, visit, monkeypatch, values, late
):
    def then_change(came):
        found = find(came)
        set_user(app, invited, **values)
        return found

    proof, find = visit(), providers.way_in
    if late:  # the UPDATE asks for all of it, too
        monkeypatch.setattr(providers, "way_in", then_change)
        failure(sign_in(client, proof), 401, "invalid_credentials")
    else:
        set_user(app, invited, **values)
        refused = sign_in(client, proof)
        failure(refused, 409, "email_taken")
        assert "sign in with its password once" in refused.get_json()["message"]
    assert stored(app, invited).identity == values.get("identity")
    assert rows(app, UserSession) == []


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({}, "pupil@school.example"),
        ({"email": "Pupil@Home.example"}, "pupil@home.example"),
        ({"email_verified": "true"}, "pupil@school.example"),
        *(({"email_verified": word}, "") for word in (False, "false", None, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("registration", ["open", "closed"])
def test_refusal_names_the_address_that_the_provider_has_proved(
    client, connect, make_user, visit, said, shown, registration
):
    connect(REGISTRATION=registration)
    make_user("pupil", email=said.get("email", "pupil@school.example").lower())
    refused = sign_in(client, visit(**said))
    codes = {"open": (409, "email_taken"), "closed": (403, "registration_closed")}
    failure(refused, *codes[registration])
    assert refused.get_json()["error"]["email"] == shown


@pytest.mark.parametrize(
    ("sent", "zone"), [("Europe/London", "Europe/London"), ("Etc/Unknown", "UTC"), (None, "UTC")]
)
def test_new_account_has_the_time_zone_of_the_login(app, client, visit, sent, zone):
    success(sign_in(client, visit(), **({"timezone": sent} if sent else {})))
    (user,) = rows(app, User)
    assert user.timezone == zone
    success(sign_in(client, visit(), timezone="Asia/Tokyo"))  # makes none
    assert [user.timezone for user in rows(app, User)] == [zone]


UNVOUCHED = [
    *({"email_verified": word} for word in (False, "false", "True", 1, None, [], "")),
    *({"email": f"pupil@{name}.example"} for name in ("home", "a.school", "notschool")),
]


@pytest.mark.parametrize("said", UNVOUCHED, ids=str)
def test_address_that_is_not_vouched_for_joins_nothing(app, client, invited, visit, outbox, said):
    email = said.get("email", invited.email)
    set_user(app, invited, email=email)
    failure(sign_in(client, visit(**said)), 409, "email_taken")
    set_user(app, invited, email="elsewhere@school.example")
    success(sign_in(client, visit(**said)))
    assert stored(app, email=email).email_verified_at is None
    assert outbox.waiting() == [("email_verification", email)]


@pytest.mark.parametrize(
    ("domain", "is_vouched"),
    [
        *((domain, True) for domain in ("School.EXAMPLE", "xn--bcher-kva.example")),
        ("b\u00fccher.example", True),
        # Letters that IDNA maps to these: another mailbox's, as the provider writes it.
        *((domain, False) for domain in ("\u017fchool.example", "\uff53chool.example")),
        *((domain, False) for domain in ("school\u3002example", "\u212aai.example")),
        ("B\u00dcCHER.example", False),
    ],
)
def test_a_domain_is_vouched_for_as_the_provider_writes_it(
    app, client, connect, visit, domain, is_vouched
):
    connect(OIDC_SCHOOL_DOMAINS="school.example,kai.example,b\u00fccher.example")
    found = success(sign_in(client, visit(sub="1", email=f"pupil@{domain}")))["user"]
    assert bool(stored(app, email=found["email"]).email_verified_at) is is_vouched


def test_google_vouches_for_its_own_addresses_and_those_of_schools(
    app, client, connect, provider, visit, monkeypatch
):
    assert providers.GOOGLE == "https://accounts.google.com"
    monkeypatch.setattr(providers, "GOOGLE", provider.issuer)
    connect(OIDC_SCHOOL_DOMAINS="school.example,gmail.com")
    people = [("pupil@school.example", GONE, False), ("ada@school.example", "school.example", True)]
    for email, domain, is_vouched in (*people, ("pupil@gmail.com", GONE, True)):
        success(sign_in(client, visit(sub=email, email=email, hd=domain)))
        assert bool(stored(app, email=email).email_verified_at) is is_vouched


def test_new_account_waits_for_its_address_where_that_must_be_verified(
    client, connect, visit, outbox
):
    connect(REQUIRE_VERIFIED_EMAIL="1")
    proof = visit(email_verified=False)
    for again in (proof, proof, visit(email_verified=True)):
        failure(sign_in(client, again), 403, "email_unverified")
    success(client.post("/api/auth/verify-email", json={"token": outbox.deliver_token()}))
    success(sign_in(client, proof))  # no refused call has used it up


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"REGISTRATION": "closed"}, {}),
        *(({}, {"email": email}) for email in (GONE, "pupil@school.invalid", "nobody", "x@\ud800")),
        ({"REGISTRATION_DOMAINS": "b.example", "REQUIRE_VERIFIED_EMAIL": "1"}, {}),
    ],
    ids=ascii,
)
def test_whoever_may_not_register_is_told_what_to_do(
    app, client, connect, visit, make_user, settings, said, is_there
):
    if is_there:
        make_user("pupil", email="pupil@school.example")
    connect(**settings)
    before = contents(app)
    refused = sign_in(client, visit(**said))
    failure(refused, 403, "registration_closed")
    assert "sign in with its password once" in refused.get_json()["message"]
    assert contents(app) == before


NAMELESS = {"given_name": GONE, "family_name": GONE}
NAMES = [
    ({"name": "Other Name"}, ("Ada", "Lovelace")),
    ({"given_name": GONE}, ("pupil", "Lovelace")),
    ({**NAMELESS, "name": " Ada de Vries "}, ("Ada", "de Vries")),
    ({**NAMELESS, "name": "Ada"}, ("Ada", "pupil")),
    ({"given_name": "A\ud800", "family_name": "a\0b", "locale": "\udfff"}, ("pupil", "pupil")),
    ({"given_name": ["Ada"], "family_name": "x" * 65}, ("pupil", "pupil")),
]


@pytest.mark.parametrize(("said", "names"), NAMES, ids=ascii)
def test_names_are_the_provider_s_where_they_are_names(app, client, visit, said, names):
    success(sign_in(client, visit(**said)))
    assert (stored(app).first_name, stored(app).last_name) == names


def test_new_account_has_a_free_username_and_the_browser_s_language(
    app, client, connect, visit, make_user
):
    connect(REGISTRATION="providers")
    failure(register(client), 403, "registration_closed")
    make_user("Pupil")
    sent = {"json": {"provider": visit()}, "headers": {"Accept-Language": "fr"}}
    success(client.post("/api/auth/login", **sent))
    user = stored(app, email="pupil@school.example")
    assert re.fullmatch(r"pupil[0-9]{1,4}", user.username)
    assert user.language == "fr"


@pytest.mark.parametrize("is_there", [True, False])
@on_both
def test_one_of_people_with_one_vouched_address_gets_the_account(
    app, client, visit, make_user, is_there
):
    if is_there:
        make_user("pupil", email="pupil@school.example", password_hash=passwords.unusable())
    proofs = [visit(sub=f"s{number}") for number in range(8)]
    answers = race(lambda number: sign_in(client, proofs[number]), 8)
    statuses = sorted(answer.status_code for answer in answers)
    assert (statuses[0], {*statuses[1:]} <= {401, 409}) == (200, True)
    assert (len(rows(app, User)), len(rows(app, UserSession))) == (1, 1)


@on_both
def test_joining_and_an_invitation_do_not_both_hold(app, client, invited, visit, outbox):
    success(forgot(client, invited.email))
    token, proof = outbox.deliver_token(), visit()
    acts = [lambda: sign_in(client, proof), lambda: choose(client, token)]
    answers = race(lambda number: acts[number](), 2)
    assert 200 in [answer.status_code for answer in answers]
    user = stored(app, invited)
    assert passwords.is_usable(user.password_hash) is (user.identity is None)


def test_provider_that_is_gone_from_the_settings_signs_nobody_in(client, linked, visit, connect):
    proof = visit()
    connect(OIDC_SCHOOL_ISSUER="https://other.example")
    failure(sign_in(client, proof), 400, "invalid_token")
    success(client.get("/api/users/profile", headers=bearer(linked)))
    connect()
    success(sign_in(client, proof))


# Links


def test_password_and_provider_together_link(app, client, make_user, visit, outbox, provider):
    user, proof = make_user("ada"), visit()
    failure(sign_in(client, proof, email="ada", password="wrong"), 401, "invalid_credentials")
    assert stored(app, user).identity is None
    for again in (proof, visit()):  # the same link once more is fine
        success(sign_in(client, again, email=user.email, password=user.password))
        assert stored(app, user).identity == f"{provider.issuer} subject-1"
    assert outbox.waiting() == [("provider_linked", user.email)]


@on_both
def test_account_has_one_link_and_a_link_one_account(app, client, linked, visit, make_user):
    other, before, proof = make_user("other"), rows(app, UserSession), visit()
    for name, shown in (("other", proof), ("ada", visit(sub="second"))):
        refused = sign_in(client, shown, email=name, password=other.password)
        failure(refused, 409, "identity_taken")
    assert (rows(app, UserSession), stored(app, other).last_login_at) == (before, None)
    success(sign_in(client, proof))  # no refused call has used it up


@pytest.mark.parametrize("is_one_account", [True, False])
@on_both
def test_of_parallel_links_one_wins(app, client, visit, make_user, is_one_account):
    users = [make_user("one"), make_user("two")]
    if is_one_account:  # and two people
        users[1] = users[0]
    proofs = [visit(), visit(**({"sub": "second"} if is_one_account else {}))]

    def link(number):
        return sign_in(client, proofs[number], email=users[number].email, password=PASSWORD)

    statuses = sorted(answer.status_code for answer in race(link, 2))
    assert statuses in ([200, 409], [200, 401])
    assert len([row for row in rows(app, User) if row.identity]) == 1


def test_link_that_is_made_meanwhile_is_announced_once(
    client, make_user, visit, outbox, during_the_hash
):
    user, first, second = make_user("ada"), visit(), visit()
    link = {"email": user.email, "password": user.password}
    during_the_hash(lambda: success(sign_in(client, first, **link)))
    failure(sign_in(client, second, **link), 401, "invalid_credentials")
    assert outbox.waiting() == [("provider_linked", user.email)]


@pytest.mark.parametrize("body", [{}, {"email": "a"}, {"password": "a"}], ids=str)
@pytest.mark.parametrize("proof", [{}, {"provider": {"code": "x", "verifier": "x" * 43}}], ids=str)
def test_half_a_login_is_named(client, body, proof):
    answer = client.post("/api/auth/login", json={**body, **proof})
    if body or not proof:
        assert failure(answer, 400, "invalid_request").keys() == {"email", "password"} - {*body}
    else:
        failure(answer, 400, "invalid_token")


@pytest.mark.parametrize("way", ["change", "mail", "code", "replaced"])
def test_every_new_password_ends_the_link(app, client, linked, visit, admin, outbox, way):
    if way == "change":
        success(change_password(client, linked))
    elif way == "mail":
        success(forgot(client, linked.email))
        success(choose(client, outbox.deliver_token()))
    else:
        path, replace = f"/api/users/{linked.id}/access-link", {"replacePassword": way != "code"}
        made = client.post(path, json={"deliver": "link", **replace}, headers=admin.headers)
        body = {"account": "ada", "code": success(made)["code"], "newPassword": NEW_PASSWORD}
        if way == "code":
            success(client.post("/api/auth/reset-password", json=body))
    assert stored(app, linked).identity is None
    if way != "replaced":
        assert "link to your account at school" in outbox.deliver()[-1].as_string()
        success(sign_in(client, visit(), email="ada", password=NEW_PASSWORD))
    else:  # nobody can sign in to it, so its own address opens it again
        assert_ended(client, linked)
        set_user(app, linked, email="pupil@school.example")
        assert success(sign_in(client, visit(sub="another")))["user"]["id"] == linked.id


def test_link_that_a_new_password_overtakes_is_not_made(
    app, client, make_user, visit, during_the_hash
):
    user, proof = make_user("ada"), visit()
    during_the_hash(lambda: set_user(app, user, password_version=9))
    refused = sign_in(client, proof, email="ada", password=user.password)
    failure(refused, 401, "invalid_credentials")
    assert stored(app, user).identity is None


def test_link_counts_as_a_password_for_access_links_only(
    client, admin, invited, visit, outbox, run, tmp_path
):
    path = f"/api/users/{invited.id}/access-link"
    session = bearer(success(sign_in(client, visit()))["accessToken"])
    change = {"newEmail": "new@example.org", "password": "anything"}
    answer = client.post("/api/users/email", json=change, headers=session)
    failure(answer, 400, "wrong_password")
    success(client.post(path, json={"deliver": "link"}, headers=admin.headers))
    assert ("access_link_made", invited.email) in outbox.waiting()
    line = '{"email": "pupil@school.example", "firstName": "A", "lastName": "B"}'
    assert run("users", "import", "-", "--links", str(tmp_path / "links"), typed=line)[1] == 0
    assert "pupil" not in (tmp_path / "links").read_text()
    account = success(client.get(path.replace("access-link", "account"), headers=admin.headers))
    assert account["hindrances"] == []
    assert "password: no, signs in with School" in run("users", "show", "pupil")[0]


# Second factor and limits


@pytest.mark.asvs("6.8.4")
def test_second_factor_is_asked_for_and_a_wrong_code_counts_there_alone(
    app, client, connect, linked, visit, clock
):
    connect(RATELIMIT_ENABLED="1")
    phone = set_up(client, linked, linked, clock)
    proof = visit(amr=["mfa"], acr="2")
    failure(sign_in(client, proof), 403, "second_factor_required")
    failure(sign_in(client, proof, secondFactor=phone.wrong()), 400, "wrong_code")
    assert [row.wrong_codes for row in rows(app, SecondFactor)] == [1]
    assert sum(row.hits for row in rows(app, Counter) if "/wrong passwords" in row.key) == 0
    success(sign_in(client, proof, secondFactor=phone.code()))


def test_no_code_is_asked_for_where_nobody_may_log_in(app, client, linked, visit, clock):
    set_up(client, linked, linked, clock)
    nobody_s = {"password_hash": passwords.unusable(), "email": "pupil@school.example"}
    for values in ({"is_active": False}, {**nobody_s, "identity": None}):
        set_user(app, linked, **values)
        failure(sign_in(client, visit()), 403, "account_inactive")


def test_role_and_activation_are_the_account_s(app, client, connect, linked, visit):
    connect(REQUIRE_SECOND_FACTOR="admin")
    set_user(app, linked, role="admin")
    assert success(sign_in(client, visit()))["user"]["role"] == "student"
    set_user(app, linked, is_active=False)
    failure(sign_in(client, visit()), 403, "account_inactive")


def test_sign_ins_are_limited_by_client_ip_and_never_by_failed_logins(
    client, connect, linked, visit, provider
):
    connect(RATELIMIT_ENABLED="1", REGISTRATIONS_PER_HOUR="2", LOGINS_PER_MINUTE="20")
    proof = visit()
    for _ in range(11):
        refused = login(client, linked, "wrong")
    failure(refused, 429, "too_many_requests")
    success(sign_in(client, proof))
    for number in range(3):
        proof = visit(sub=f"s{number}", email=f"p{number}@school.example")
        answer = sign_in(client, proof)
    failure(answer, 429, "too_many_requests")
    back = [client.get(return_of(client, provider)).status_code for _ in range(17)]
    assert back == [*16 * [303], 429]


# What others see of it


@pytest.mark.asvs("10.1.1")
def test_log_tells_who_and_how_and_no_secret(app, client, connect, visit, make_user, invited):
    connect(LOG_FORMAT="json")
    log, user = Log(), make_user("ada")
    proofs = [visit(sub=f"secret-{number}") for number in range(2)]
    proofs.append(visit(sub="secret-2", email="x@new.example"))
    success(sign_in(client, proofs[0], email="ada", password=user.password))
    for proof in proofs[1:]:
        success(sign_in(client, proof))
    text = log.text()
    told = re.findall(r'"message":"(\w+)"[^}]*"provider":"school"', text)
    assert sorted(told) == ["identity_joined", "identity_linked", *3 * ["login"], "registered"]
    kept = [(row.type, row.details) for row in rows(app, Event)]
    assert [each for each in kept if "identity" in each[0]] == [
        ("identity_linked", {"provider": "school"}),
        ("identity_joined", {"provider": "school"}),
    ]
    secrets = [each[name] for each in proofs for name in each]
    for secret in (*secrets, "secret-", ".example", "state=", "code="):
        assert secret not in text


def test_link_is_seen_by_its_owner_and_admins_alone(client, provider, linked, admin, run):
    owner, url = bearer(linked), f"/api/users/{linked.id}"
    export = success(client.get("/api/users/export", headers=owner))
    assert export["account"]["identity"] == f"{provider.issuer} subject-1"
    account = success(client.get(f"{url}/account", headers=admin.headers))
    assert account["provider"] == provider.issuer
    dumped, status = run("users", "dump", "--with-hashes")
    assert (status, "ada@home.example" in dumped) == (0, True)
    (listed,) = success(client.get("/api/users?search=ada", headers=admin.headers))["users"]
    assert listed["provider"] == provider.issuer
    assert provider.issuer not in dumped + client.get(url, headers=admin.headers).text
    options = success(client.get("/api/auth/options"))
    told = {"name": "school", "label": "School", "issuer": provider.issuer}
    assert (options["providers"], options["registration"]) == ([told], "open")
