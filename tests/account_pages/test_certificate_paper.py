"""A certificate as a document: one page of paper, white, with all that a reader has to know."""

import re

import pytest
from helpers import bearer, success

from core import clock

pytestmark = pytest.mark.browser

SIZES = {"A4": (595, 842), "Letter": (612, 792)}  # points
WIDE = ("W" * 45, "W" * 44, "W" * 90)
LONG = ("W" * 64, "W" * 64, "Weihnachtswerkstattwunder " * 7 + "W" * 18)


@pytest.fixture
def shared(client, make_user, make_key, log_in):
    """Deliver a certificate that its holder shares; return its code."""

    def shared(first, last, course, **times):
        user = make_user(first_name=first, last_name=last)
        body = {"courseId": "c", "courseName": course, "issuedAt": "2020-03-01T00:00:00Z", **times}
        path, headers = f"/api/users/{user.id}/certificates/c", bearer(make_key("learning:write"))
        success(client.put(path, json=body, headers=headers), 201)
        headers = log_in(user).headers
        answer = client.put("/api/users/certificates/c", json={"shared": True}, headers=headers)
        return success(answer)["verifyUrl"].rpartition("/")[2]

    return shared


STATES = {
    "valid": {},
    "expired": {"expiresAt": "2021-03-01T00:00:00Z"},
    "revoked": {"revokedAt": "2021-03-01T00:00:00Z"},
}


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
@pytest.mark.parametrize(
    "names", [("Ada", "Lovelace", "Python"), WIDE, LONG], ids=["short", "wide", "long"]
)
@pytest.mark.parametrize("state", STATES)
def test_a_certificate_is_one_white_page_with_everything_on_it(
    browser, base_url, shared, language, names, state
):
    code = shared(*names, **STATES[state])
    context = browser.new_context(locale=language, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{base_url}/certificates/{code}")
    page.emulate_media(media="print", color_scheme="dark")
    for paper, (width, height) in SIZES.items():
        file = page.pdf(format=paper)
        assert len(re.findall(rb"/Type\s*/Page\b", file)) == 1
        box = re.search(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", file)
        assert abs(float(box[1]) - width) < 2
        assert abs(float(box[2]) - height) < 2
    # The area of both, in pixels of CSS: 18 cm are the narrower width.
    page.set_viewport_size({"width": 680, "height": 941})
    colours, hidden, over = page.evaluate("""() => {
      const main = document.querySelector("main");
      const box = main.getBoundingClientRect();
      const parts = [...main.querySelectorAll(".site, h1, .state, dt, dd, .qr")];
      const seen = (each) => each.getClientRects().length > 0;
      const inside = ({ left, top, right, bottom }) =>
        left >= box.left && right <= box.right && top >= box.top && bottom <= box.bottom;
      return [
        [document.body, main].map((each) => getComputedStyle(each).backgroundColor),
        parts.filter((each) => !seen(each)).map(({ className }) => className),
        parts.filter((each) => seen(each) && !inside(each.getBoundingClientRect()))
          .map(({ className, textContent }) => [className, textContent]),
      ];
    }""")
    assert colours == ["rgb(255, 255, 255)"] * 2
    assert (hidden, over) == ([], [])
    text = page.inner_text("main")
    year = str(clock.utcnow().year)
    for word in (*names[2].split()[:1], code, "2020", year):
        assert word in text
    context.close()
