"""Pictures of users: uploaded, served to everybody, replaced and removed."""

import io

import pytest
from endpoints import WITH_UPLOAD
from helpers import (
    connections_held,
    execute,
    failure,
    on_both,
    picture,
    picture_form,
    race,
    rows,
    set_user,
    success,
    words,
)
from PIL import Image
from test_bad_input import Broken, stream

from core.images import Avatars, PicturesBusy
from models import Avatar, User, UserSession

PUBLIC_URL = "https://school.test"


@pytest.fixture
def send(client, auth):
    """Send a form, or what stands in its place."""

    def send(data, content_type="multipart/form-data", headers=auth.headers):
        options = {"content_type": content_type, "headers": headers}
        return client.post("/api/users/avatar", data=data, **options)

    return send


@pytest.fixture
def upload(send, auth):
    def upload(content, headers=auth.headers, **details):
        return send(picture_form(content, **details), headers=headers)

    return upload


class Disk(io.BytesIO):
    """Stands in place of a temporary file."""

    def __init__(self, **_options):
        super().__init__()


def path_of(answer):
    """Return the path of the picture in an answer, which is a URL below PUBLIC_URL."""
    url = answer["avatar"]
    assert url.startswith(f"{PUBLIC_URL}/avatars/")
    assert url.endswith(".webp")
    return url.removeprefix(PUBLIC_URL)


def shown(client, path):
    """Return the picture that a browser shows, without any token."""
    response = client.get(path)
    assert (response.status_code, response.mimetype) == (200, "image/webp")
    with Image.open(io.BytesIO(response.data)) as found:
        found.load()
        return found


@pytest.mark.asvs("5.3.1", "5.3.2")
@on_both
def test_uploaded_picture_is_shown_to_everybody_whatever_is_said_of_it(client, auth, upload):
    told = {"filename": "../../evil.html", "content_type": "text/html"}
    answer = success(upload(picture("red", form="JPEG"), **told))
    assert answer.keys() == {"avatar"}
    found = shown(client, path_of(answer))
    assert (found.format, found.size) == ("WEBP", (30, 30))
    red, *others = found.getpixel((15, 15))
    assert red > 240 > 20 > max(others)
    profile = success(client.get("/api/users/profile", headers=auth.headers))
    record = success(client.get(f"/api/users/{auth.user.id}", headers=auth.headers))
    assert profile["avatar"] == record["avatar"] == answer["avatar"]


@pytest.mark.asvs("3.4.8", "3.5.8")
def test_picture_may_be_kept_for_ever(client, upload):
    path = path_of(success(upload(picture())))
    first = client.get(path)
    tag = first.headers["ETag"]
    assert tag.strip('"') in path
    again = client.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag)
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    head = client.head(path)
    assert (head.status_code, head.data, head.headers["ETag"]) == (200, b"", tag)
    assert head.headers["Content-Length"] == str(len(first.data))


def test_everybody_has_a_picture_from_the_start_and_after_the_own_one(app, client, auth, upload):
    default = path_of(success(client.get("/api/users/profile", headers=auth.headers)))
    own = path_of(success(upload(picture())))
    for _ in range(2):  # and nothing is wrong with removing it again
        response = client.delete("/api/users/avatar", headers=auth.headers)
        assert path_of(success(response)) == default
    assert path_of(success(client.get("/api/users/profile", headers=auth.headers))) == default
    failure(client.get(own), 404, "not_found")
    assert shown(client, default).size == (512, 512)
    assert rows(app, Avatar) == []


@on_both
def test_another_picture_has_another_address_and_takes_the_place_of_the_first(app, client, upload):
    first = path_of(success(upload(picture("green"))))
    second = path_of(success(upload(picture("blue"))))
    assert first != second
    failure(client.get(first), 404, "not_found")
    shown(client, second)
    assert path_of(success(upload(picture("blue")))) == second
    assert len(rows(app, Avatar)) == 1


def test_one_picture_of_two_users_stays_while_one_of_them_has_it(
    client, auth, upload, make_user, log_in
):
    other = log_in(make_user("other")).headers
    mine, theirs = (path_of(success(upload(picture(), headers=h))) for h in (auth.headers, other))
    assert mine == theirs
    shown(client, mine)
    success(client.delete("/api/users/avatar", headers=auth.headers))
    shown(client, theirs)
    success(client.delete("/api/users/avatar", headers=other))
    failure(client.get(theirs), 404, "not_found")


def test_picture_of_an_inactive_user_is_not_shown(app, client, auth, upload):
    path = path_of(success(upload(picture())))
    for active, status in ((False, 404), (True, 200)):
        set_user(app, auth.user, is_active=active)
        assert client.get(path).status_code == status


@pytest.mark.asvs("5.3.1", "5.3.2")
def test_unknown_picture_is_a_404_in_json(client):
    for name in ("0" * 64, "x", "%00", ""):
        path = f"/avatars/{name}.webp"
        failure(client.get(path), 404, "not_found")
        failure(client.get(path, headers={"If-None-Match": "*"}), 404, "not_found")


@pytest.mark.asvs("1.3.4")
def test_what_is_no_picture_is_told_and_changes_nothing(app, client, auth, upload):
    before = success(client.get("/api/users/profile", headers=auth.headers))
    for content in (picture()[:-40], picture(form="BMP"), b"<html></html>"):
        response = upload(content)
        failure(response, 400, "invalid_image")
        assert words(response) == {"avatar": ["invalid"]}
    assert success(client.get("/api/users/profile", headers=auth.headers)) == before
    assert rows(app, Avatar) == []


def test_body_that_is_no_form_is_a_415(send):
    for body, content_type in (
        *((picture(), None), (picture(), "image/png")),
        (b"avatar=x", "multipart/mixed; boundary=x"),
    ):
        failure(send(body, content_type), 415, "unsupported_media_type")


def test_what_is_wrong_with_the_form_is_named(send):
    unknown, required, wrong_type = ["unknown"], ["required"], ["type"]
    for data, wrong in (
        ({}, {"avatar": required}),
        (picture_form(b""), {"avatar": required}),
        (picture_form(b"", filename=""), {"avatar": required}),
        ({"avatar": "text"}, {"avatar": wrong_type}),
        ({"other": "text"}, {"avatar": required, "other": unknown}),
        ({**picture_form(picture()), "role": "admin"}, {"role": unknown}),
        ({**picture_form(picture()), **picture_form(b"", name="second")}, {"second": unknown}),
        ({"avatar": [(io.BytesIO(b"a"), "a"), (io.BytesIO(b"b"), "b")]}, {"avatar": wrong_type}),
        (picture_form(picture(), name="Avatar"), {"avatar": required, "Avatar": unknown}),
    ):
        response = send(data)
        failure(response, 400, "invalid_request")
        assert words(response) == wrong


def test_broken_form_is_a_400(send):
    head = b'--x\r\nContent-Disposition: form-data; name="%s"; filename="a"\r\n\r\n'
    for boundary, body in (
        *(("", b"--x\r\n"), ("; boundary=", b"--\r\n"), ("; boundary=\u00e4", b"--x\r\n")),
        ("; boundary=x", b"no form at all"),
        ("; boundary=x", b"--x\r\n\r\nno name\r\n--x--\r\n"),
        ("; boundary=x", head % b"avatar" + b"cut off"),
        ("; boundary=x", head % b"\xff" + b"\r\n--x--"),
        ("; boundary=x", b"--x\r\n" + b"a: b\r\n" * 5000 + b"\r\n--x--\r\n"),
    ):
        failure(send(body, f"multipart/form-data{boundary}"), 400, "invalid_request")


def test_endless_forms_are_cut_off(send):
    many = {f"field{number}": "x" for number in range(11)}
    for data in (many, {"note": "x" * 300_000}, {"n" * 300_000: "x"}):
        failure(send(data), 413, "too_large")


@pytest.mark.asvs("5.2.1", "5.2.2")
def test_file_of_the_largest_size_is_taken_and_a_byte_more_is_not(make_app, auth):
    content = picture()
    for limit, status in ((len(content), 200), (len(content) - 1, 413)):
        client = make_app(max_avatar_bytes=limit).test_client()
        data = picture_form(content)
        response = client.post("/api/users/avatar", data=data, headers=auth.headers)
        assert response.status_code == status
    failure(response, 413, "too_large")


def multipart(content):
    head = b'--x\r\nContent-Disposition: form-data; name="avatar"; filename="a"\r\n\r\n'
    return head + content + b"\r\n--x--\r\n"


@pytest.fixture
def send_stream(client, auth):
    (endpoint,) = WITH_UPLOAD

    def send_stream(body, length=""):
        content_type = "multipart/form-data; boundary=x"
        return stream(client, endpoint, body, length, content_type, auth.headers)

    return send_stream


def test_chunked_upload_is_measured_and_read(client, send_stream):
    shown(client, path_of(success(send_stream(multipart(picture())))))
    for content in (b"x" * (5 * 2**20 + 1), b"x" * 6 * 2**20):
        refused = send_stream(multipart(content))
        failure(refused, 413, "too_large")
        assert "at most 5 MiB" in refused.json["message"]
    for body, length in ((Broken(), ""), (b"", ""), (multipart(picture()), "9000")):
        failure(send_stream(body, length), 400, "invalid_request")
    # A length that is announced is believed.
    failure(send_stream(Broken(), str(6 * 2**20)), 413, "too_large")


def test_chunked_upload_is_not_stored_beyond_the_limit(send_stream, monkeypatch):
    stored = []

    class Watched(Disk):
        def write(self, piece):
            stored.append(len(piece))
            return super().write(piece)

    monkeypatch.setattr("web.forms.TemporaryFile", Watched)
    failure(send_stream(multipart(b"x" * 20 * 2**20)), 413, "too_large")
    assert sum(stored) <= 5 * 2**20 + 2 * 64 * 1024


def test_no_connection_is_held_while_a_picture_is_made(app, upload, monkeypatch):
    held = connections_held(app, monkeypatch, Avatars, "make")
    success(upload(picture()))
    assert held == [0]


def test_too_many_pictures_at_once_are_asked_to_come_again(upload, monkeypatch):
    def busy(_self, _file):
        raise PicturesBusy

    monkeypatch.setattr(Avatars, "make", busy)
    response = upload(picture())
    failure(response, 503, "unavailable")
    assert int(response.headers["Retry-After"]) > 0


@on_both
def test_of_uploads_at_once_one_stays_and_is_shown(app, client, auth):
    def send(number):
        data = picture_form(picture((number * 15, 0, 0)))
        response = app.test_client().post("/api/users/avatar", data=data, headers=auth.headers)
        return success(response)["avatar"]

    urls = race(send)
    profile = success(client.get("/api/users/profile", headers=auth.headers))
    assert profile["avatar"] in urls
    shown(client, path_of(profile))
    assert len(rows(app, Avatar)) == 1


@pytest.mark.parametrize("model", [User, UserSession])
def test_upload_for_an_account_or_a_session_that_goes_meanwhile_is_refused(
    app, upload, monkeypatch, model
):
    make = Avatars.make

    def slow(self, file):
        execute(app, model.__table__.delete())
        return make(self, file)

    monkeypatch.setattr(Avatars, "make", slow)
    failure(upload(picture()), 401, "token_revoked")
    assert rows(app, Avatar) == []


def test_full_disk_is_unavailable_and_no_fault_of_the_client(upload, monkeypatch):
    class FullDisk(Disk):
        def write(self, _piece):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("web.forms.TemporaryFile", FullDisk)
    failure(upload(picture()), 503, "unavailable")
