"""Pictures in a running service: what is sent at once, and how much memory that takes."""

import io
import re
import sys
from pathlib import Path

import pytest
from helpers import bearer, race
from PIL import Image
from real_service import read_answer, registration

MEGABYTE = 1024 * 1024
AT_ONCE = 8
BOUNDARY = "a-boundary"


def logged_in(service, name):
    user = registration(name)
    assert service.call("POST", "/api/auth/register", user).status == 201
    login = {"email": user["email"], "password": user["password"]}
    return str(service.call("POST", "/api/auth/login", login).data["accessToken"])


def upload(service, picture, token):
    head = (
        f"--{BOUNDARY}\r\nContent-Disposition: form-data; "
        'name="avatar"; filename="me"\r\nContent-Type: image/jpeg\r\n\r\n'
    )
    body = head.encode() + picture + f"\r\n--{BOUNDARY}--\r\n".encode()
    headers = bearer(token) | {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    connection = service.connect()
    try:
        connection.request("POST", "/api/users/avatar", body, headers)
        return read_answer(connection)
    finally:
        connection.close()


def memory(worker, what):
    """Return a worker's memory in bytes: VmRSS now, VmHWM at its most."""
    status = Path(f"/proc/{worker}/status").read_text()
    (kibibytes,) = re.findall(rf"^{what}:\s+(\d+) kB$", status, re.M)
    return int(kibibytes) * 1024


def picture(kind, side, **options):
    file = io.BytesIO()
    base = Image.radial_gradient("L").resize((side, side), Image.Resampling.NEAREST)
    Image.merge("RGB", (base, base.transpose(Image.Transpose.ROTATE_90), base)).save(
        file, kind, **options
    )
    return file.getvalue()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("service", ["sqlite"], indirect=True)
def test_a_worker_grows_by_less_than_200_mb_however_many_pictures_come(service):
    token = logged_in(service, "painter")
    largest = [
        picture("JPEG", 5000, progressive=True, subsampling=0, quality=80),
        picture("WEBP", 2828, quality=60, method=0),
        picture("PNG", 3464, compress_level=1),
    ]
    worker = service.workers()[0]
    with service.answered_by(worker):
        assert upload(service, picture("PNG", 10), token).status == 200
        before = memory(worker, "VmRSS")
        for each in largest:
            assert len(each) < 5 * MEGABYTE
            answers = race(lambda _, each=each: upload(service, each, token), AT_ONCE)
            assert [answer.status for answer in answers] == [200] * AT_ONCE
        assert service.call("GET", "/readyz").status == 200
    assert service.workers()[0] == worker
    grown = memory(worker, "VmHWM") - before
    assert grown < 200 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB"
    print(f"grown by {grown / MEGABYTE:.0f} MB")


def test_more_uploads_than_can_wait_are_asked_to_come_again_and_reads_stay_quick(service):
    token = logged_in(service, "crowd")
    heavy = picture("PNG", 1500, compress_level=1)
    with service.answered_by(service.workers()[0]):
        answers = race(
            lambda number: (
                upload(service, heavy, token)
                if number % 4
                else service.call("GET", "/api/users/profile", token=token)
            ),
            48,
        )
    statuses = {answer.status for answer in answers}
    assert statuses <= {200, 503}
    assert {answers[number].status for number in range(0, 48, 4)} == {200}
    for answer in answers:
        if answer.status == 503:
            assert answer.code == "unavailable"
            assert int(answer.headers["Retry-After"]) > 0
