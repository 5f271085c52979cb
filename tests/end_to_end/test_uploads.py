"""Pictures in a running service: what is sent at once, and how much memory that takes."""

import io
import re
from contextlib import closing
from pathlib import Path

import pytest
from helpers import bearer, race
from PIL import Image
from real_service import read_answer

MEGABYTE = 1024 * 1024
AT_ONCE = 8
BOUNDARY = "a-boundary"


def upload(service, picture, token):
    head = (
        f"--{BOUNDARY}\r\nContent-Disposition: form-data; "
        'name="avatar"; filename="me"\r\nContent-Type: image/jpeg\r\n\r\n'
    )
    body = head.encode() + picture + f"\r\n--{BOUNDARY}--\r\n".encode()
    headers = bearer(token) | {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    with closing(service.connect()) as connection:
        connection.request("POST", "/api/users/avatar", body, headers)
        return read_answer(connection)


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


@pytest.mark.asvs("5.2.1", "5.2.2")
@pytest.mark.parametrize("service", ["sqlite"], indirect=True)
def test_a_worker_grows_by_less_than_200_mb_however_many_pictures_come(service):
    token = service.log_in(service.register("painter")).data["accessToken"]
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
