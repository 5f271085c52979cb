"""Colours, language, time zone, messages and privacy."""

import pytest
from helpers import success
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

DARK = "rgb(16, 19, 26)"
COLOUR = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture
def settings_of(client, log_in):
    return lambda user: success(client.get("/api/users/settings", headers=log_in(user).headers))


def test_colours_change_at_once_and_a_reload_begins_in_them(signed_in, settings_of):
    it = signed_in("account#settings")
    it.page.get_by_label("Dark").check()
    expect(it.page.locator("#settings-theme [role=status]")).to_have_text("Saved.")
    assert it.page.evaluate(COLOUR) == DARK
    assert settings_of(it.user)["theme"] == "dark"
    it.page.route("**/shell.js", lambda route: route.fulfill(content_type="text/javascript"))
    it.page.reload()
    assert it.page.evaluate(COLOUR) == DARK


def test_a_page_speaks_the_language_that_is_chosen(signed_in, settings_of):
    it = signed_in("account#settings", language="pt-BR", timezone="Asia/Tokyo")
    language, zone = it.page.get_by_label("Language"), it.page.get_by_label("Time zone")
    expect(language.locator("option")).to_have_text(
        ["Deutsch", "English", "Español", "Français", "Português (Brasil)"]
    )
    expect(language).to_have_value("pt-BR")
    expect(zone).to_have_value("Asia/Tokyo")
    it.page.get_by_role("button", name="Use this device").click()
    here = it.page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    expect(zone).to_have_value(here)
    language.select_option("Français")
    it.page.locator("form", has=zone).get_by_role("button", name="Save").click()
    expect(it.page.get_by_role("heading", name="Préférences")).to_be_visible()
    stored = settings_of(it.user)
    assert (stored["language"], stored["timezone"]) == ("fr", here)


def test_only_what_was_changed_is_saved(
    signed_in, settings_of, client, log_in, change_settings, base_url
):
    it = signed_in("account#settings")
    expect(it.page.get_by_label("By e-mail")).to_have_count(0)  # no platform sends any
    change_settings(app_url=base_url)
    it.page.reload()
    by_mail = it.page.get_by_label("By e-mail")
    expect(by_mail).to_be_checked()
    other_device = {"pushNotifications": False}
    success(client.put("/api/users/settings", json=other_device, headers=log_in(it.user).headers))
    by_mail.uncheck()
    form = it.page.locator("form", has=by_mail)
    expect(form.get_by_role("status")).to_have_text("Saved.")
    stored = settings_of(it.user)
    assert (stored["emailNotifications"], stored["pushNotifications"]) == (False, False)


def test_a_switch_is_saved_at_once_or_goes_back(signed_in, settings_of):
    it = signed_in("account#settings")
    switch, held = it.page.get_by_role("switch", name="Others may see my progress"), []
    form = it.page.locator("form", has=switch)
    it.page.route("**/users/settings", lambda route: held.append(route), times=1)
    switch.check()
    expect(form).to_have_attribute("aria-busy", "true")
    switch.uncheck()
    with it.page.expect_request("**/users/settings") as second:
        held[0].continue_()
    assert second.value.post_data_json == {"privacy": {"progressVisible": False}}
    expect(form.get_by_role("status")).to_have_text("Saved.")
    assert settings_of(it.user)["privacy"]["progressVisible"] is False
    it.page.route("**/users/settings", lambda route: route.abort())
    switch.click()
    expect(form.get_by_role("alert")).not_to_be_empty()
    expect(switch).not_to_be_checked()


def test_old_names_of_time_zones_are_left_out_and_a_stored_one_stays(signed_in):
    page = signed_in("account#settings", timezone="Europe/Kiev").page
    zone = page.get_by_label("Time zone")
    expect(zone).to_have_value("Europe/Kiev")
    listed = zone.locator("option").evaluate_all("all => all.map((option) => option.value)")
    old = {"Asia/Calcutta", "Asia/Saigon", "America/Godthab"}
    assert (
        {"Asia/Kolkata", "Asia/Ho_Chi_Minh", "Europe/Kyiv", "UTC"} <= {*listed} - old == {*listed}
    )
    expect(zone.locator("optgroup[label=Europe] option", has_text="Kyiv")).to_have_count(1)


def test_the_colours_of_the_device_stay_until_a_theme_is_chosen(page, make_user, sign_in):
    page.emulate_media(color_scheme="dark")
    sign_in(page, make_user(theme="system"))
    expect(page.locator("#sign-out")).to_be_visible()
    assert page.evaluate(COLOUR) == DARK
