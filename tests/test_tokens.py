"""No token passes for another, and none passes that was changed."""

import tracemalloc
from datetime import timedelta

import jwt
import pytest
from forgeries import FORGERIES, OTHER_KEY, USER_ID, forge
from helpers import SECRET, failure, login, refresh, success, verify

from core import clock as real_clock
from core import tokens
from core.tokens import Purpose, TokenCodec, TokenInvalid, key_id

CODECS = {algorithm: TokenCodec([SECRET], algorithm) for algorithm in ("HS256", "ES256")}


def issue(codec, purpose):
    """Return a token that is good for a minute."""
    now = real_clock.utcnow()
    extra = {"role": "student"} if purpose is Purpose.ACCESS else {"auth_time": 0}
    times = {"issued_at": now, "expires_at": now + timedelta(minutes=1)}
    return codec.encode(purpose, USER_ID, **times, sid=USER_ID, **extra)


@pytest.fixture(params=["HS256 access", "ES256 access", "HS256 refresh"])
def issued(request):
    """The codec of an algorithm, a purpose, and a token of this kind, which the codec remembers."""
    algorithm, purpose = request.param.split()
    codec, purpose = CODECS[algorithm], Purpose(purpose)
    token = issue(codec, purpose)
    codec.decode(purpose, token)
    return codec, purpose, token


@pytest.mark.asvs("7.2.1", "7.2.2", "9.1.1", "9.1.2", "9.1.3")
@pytest.mark.parametrize("name", FORGERIES)
def test_changed_token_is_refused_and_nothing_is_fetched(issued, monkeypatch, name):
    codec, purpose, token = issued

    def fail(*_arguments):
        raise AssertionError("a request to another server")

    monkeypatch.setattr("socket.socket.connect", fail)
    with pytest.raises(TokenInvalid):
        codec.decode(purpose, FORGERIES[name](token))


def test_forging_by_itself_changes_nothing(issued):
    codec, purpose, token = issued
    for same in (forge(token), forge(token, header={"cty": "JWT"}), forge(token, more="claims")):
        assert codec.decode(purpose, same)["sub"] == USER_ID


def test_type_or_audience_alone_does_not_make_a_token_of_another_kind(issued):
    codec, purpose, token = issued
    (other,) = set(Purpose) - {purpose}
    for changes in ({}, {"type": other}, {"aud": f"accounts:{other}"}):
        with pytest.raises(TokenInvalid):
            codec.decode(other, forge(token, **changes))


def test_refresh_tokens_stay_with_the_shared_key():
    codec = CODECS["ES256"]
    token = issue(codec, Purpose.REFRESH)
    codec.decode(Purpose.REFRESH, token)
    public = {"alg": "ES256", "kid": codec.jwks["keys"][0]["kid"]}
    with pytest.raises(TokenInvalid):
        codec.decode(Purpose.REFRESH, forge(token, header=public))


def test_what_is_remembered_is_bounded(monkeypatch):
    assert tokens.REMEMBERED <= 2048
    monkeypatch.setattr(tokens, "REMEMBERED", 256)
    codec = TokenCodec([SECRET])
    tracemalloc.start()
    for _ in range(2 * tokens.REMEMBERED):
        codec.decode(Purpose.ACCESS, issue(codec, Purpose.ACCESS))
    used, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 3 * 1024 * tokens.REMEMBERED


def test_claims_cannot_be_changed_for_the_next_request(issued):
    codec, purpose, token = issued
    with pytest.raises(TypeError):
        codec.decode(purpose, token)["role"] = "admin"


def test_a_token_is_verified_once_and_looked_at_each_time(client, auth, clock, monkeypatch):
    success(verify(client, auth.access))

    def fail(*_arguments, **_options):
        raise AssertionError("verified again")

    with monkeypatch.context() as patched:
        patched.setattr("core.tokens.jwt.decode", fail)
        success(verify(client, auth.access))
        clock.move(minutes=16)
        failure(verify(client, auth.access), 401, "token_expired")
    clock.move(minutes=-16)
    success(client.post("/api/auth/logout", headers=auth.headers))
    failure(verify(client, auth.access), 401, "token_revoked")


@pytest.mark.parametrize("secret", [SECRET, "schlüssel mit umlauten, lang genug"])
def test_other_libraries_read_what_we_sign_with_the_key_byte_for_byte(make_app, make_user, secret):
    user = make_user()
    tokens = success(login(make_app(secret_key=secret).test_client(), user))
    for purpose in ("access", "refresh"):
        token = tokens[f"{purpose}Token"]
        expected = {"audience": f"accounts:{purpose}", "issuer": "accounts"}
        claims = jwt.decode(token, secret.encode(), algorithms=["HS256"], **expected)
        assert jwt.get_unverified_header(token)["kid"] == key_id(secret)
        assert claims["sub"] == user.id


@pytest.mark.asvs("9.2.1")
def test_expired_token_is_told_from_an_invalid_one(client, auth):
    failure(verify(client, forge(auth.access, exp=1)), 401, "token_expired")
    failure(refresh(client, forge(auth.refresh, exp=1)), 401, "token_expired")
    for response in (
        verify(client, forge(auth.access, exp=1, secret=OTHER_KEY)),
        verify(client, auth.access[:-3]),
    ):
        failure(response, 401, "token_invalid")
        assert response.headers["WWW-Authenticate"].startswith("Bearer error=")


def test_unknown_user_or_session_is_a_revoked_token(client, auth):
    failure(verify(client, forge(auth.access, sub=USER_ID)), 401, "token_revoked")
    failure(refresh(client, forge(auth.refresh, sub=USER_ID)), 401, "token_revoked")
    failure(refresh(client, forge(auth.refresh, sid=USER_ID)), 401, "token_revoked")
    failure(refresh(client, auth.refresh[:-3]), 401, "token_invalid")
    success(refresh(client, auth.refresh))


@pytest.mark.asvs("9.2.2", "9.2.3")
def test_no_token_passes_for_another(client, auth):
    failure(verify(client, auth.refresh), 401, "token_invalid")
    failure(refresh(client, auth.access), 401, "token_invalid")


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "token_missing"),
        ("", "token_missing"),
        ("Basic dXNlcjpwYXNzd29yZA==", "token_missing"),
        ("Bearer ", "token_invalid"),
        ("Bearer a b", "token_invalid"),
        ("Bearer \xff\xfe", "token_invalid"),
        ("Basic dXNlcjpwYXNzd29yZA==, Bearer <token>", "token_missing"),
        ("Bearer <token>, Basic dXNlcjpwYXNzd29yZA==", "token_invalid"),
        ("Bearer <token>,", "token_invalid"),
        # The scheme has no case, and spaces may follow it, but no other white space.
        *(
            ("bEaReR <token>", None),
            ("Bearer  <token>", None),
            ("Bearer\t<token>", "token_missing"),
        ),
        *(("\xa0Bearer <token>", "token_missing"), ("Bearer <token>\xa0", "token_invalid")),
    ],
)
def test_header_holds_one_token_of_one_scheme(client, auth, header, code):
    headers = {} if header is None else {"Authorization": header.replace("<token>", auth.access)}
    response = client.get("/api/auth/verify", headers=headers)
    if code is None:
        success(response)
        return
    failure(response, 401, code)
    challenge = response.headers["WWW-Authenticate"]
    assert challenge == "Bearer" if code == "token_missing" else challenge.startswith("Bearer ")


@pytest.mark.asvs("3.5.1", "3.5.2", "3.5.3")
def test_token_in_another_place_is_not_seen(client, auth):
    client.set_cookie("access_token_cookie", auth.access)
    failure(client.get(f"/api/auth/verify?jwt={auth.access}"), 401, "token_missing")
    body = {"access_token": auth.access}
    failure(client.post("/api/auth/logout", json=body), 401, "token_missing")


def test_ended_session_stays_ended_however_its_token_is_spelled(client, auth):
    success(client.post("/api/auth/logout", headers=auth.headers))
    signed, last = auth.access[:-1], auth.access[-1]
    # The last character of 43 carries four bits, so its neighbours decode to the same bytes.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    start = alphabet.index(last) & ~3
    tails = [f"{last}=", f"{last}\t", f"{last}\n", *alphabet[start : start + 4]]
    for tail in tails:
        sent = {"HTTP_AUTHORIZATION": f"Bearer {signed}{tail}"}
        response = client.get("/api/auth/verify", environ_overrides=sent)
        assert response.status_code == 401, tail


@pytest.mark.asvs("9.1.1", "9.1.2", "9.1.3")
def test_key_is_rotated_without_logging_anybody_out(make_app, make_user):
    user = make_user()
    before = success(login(make_app().test_client(), user))

    rotated = make_app(secret_key=OTHER_KEY, secret_key_fallbacks=(SECRET,)).test_client()
    success(verify(rotated, before["accessToken"]))
    after = success(refresh(rotated, before["refreshToken"]))
    assert jwt.get_unverified_header(after["accessToken"])["kid"] == key_id(OTHER_KEY)

    retired = make_app(secret_key=OTHER_KEY).test_client()
    failure(verify(retired, before["accessToken"]), 401, "token_invalid")
    success(verify(retired, after["accessToken"]))
