"""A provider that says nothing keeps nobody waiting but a few who come from it."""

import threading
import time
from urllib.parse import parse_qs, urlsplit

from fake_provider import CLIENT_ID, CLIENT_SECRET, FakeProvider, Trouble, challenge_of
from helpers import soon
from real_service import deployed
from sqlalchemy import URL

PLACES = 2 * 8  # two processes


def test_service_is_quick_while_a_provider_is_silent(tmp_path, mail_server):
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    with FakeProvider() as provider:
        provider.troubles = {"/token": Trouble(chunks="silence")}
        settings = {"OIDC_PROVIDERS": "school", "OIDC_SCHOOL_ISSUER": provider.issuer}
        settings |= {"OIDC_SCHOOL_CLIENT_ID": CLIENT_ID, "OIDC_SCHOOL_CLIENT_SECRET": CLIENT_SECRET}
        with deployed(url, mail_server.port, tmp_path / "log", **settings) as service:
            user = service.register("pupil")
            path = "/api/auth/providers/school"
            begun = service.call("POST", f"{path}/start", {"challenge": challenge_of("x" * 43)})
            state = parse_qs(urlsplit(begun.data["url"]).query)["state"][0]
            took = []

            def come_back():
                start = time.monotonic()
                answer = service.call("GET", f"{path}/callback?state={state}&code=x")
                assert answer.headers["Location"].endswith("#provider=school&error=failed")
                took.append(time.monotonic() - start)

            crowd = [threading.Thread(target=come_back) for _ in range(40)]
            for each in crowd:
                each.start()
            soon(lambda: len(took) >= 40 - PLACES)
            assert max(took) < 4  # they did not wait for the 5 seconds of the others
            for _ in range(5):
                start = time.monotonic()
                token = service.log_in(user).data["accessToken"]
                assert service.call("GET", "/api/auth/verify", token=token).status == 200
                assert service.call("GET", "/readyz").status == 200
                assert time.monotonic() - start < 2
            for each in crowd:
                each.join()
            assert len(took) == 40
            assert provider.asked["/token"] <= PLACES
            assert "Traceback" not in service.log()
