"""The pages below a path of a host, behind nginx, which strips it."""

import gzip
import json
import re
import shutil
from urllib.request import Request, urlopen

import pytest
from helpers import PASSWORD
from playwright.sync_api import expect
from real_service import PATIENCE, deployed, free_port, start_nginx
from sqlalchemy import URL

from config import ROOT

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not shutil.which("nginx"), reason="needs nginx"),
]


def lines_of_the_docs():
    (lines,) = re.findall(
        r"^```nginx\n(.*?)^```", (ROOT / "docs/operations.md").read_text(), re.M | re.S
    )
    return lines


@pytest.fixture
def base_url(tmp_path, mail_server):
    """Serve the application at /accounts/ of an nginx with the example of deploy/nginx.conf."""
    port = free_port()
    place = f"http://127.0.0.1:{port}/accounts"
    url = URL.create("sqlite", database=str(tmp_path / "prefix.db"))
    settings = {"PUBLIC_URL": place, "TRUSTED_PROXIES": "1"}
    with deployed(url, mail_server.port, tmp_path / "log", **settings) as service:
        example = (ROOT / "deploy/nginx.conf").read_text()
        example = re.sub(r"    location / {\n.*\n", lines_of_the_docs(), example)
        nginx = start_nginx(tmp_path, example, port, service.port)
        service.register("ada")
        yield place
        nginx.terminate()
        nginx.wait(PATIENCE)


def test_the_openapi_document_comes_compressed(base_url):
    asked = Request(f"{base_url}/openapi.json", headers={"Accept-Encoding": "gzip"})
    with urlopen(asked) as answer:
        assert json.loads(gzip.decompress(answer.read()))["openapi"]


def test_the_docs_work_below_a_path(page, base_url):
    page.goto(f"{base_url}/docs")
    page.locator(".opblock-tag").first.click()
    expect(page.locator(".opblock").first).to_be_visible()


def test_the_pages_work_below_a_path(page, base_url):
    page.goto(f"{base_url}/")
    form = page.locator("#sign-in form")
    expect(form).to_be_visible()
    assert page.url == f"{base_url}/account"
    form.locator("[name=email]").fill("ada")
    form.locator("[name=password]").fill(PASSWORD)
    form.locator("[name=password]").press("Enter")
    for id in ("profile", "learning", "settings", "security"):
        page.evaluate(f"location.hash = '{id}'")
        expect(page.locator(f"#{id} h1")).to_be_focused()
        expect(page.locator(f"#{id}[data-shown]")).to_be_visible()
    page.reload()
    expect(page.locator("#sign-out")).to_be_visible()
    page.goto(f"{base_url}/admin")
    page.locator("#no-rights").get_by_role("link", name="My account").click()
    page.get_by_role("link", name="Profile").click()
    expect(page.locator("#profile .avatar").first).to_have_js_property("naturalWidth", 512)
