"""/account and /admin in Chromium, in front of the whole application.

The `page` fixture asserts at the end of each story that nothing broke: no console message, no
violation of the Content-Security-Policy, no request to another host.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers import PASSWORD
from playwright.sync_api import expect
from real_service import serving

from database import transaction
from extensions import components
from models import Group, Membership


@pytest.fixture
def base_url(app):
    with serving(app) as url:
        parts = components(app)
        parts.settings = replace(parts.settings, public_url=url)
        yield url


@pytest.fixture
def sign_in(base_url):
    """Open the profile, or what `at` says, and sign in there; return the page."""

    def sign_in(page, user, at="account#profile", password=PASSWORD, own_device=False):
        page.goto(f"{base_url}/{at}")
        form = page.locator("#sign-in form")
        form.locator("[name=email]").fill(user.username)
        form.locator("[name=password]").fill(password)
        form.locator("[name=ownDevice]").set_checked(own_device)
        form.locator("[name=password]").press("Enter")
        return page

    return sign_in


@pytest.fixture
def signed_in(page, make_user, sign_in):
    """Open the profile, signed in as a new user with these fields: `it.page`, `it.user`."""

    def signed_in(at="account#profile", **fields):
        user = make_user(**fields)
        sign_in(page, user, at)
        expect(page.locator("#sign-out")).to_be_visible()
        # The module of the section has come, and listens: a locator would not wait for that.
        expect(page.locator("main > section:not([hidden], [aria-busy=true])")).to_be_visible()
        return SimpleNamespace(page=page, user=user)

    return signed_in


@pytest.fixture
def change_settings(app, base_url):
    """Change settings of the application for this test; `base_url` has set its own by then."""

    def change(**settings):
        parts = components(app)
        parts.settings = replace(parts.settings, **settings)

    return change


@pytest.fixture
def make_group(app):
    """Make a group with these members; return its id."""
    made = []

    def make(name, *members):
        made.append(f"{len(made):08x}-0000-4000-8000-000000000000")
        with app.app_context(), transaction() as session:
            session.add(Group(id=made[-1], name=name))
            session.flush()
            session.add_all(Membership(group_id=made[-1], user_id=user.id) for user in members)
        return made[-1]

    return make
