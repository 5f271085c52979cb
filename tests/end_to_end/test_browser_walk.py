"""The docs in Chromium, served by the real service."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.parametrize("service", ["sqlite"], indirect=True)]


@pytest.fixture
def base_url(service):
    """Where `page` looks: nothing on it may break, and no other host may be asked."""
    return service.url


def test_the_docs_show_every_operation_and_call_the_service(page, service):
    document = service.call("GET", "/openapi.json").content
    operations = sum(len(path) for path in document["paths"].values())
    page.goto(f"{service.url}/docs")
    expect(page.locator(".opblock-tag")).to_have_count(len(document["tags"]))
    for tag in page.locator(".opblock-tag").all():
        tag.click()
    expect(page.locator(".opblock")).to_have_count(operations)

    page.locator(".btn.authorize").click()
    token = service.log_in(service.register("reader")).data["accessToken"]
    page.locator(".auth-container input").first.fill(token)
    page.locator(".auth-btn-wrapper .authorize").first.click()
    page.locator(".btn-done").first.click()
    verify = page.locator(".opblock", has_text="/api/auth/verify").first
    verify.locator(".opblock-summary-control").click()
    verify.locator(".execute").click()
    expect(verify.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
