"""Sign-in to applications with this service: the walk of OpenID Connect Core 1.0, and each wrong
step on it.
"""

from datetime import timedelta

import jwt
import pytest
from applications import (
    BACK,
    BYE,
    CHALLENGE,
    KEY,
    SECRET,
    SPA,
    SPA_BACK,
    VERIFIER,
    WIKI,
    answer,
    ask_code,
    asking,
    basic,
    begin,
    check,
    code_of,
    redeem,
    refused,
    sent_to,
    tokens_of,
    user_info,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from helpers import (
    alter,
    bearer,
    execute,
    failure,
    login,
    on_both,
    on_both_slowly,
    race,
    set_user,
    success,
    verify,
)
from sqlalchemy import update

import models
from config.applications import ApplicationSettings
from core import clock as core_clock
from extensions import components

IN_BROWSER = {"client_id": "spa", "client_secret": None, "code_verifier": VERIFIER}
IN_BROWSER |= {"redirect_uri": SPA_BACK}
IN_HEADER = {"client_id": None, "client_secret": None}
CALLS = """
    GET /.well-known/openid-configuration
    GET /oauth/keys
    GET /oauth/authorize
    POST /oauth/authorize
    GET /oauth/logout
    POST /oauth/logout
    GET /oauth/userinfo
    POST /oauth/userinfo
    POST /oauth/token
    POST /api/auth/applications/check
    POST /api/auth/applications/codes
"""


@pytest.fixture
def student(make_user, log_in):
    """A student with a confirmed address, and an open session."""
    user = make_user("mia", first_name="Mia", email_verified_at=core_clock.utcnow())
    session = log_in(user)
    session.user = user
    return session


def read_id_token(client, token, audience="wiki"):
    """Verify an ID token as a client does; return its claims."""
    document = client.get("/.well-known/openid-configuration").get_json()
    keys = jwt.PyJWKSet.from_dict(client.get(document["jwks_uri"][19:]).get_json())
    header = jwt.get_unverified_header(token)
    assert header == {"alg": "RS256", "typ": "JWT", "kid": keys.keys[0].key_id}
    options = {"require": ["iss", "sub", "aud", "exp", "iat", "auth_time"], "verify_exp": False}
    key, issuer = keys[header["kid"]], document["issuer"]
    return jwt.decode(token, key, ["RS256"], options, audience=audience, issuer=issuer)


@on_both_slowly
@pytest.mark.parametrize(
    ("asks", "proof", "headers"),
    [
        ({}, {}, None),
        ({}, IN_HEADER, basic("wiki", SECRET.replace("~", "%7E"))),
        (CHALLENGE, {**IN_HEADER, "client_id": "wiki", "code_verifier": VERIFIER}, "header"),
        ({"application": SPA}, IN_BROWSER, None),
    ],
    ids=["in the form", "in the header", "in the header, with PKCE", "PKCE alone"],
)
def test_user_signs_in_to_an_application(client, app, student, asks, proof, headers):
    began = core_clock.utcnow() - timedelta(hours=1)
    execute(app, update(models.UserSession).values(created_at=began))
    name = "spa" if proof is IN_BROWSER else "wiki"
    request = begin(client, **asks)
    asked = success(check(client, request))
    refusal = "error=access_denied&state=s+t%26te&iss=https%3A%2F%2Fschool.test"
    application = SPA if name == "spa" else WIKI
    back = application.redirect_uris[0]
    url = f"{back}{'&' if '?' in back else '?'}{refusal}"
    nothing = {"prompt": "", "loginHint": "", "userId": ""}
    assert asked == {"label": application.label, "url": url, **nothing}
    got = answer(client, student, request)
    assert got.pop("code")
    beside = {} if "?" not in back else {"from": "here"}
    assert got == {**beside, "state": "s t&te", "iss": "https://school.test"}
    code = code_of(client, student, **asks)
    headers = basic("wiki", SECRET) if headers == "header" else headers
    response = redeem(client, code, headers, **proof)
    tokens = response.get_json()
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
    scope = "openid profile email"
    said = {"token_type": "Bearer", "expires_in": 900, "scope": scope}
    assert tokens.items() >= said.items()
    assert tokens.keys() == {*said, "access_token", "id_token"}
    claims = read_id_token(client, tokens["id_token"], name)
    times = {each: claims.pop(each) for each in ("iat", "exp", "auth_time")}
    assert times["exp"] - times["iat"] == 900
    assert 3599 <= times["iat"] - times["auth_time"] < 3660
    assert (claims.pop("nonce"), claims.pop("iss")) == ("n-1", "https://school.test")
    assert claims == {
        **{"aud": name, "sub": student.user.id, "preferred_username": "mia"},
        **{"roles": ["student"], "name": "Mia Last", "given_name": "Mia", "family_name": "Last"},
        **{"locale": "en", "zoneinfo": "UTC"},
        **{"email": "mia@example.org", "email_verified": True},
    }
    assert user_info(client, tokens["access_token"]).get_json() == claims
    headers = bearer(tokens["access_token"])
    assert client.post("/oauth/userinfo", headers=headers, data="x").get_json() == claims


@pytest.mark.asvs("10.4.11")
def test_applications_are_told_what_they_ask_for_and_no_made_up_address_unasked(
    client, app, make_app, student
):
    def told(client, scope):
        code = code_of(client, student, scope=scope, nonce=None)
        claims = read_id_token(client, redeem(client, code).get_json()["id_token"])
        return claims.keys() - {"iss", "sub", "aud", "exp", "iat", "auth_time", "roles"}

    name = "preferred_username"
    assert told(client, "openid offline_access") == {name}
    assert told(client, "email openid") == {name, "email", "email_verified"}
    set_user(app, student.user, email_verified_at=None, avatar_digest="a" * 64)
    assert told(client, "email openid") == {name}
    profile = {"name", "given_name", "family_name", "locale", "zoneinfo", "picture"}
    assert told(client, "openid profile") == {name, *profile}
    set_user(app, student.user, email="mia@no-mail.invalid", email_verified_at=core_clock.utcnow())
    assert told(client, "openid email") == {name}
    values = {**vars(WIKI), "placeholder_email": True}
    other = make_app(applications=(ApplicationSettings(**values),)).test_client()
    claims = user_info(other, tokens_of(other, student)["access_token"]).get_json()
    made_up = {"email": f"{student.user.id}@users.invalid", "email_verified": True}
    assert claims.items() >= made_up.items()


# Each wrong at authorize: nobody is sent anywhere, since that may be anybody's URL.
STAYING = [
    *({"client_id": name} for name in (None, "", "Wiki", "other", "wiki\0")),
    *({"redirect_uri": uri} for uri in (None, "", BACK[:-1], f"{BACK}/", f"{BACK}&a=b", SPA_BACK)),
    *({"redirect_uri": uri} for uri in (BACK.upper(), BACK.replace("https", "http"), f" {BACK}")),
    *({name: ["a", "a"]} for name in ("client_id", "redirect_uri", "state", "prompt", "scope")),
    *({name: ["", "a"]} for name in ("request", "code_challenge_method", "login_hint")),
    *({name: "a\nb"} for name in ("state", "nonce", "login_hint", "response_type")),
    {"state": "a\x85"},
    {"state": "a" * 3000},  # signed, it is over 4096
    {"state": "a" * 4000, "scope": "email"},
]
# And those with which the browser goes back to the application.
RETURNING = [
    *(("unsupported_response_type", {"response_type": each}) for each in (None, "token", "Code")),
    *(("invalid_scope", {"scope": each}) for each in (None, "email", "openidx", "openid\xa0email")),
    *(("invalid_request", {"prompt": each}) for each in ("create", "none login", "login\xa0none")),
    *(("invalid_request", {"max_age": each}) for each in ("-1", "1.5", "x", "1" * 10, "\u0661")),
    *(("invalid_request", {"response_mode": each}) for each in ("fragment", "form_post")),
    *(("invalid_request", {each: "x"}) for each in ("request", "request_uri")),
    ("invalid_request", {**CHALLENGE, "code_challenge_method": None}),
    ("invalid_request", {**CHALLENGE, "code_challenge_method": "plain"}),
    ("invalid_request", {"code_challenge_method": "S256"}),
    *(("invalid_request", {**CHALLENGE, "code_challenge": each}) for each in ("x" * 42, "é" * 43)),
    ("invalid_request", {"client_id": "spa", "redirect_uri": BACK}),
]


@pytest.mark.asvs("10.4.1")
@pytest.mark.parametrize("wrong", STAYING, ids=str)
def test_wrong_request_sends_nobody_anywhere(client, wrong):
    for sent in ("query_string", "data"):
        method = "GET" if sent == "query_string" else "POST"
        response = client.open("/oauth/authorize", method=method, **{sent: asking(**wrong)})
        failure(response, 400, "invalid_request")
        assert "Location" not in response.headers


def test_what_is_not_utf_8_sends_nobody_anywhere(client):
    query = "&".join(f"{name}={value}" for name, value in asking(state="%ff").items())
    failure(client.get("/oauth/authorize", query_string=query), 400, "invalid_request")
    form = {"data": query, "content_type": "application/x-www-form-urlencoded"}
    failure(client.post("/oauth/authorize", **form), 400, "invalid_request")
    failure(client.post("/oauth/authorize", json={}), 415, "unsupported_media_type")
    # The query of a POST says nothing.
    failure(
        client.post("/oauth/authorize", query_string=asking(), data={"a": "b"}),
        400,
        "invalid_request",
    )
    for method in ("GET", "POST"):
        page = client.open("/oauth/authorize", method=method, headers={"Accept": "text/html"})
        assert page.mimetype == "text/html"


@pytest.mark.asvs("10.4.4", "10.4.12", "10.6.1")
@pytest.mark.parametrize(("error", "wrong"), RETURNING, ids=str)
def test_other_mistakes_go_back_to_the_application(client, error, wrong):
    response = client.get("/oauth/authorize", query_string=asking(**wrong))
    back = sent_to(response, f"{BACK}&error={error}&")
    beside = {"state": "s t&te", "iss": "https://school.test", "from": "here", "error": error}
    assert back.items() >= beside.items()
    assert back.keys() == {*beside, "error_description"}


def test_what_is_empty_or_unknown_is_left_out(client):
    response = client.post("/oauth/authorize", data=asking(claims=["a", "b"], prompt="", state=""))
    request = sent_to(response, "https://school.test/account#request=")["request"]
    assert "state" not in success(check(client, request))["url"]
    head = client.head("/oauth/authorize", query_string=asking())
    assert (head.status_code, head.data) == (303, b"")


@pytest.mark.parametrize(
    ("changes", "minutes"),
    [
        ({}, 60),
        ({"max_age": "300"}, 60),
        ({"max_age": "299"}, 5),
        ({"prompt": "consent login"}, 5),
    ],
    ids=str,
)
def test_request_is_good_for_an_hour_or_less_where_a_new_login_is_asked_for(
    client, student, log_in, clock, changes, minutes
):
    request = begin(client, **changes)
    clock.move(minutes=minutes, seconds=-5)
    success(check(client, request))
    clock.move(seconds=5)
    failure(check(client, request), 400, "invalid_token")
    failure(ask_code(client, log_in(student.user), request), 400, "invalid_token")


def test_page_is_told_what_to_ask(client):
    asked = begin(client, prompt=" none", login_hint="Mia@Example.org")
    told = success(check(client, asked))
    assert (told["prompt"], told["loginHint"]) == ("none", "mia@example.org")
    assert "error=login_required" in told["url"]
    for hint in ("call 555 1234", "<b>", "a@b@c"):
        assert success(check(client, begin(client, login_hint=hint)))["loginHint"] == ""


def test_application_that_left_the_settings_gets_nothing(client, make_app, student):
    request, tokens = begin(client), tokens_of(client, student)
    other = make_app(applications=(SPA,)).test_client()
    failure(check(other, request), 400, "invalid_token")
    failure(ask_code(other, student, request), 400, "invalid_token")
    refused(user_info(other, tokens["access_token"]), 401, "invalid_token")
    open_now = ApplicationSettings(**{**vars(WIKI), "secret": ""})
    other = make_app(applications=(open_now,)).test_client()
    unproven = {"client_secret": None}  # it has begun no PKCE, and has no secret any more
    refused(redeem(other, code_of(client, student), **unproven), 400, "invalid_grant")
    elsewhere = {**vars(WIKI), "redirect_uris": (BYE,)}
    other = make_app(applications=(ApplicationSettings(**elsewhere),)).test_client()
    failure(check(other, request), 400, "invalid_token")


# The login is an hour old. With what is asked for: the error, or none.
AGES = [
    ({}, None),
    ({"max_age": "3700"}, None),
    ({"max_age": "3500"}, "login_too_old"),
    ({"max_age": "0"}, "login_too_old"),
    ({"prompt": "login"}, "login_too_old"),
    ({"prompt": "select_account consent"}, None),
    ({"prompt": "none"}, None),
]


@pytest.mark.parametrize(("asks", "error"), AGES, ids=str)
def test_old_login_is_refused_where_the_application_wants_a_new_one(
    client, app, student, clock, asks, error
):
    began = core_clock.utcnow() - timedelta(hours=1)
    execute(app, update(models.UserSession).values(created_at=began))
    request = begin(client, **asks)
    if error:
        failure(ask_code(client, student, request), 403, error)
        if "max_age" in asks:
            silent = begin(client, **asks, prompt="none")
            assert answer(client, student, silent)["error"] == "login_required"
    else:
        assert "code" in answer(client, student, request)
    # A login in the same second as the request, and before it, is older.
    execute(app, update(models.UserSession).values(created_at=core_clock.utcnow()))
    failure(ask_code(client, student, begin(client, prompt="login")), 403, "login_too_old")
    # A login after the request is always new enough.
    later = success(login(client, student.user))["accessToken"]
    clock.move(minutes=4)
    assert "code" in answer(client, later, request)


def test_role_and_second_factor_decide_who_enters(make_app, make_user, log_in, app, caplog):
    settings = {"role": "instructor", "redirect_uris": (BACK,), "secret": SECRET}
    staff = ApplicationSettings(name="wiki", label="Staff", **settings)
    changes = {"applications": (staff,), "require_second_factor": "instructor"}
    client = make_app(**changes).test_client()
    pupil, teacher = make_user("pupil"), make_user("teacher", role="instructor")
    got = answer(client, log_in(pupil), begin(client))
    assert (got["error"], got["state"]) == ("access_denied", "s t&te")
    assert "application_denied" in caplog.messages
    session = log_in(teacher)
    failure(ask_code(client, session, begin(client)), 403, "second_factor_required")
    silently = answer(client, session, begin(client, prompt="none"))
    assert silently["error"] == "interaction_required"
    set_user(app, teacher, second_factor_at=core_clock.utcnow())
    code, other = code_of(client, session), code_of(client, session)
    token = redeem(client, code).get_json()["access_token"]
    assert user_info(client, token).status_code == 200
    # Who may not enter any more gets nothing for a code or a token either.
    set_user(app, teacher, second_factor_at=None)
    refused(redeem(client, other), 400, "invalid_grant")
    refused(user_info(client, token), 401, "invalid_token")


@on_both
@pytest.mark.parametrize("how", ["signed out", "inactive", "too old"])
def test_end_of_a_session_ends_its_codes_and_tokens(client, app, student, how):
    tokens, code = tokens_of(client, student), code_of(client, student)
    if how == "signed out":
        success(client.post("/api/auth/logout", headers=bearer(student)))
    elif how == "inactive":
        alter(app, student.user, {"is_active": False})
    else:
        over = update(models.UserSession).values(expires_at=core_clock.utcnow())
        execute(app, over)
    refused(redeem(client, code), 400, "invalid_grant")
    refused(user_info(client, tokens["access_token"]), 401, "invalid_token")
    failure(ask_code(client, student, begin(client)), 401, "token_revoked")


# Each wrong at the token end point, by the error. None uses the code up.
HEADERS = [basic("wiki", "wrong"), basic("other", SECRET), basic("spa", ""), basic("spa", SECRET)]
HEADERS += [
    {"Authorization": each}
    for each in ("Basic", "Basic !", "Basic d2lraQ==", "Basic /w==", "Bearer x", "Basic \xe9")
]
HEADERS.append({"Authorization": f"Bearer {basic('wiki', SECRET)['Authorization'][6:]}"})
TWICE = ("grant_type", "code", "redirect_uri", "client_id", "client_secret")
TOKEN_ERRORS = {
    "invalid_client": [
        *({"client_secret": each} for each in (None, "x", SECRET[1:], "\xff")),
        *({"client_id": each} for each in (None, "other", "spa", "WIKI")),
        *({**IN_HEADER, "headers": each} for each in HEADERS),
    ],
    "unsupported_grant_type": [{"grant_type": each} for each in ("refresh_token", "password")],
    "invalid_request": [
        {"headers": basic("wiki", SECRET)},
        {**IN_HEADER, "client_id": "spa", "headers": basic("wiki", SECRET)},
        *({each: None} for each in TWICE[:3]),
        {"code": ""},
        *({each: ["a", "a"]} for each in TWICE),
        {"client_secret": "a\nb"},
    ],
    "invalid_grant": [
        *({"redirect_uri": each} for each in (SPA_BACK, f"{BACK}/", BYE)),
        *({"code_verifier": each} for each in (VERIFIER, "short")),  # of no challenge
        {"code": "x"},
        {**IN_BROWSER, "redirect_uri": BACK, "code_verifier": None},  # of another application
    ],
}


@pytest.mark.asvs("10.4.10")
@pytest.mark.parametrize(
    ("error", "wrong"), [(error, each) for error in TOKEN_ERRORS for each in TOKEN_ERRORS[error]]
)
def test_wrong_call_gets_no_tokens_and_uses_nothing_up(client, student, error, wrong):
    code = code_of(client, student)
    status = 401 if error == "invalid_client" else 400
    refused(redeem(client, **{"code": code, **wrong}), status, error)
    assert redeem(client, code).status_code == 200


@pytest.mark.parametrize(
    "verifier", [None, VERIFIER[:-1], VERIFIER[:42], f"{VERIFIER}\n", "x" * 129]
)
def test_who_has_begun_pkce_must_prove_it(client, student, verifier):
    code = code_of(client, student, **CHALLENGE)
    error = "invalid_request" if verifier and "\n" in verifier else "invalid_grant"
    refused(redeem(client, code, code_verifier=verifier), 400, error)
    assert redeem(client, code, code_verifier=VERIFIER).status_code == 200
    code = code_of(client, student, application=SPA)
    refused(redeem(client, code, **{**IN_BROWSER, "code_verifier": verifier}), 400, error)
    assert redeem(client, code, **IN_BROWSER).status_code == 200


def test_body_of_the_token_end_point_is_a_form_and_nothing_else(client, student):
    code = code_of(client, student)
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK}
    form |= {"client_id": "wiki", "client_secret": SECRET}
    refused(client.post("/oauth/token", json=form), 400, "invalid_request")
    refused(client.post("/oauth/token"), 400, "invalid_request")
    refused(client.post("/oauth/token", query_string=form, data={"a": "b"}), 401, "invalid_client")
    failure(client.get("/oauth/token", query_string=form), 405, "method_not_allowed")
    large = client.post("/oauth/token", data={"code": "x" * 70_000})
    failure(large, 413, "too_large")
    packed = client.post("/oauth/token", data=form, headers={"Content-Encoding": "gzip"})
    refused(packed, 400, "invalid_request")
    assert client.post("/oauth/token", data=form).status_code == 200


@pytest.mark.asvs("10.4.3")
def test_code_is_good_for_a_minute(client, student, clock):
    code, other = code_of(client, student), code_of(client, student)
    clock.move(seconds=58)
    assert redeem(client, code).status_code == 200
    clock.move(seconds=2)
    refused(redeem(client, other), 400, "invalid_grant")


def test_access_token_is_good_for_access_token_minutes(client, student, clock):
    token = tokens_of(client, student)["access_token"]
    clock.move(minutes=14, seconds=55)
    assert user_info(client, token).status_code == 200
    clock.move(seconds=5)
    refused(user_info(client, token), 401, "invalid_token")


@on_both
def test_of_parallel_calls_with_a_code_one_gets_tokens(client, app, student):
    code = code_of(client, student)
    answers = race(lambda _: redeem(app.test_client(), code), 8)
    (won,) = (each for each in answers if each.status_code == 200)
    for lost in answers:
        if lost is not won:
            refused(lost, 400, "invalid_grant")
    # A code that came twice may be stolen: what it got ends.
    refused(user_info(client, won.get_json()["access_token"]), 401, "invalid_token")


@pytest.mark.asvs("10.4.2")
def test_code_that_comes_again_ends_its_access_token_and_no_other(client, student):
    code = code_of(client, student)
    token = redeem(client, code).get_json()["access_token"]
    beside = tokens_of(client, student)["access_token"]
    # A thief of the code alone ends nothing.
    refused(redeem(client, code, client_secret="wrong"), 401, "invalid_client")
    refused(redeem(client, code, redirect_uri=BYE), 400, "invalid_grant")
    assert user_info(client, token).status_code == 200
    refused(redeem(client, code), 400, "invalid_grant")
    refused(user_info(client, token), 401, "invalid_token")
    assert user_info(client, beside).status_code == 200


def test_texts_and_tokens_of_one_kind_are_none_of_another(client, student):
    request, tokens = begin(client), tokens_of(client, student)
    left = sent_to(client.get("/oauth/logout"), "https://school.test/account#leave=")["leave"]
    code = code_of(client, student)
    texts = {"request": request, "leave": left, "code": code, "session": student.access}
    texts |= {"refresh": student.refresh, "id": tokens["id_token"], "": ""}
    texts |= {"access": tokens["access_token"], "state": f"{code}x"}
    for kind, text in texts.items():
        if kind not in ("request", "leave"):
            failure(check(client, text), 400, "invalid_token")
        if kind != "request":
            failure(ask_code(client, student, text), 400, "invalid_token")
        if kind != "code":
            error = "invalid_grant" if text else "invalid_request"
            refused(redeem(client, text), 400, error)
        if kind != "access":
            refused(user_info(client, text), 401, "invalid_token")
        if kind != "session":
            assert verify(client, text).status_code == 401
        if kind != "id":
            hint = {"id_token_hint": text or "x"}
            failure(client.get("/oauth/logout", query_string=hint), 400, "invalid_request")
    refused(client.get("/oauth/userinfo"), 401, "invalid_token")
    refused(
        client.post("/oauth/userinfo", environ_overrides={"CONTENT_LENGTH": "9"}),
        400,
        "invalid_request",
    )
    headers = {"Authorization": f"Basic {tokens['access_token']}"}
    refused(client.get("/oauth/userinfo", headers=headers), 401, "invalid_token")
    assert redeem(client, code).status_code == 200


def leave(client, **sent):
    return client.get("/oauth/logout", query_string=sent)


def left(client, **sent):
    """Return what our page is told of a sign-out."""
    request = sent_to(leave(client, **sent), "https://school.test/account#leave=")["leave"]
    told = success(check(client, request))
    assert (told.pop("prompt"), told.pop("loginHint")) == ("", "")
    return told


def test_sign_out_goes_on_where_the_settings_say(client, student, clock):
    hint, name = tokens_of(client, student)["id_token"], student.user.id
    nothing = {"label": "", "url": "", "userId": ""}
    assert left(client) == nothing
    assert left(client, client_id="wiki") == {**nothing, "label": "Our Wiki"}
    whole = {"label": "Our Wiki", "url": f"{BYE}?state=a+b", "userId": name}
    to = {"post_logout_redirect_uri": BYE, "state": "a b"}
    assert left(client, id_token_hint=hint, **to) == whole
    assert left(client, id_token_hint=hint, client_id="wiki", **to) == whole
    assert left(client, client_id="wiki", post_logout_redirect_uri=BYE)["url"] == BYE
    form = client.post("/oauth/logout", data={"id_token_hint": hint})
    assert sent_to(form, "https://school.test/account#leave=")
    clock.move(days=30, seconds=-30)  # the hint has expired long ago
    assert left(client, id_token_hint=hint, **to) == whole
    clock.move(minutes=1)
    assert left(client, id_token_hint=hint, **to) == {**whole, "userId": ""}
    request = sent_to(leave(client, **to, client_id="wiki"))["leave"]
    clock.move(minutes=5)
    failure(check(client, request), 400, "invalid_token")


def test_hint_of_a_key_or_an_application_that_leaves_is_good(client, make_app, student):
    hint = tokens_of(client, student)["id_token"]
    new = rsa.generate_private_key(65537, 2048)
    other = make_app(applications=(SPA,), applications_keys=(new, KEY)).test_client()
    assert left(other, id_token_hint=hint) == {"label": "", "url": "", "userId": student.user.id}
    hints = {"id_token_hint": hint, "post_logout_redirect_uri": BYE}
    failure(leave(other, **hints), 400, "invalid_request")
    failure(leave(client, id_token_hint="x.y.z"), 400, "invalid_request")
    code = code_of(other, student, SPA)
    token = redeem(other, code, **IN_BROWSER).get_json()["id_token"]
    assert read_id_token(other, token, "spa")["sub"] == student.user.id
    failure(leave(client, id_token_hint=token), 400, "invalid_request")


@pytest.mark.asvs("10.6.2")
def test_sign_out_with_anything_wrong_is_refused(client, student):
    hint = tokens_of(client, student)["id_token"]
    head, body, signature = hint.split(".")
    claims = jwt.decode(hint, options={"verify_signature": False})
    public = client.get("/oauth/keys").get_json()["keys"][0]
    kid = {"kid": public["kid"]}
    other = rsa.generate_private_key(65537, 2048)
    hints = [
        *("x", "a.b.c", f"{head}.{body}.", f"{head}.{body}.{signature[:-4]}AAAA", f"{hint}.x"),
        jwt.encode(claims, None, "none", kid),
        jwt.encode(claims, public["n"], "HS256", kid),
        jwt.encode(claims, other, "RS256", kid),
        *(jwt.encode(claims, KEY, each, kid) for each in ("RS512", "PS256")),
        jwt.encode(claims, KEY, "RS256"),
        jwt.encode(claims, KEY, "RS256", {"kid": "other"}),
        jwt.encode({**claims, "iss": "https://other.test"}, KEY, "RS256", kid),
    ]
    wrong = [
        *({"id_token_hint": each} for each in hints),
        {"id_token_hint": hint, "client_id": "spa"},
        {"client_id": "other"},
        {"post_logout_redirect_uri": BYE},
        *({"client_id": "wiki", "post_logout_redirect_uri": each} for each in (BACK, f"{BYE}/")),
        {"client_id": "spa", "post_logout_redirect_uri": BYE},
        *({each: ["a", "a"]} for each in ("id_token_hint", "client_id", "state")),
        {"client_id": "wiki", "state": "a\tb"},
        {"client_id": "wiki", "post_logout_redirect_uri": BYE, "state": "a" * 4000},
    ]
    for sent in wrong:
        response = leave(client, **sent)
        failure(response, 400, "invalid_request")
        assert "Location" not in response.headers


def test_documents_for_clients(client):
    response = client.get("/.well-known/openid-configuration")
    document = response.get_json()
    base = "https://school.test"
    assert document["issuer"] == base
    ends = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
    for name, path in {**ends, "end_session": "logout"}.items():
        assert document[f"{name}_endpoint"] == f"{base}/oauth/{path}"
    # Discovery 1.0, section 3: these are required, and the default of the last two is another one.
    required = ["response_types_supported", "subject_types_supported"]
    assert {name: document[name] for name in required} == {
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
    }
    assert document["id_token_signing_alg_values_supported"] == ["RS256"]
    assert document["request_uri_parameter_supported"] is False
    assert document["authorization_response_iss_parameter_supported"] is True
    assert document["code_challenge_methods_supported"] == ["S256"]
    proofs = ["client_secret_basic", "client_secret_post", "none"]
    assert document["token_endpoint_auth_methods_supported"] == proofs
    keys = client.get(document["jwks_uri"].removeprefix(base))
    (key,) = keys.get_json()["keys"]
    public = {"kty": "RSA", "use": "sig", "alg": "RS256", "e": "AQAB"}
    assert key.items() >= public.items()
    assert key.keys() == {*public, "n", "kid"}
    for each in (response, keys):
        assert each.headers["Cache-Control"] == "public, max-age=300"
        again = client.get(each.request.path, headers={"If-None-Match": each.headers["ETag"]})
        assert again.status_code == 304


def test_scripts_of_all_origins_may_call_what_is_not_for_browsers(make_app, student):
    client = make_app(cors_origins=("https://app.test",)).test_client()
    asks = {"Origin": "https://app.test", "Access-Control-Request-Method": "POST"}
    asks["Access-Control-Request-Headers"] = "authorization,content-type"
    paths = ["/.well-known/openid-configuration", "/oauth/keys", "/oauth/userinfo", "/oauth/token"]
    for path in paths:
        method = "POST" if path == "/oauth/token" else "GET"
        for response in (
            client.options(path, headers=asks),
            client.open(path, method=method, headers={"Origin": "https://app.test"}),
            client.put(path, headers={"Origin": "https://app.test"}),
        ):
            assert response.headers["Access-Control-Allow-Origin"] == "*"
            assert "Access-Control-Allow-Credentials" not in response.headers
            allowed = response.headers["Access-Control-Allow-Headers"]
            assert allowed == "Authorization, Content-Type"
        assert client.options(path, headers=asks).status_code == 200
    for path in ("/oauth/authorize", "/oauth/logout"):
        response = client.get(path, headers={"Origin": "https://elsewhere.test"})
        assert "Access-Control-Allow-Origin" not in response.headers


def test_no_cookie_is_looked_at(client, student):
    cookie = {"X-Refresh-Cookie": "1"}
    login(client, student.user, headers=cookie)
    assert client.get_cookie("__Host-refresh")
    success(check(client, begin(client)))
    refused(client.get("/oauth/userinfo", headers=cookie), 401, "invalid_token")
    left(client)
    assert client.get_cookie("__Host-refresh")


def test_key_of_a_service_gets_no_code(client, make_key):
    failure(ask_code(client, make_key("users:read"), begin(client)), 403, "forbidden")


def test_log_names_application_and_error_and_nothing_that_was_sent(client, student, caplog):
    sent = {"state": "secret-state", "nonce": "secret-nonce", "login_hint": "secret@hint.test"}
    request = begin(client, **sent)
    success(check(client, request))
    code = answer(client, student, request)["code"]
    tokens = redeem(client, code).get_json()
    refused(redeem(client, code), 400, "invalid_grant")
    refused(redeem(client, code, client_secret="a-wrong-secret"), 401, "invalid_client")
    refused(redeem(client, code, client_id="a-wrong-name"), 401, "invalid_client")
    client.get("/oauth/authorize", query_string=asking(redirect_uri="https://evil.test"))
    client.get("/oauth/authorize", query_string=asking(scope="wrong-scope"))
    leave(client, id_token_hint=tokens["id_token"])
    lines = [each for each in caplog.records if each.name == "accounts.security"]
    found = [(each.message, each.fields) for each in lines if "application" in each.message]
    refusals = ["invalid_grant", "invalid_client", "invalid_client", "redirect_uri"]
    assert [name for name, _ in found] == ["application_login", *["application_refused"] * 5]
    assert [each.get("reason") for _, each in found] == [None, *refusals, "invalid_scope"]
    names = [each.get("application") for _, each in found]
    assert names == ["wiki"] * 3 + [None] + ["wiki"] * 2
    told = str([vars(each) for each in caplog.records])
    secrets = [*sent.values(), request, code, SECRET, *map(str, tokens.values()), "a-wrong", "evil"]
    secrets = [each for each in secrets if each not in ("Bearer", "900", tokens["scope"])]
    assert [each for each in secrets if each in told] == []


def test_without_applications_nothing_is_there(make_app):
    client = make_app(applications=(), applications_keys=()).test_client()
    for method, path in map(str.split, CALLS.strip().splitlines()):
        response = client.open(path, method=method, json={} if method == "POST" else None)
        failure(response, 404, "not_found")
        assert "Access-Control-Allow-Origin" not in response.headers
        failure(client.put(path), 404, "not_found")
    assert components(client.application).id_tokens.jwks == {"keys": []}
