"""What users say about themselves, their picture, and what others see of it."""

import io
import os
import re

import pytest
from PIL import Image
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SCRIPT, HEBREW = "<script>alert(1)</script>", "שלום עולם"


def picture(side=64):
    """Return a PNG file of noise, which is not much smaller than its pixels."""
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), os.urandom(side * side * 3)).save(file, "png")
    return {"name": "me.png", "mimeType": "image/png", "buffer": file.getvalue()}


def test_a_profile_is_changed_and_shown_as_text(signed_in):
    it = signed_in()
    form, others = it.page.locator("#profile-form"), it.page.locator("#profile-others")
    expect(form.get_by_label("First name")).to_have_value("First")
    form.get_by_label("First name").fill(SCRIPT)
    form.get_by_label("Last name").fill(HEBREW)
    form.get_by_label("About you").fill("I learn 🎓\nby doing.")
    expect(form.get_by_label("About you")).to_have_accessible_description("")
    form.get_by_label("About you").fill("🎓" * 499)
    expect(form.get_by_label("About you")).to_have_accessible_description("1 character left.")
    form.get_by_label("About you").fill("I learn 🎓\nby doing.")
    form.get_by_label("Website").fill("example.org")
    form.get_by_role("button").click()
    expect(form.get_by_label("Website")).to_have_accessible_description(
        re.compile("not the address of a website")
    )
    form.get_by_label("Website").fill("https://example.org/me")
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).to_have_text("Saved.")
    expect(others.locator("strong")).to_have_text(f"{SCRIPT} {HEBREW}")
    expect(others.get_by_text("I learn")).to_have_text("I learn 🎓\nby doing.")
    expect(others.get_by_role("link", name="https://example.org/me")).to_be_visible()
    it.page.reload()
    expect(form.get_by_label("First name")).to_have_value(SCRIPT)


def test_what_was_typed_stays_while_another_section_is_open(signed_in):
    page = signed_in().page
    expect(page.locator("#profile").get_by_label("First name")).to_have_value("First")
    page.get_by_label("Location").fill("Lisbon")
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="Profile").click()
    expect(page.get_by_label("Location")).to_have_value("Lisbon")


def test_a_profile_that_is_not_saved_is_not_left_without_a_question(signed_in):
    page, asked = signed_in().page, []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.get_by_label("Location").press_sequentially("Lisbon")
    page.evaluate("setTimeout(() => location.reload())")
    form = page.locator("#profile-form")
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).to_have_text("Saved.")
    assert asked == ["beforeunload"]
    page.reload()
    page.get_by_label("Location").press_sequentially("!")
    page.locator("#sign-out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert asked == ["beforeunload"]


def test_a_picture_is_shown_then_saved_then_removed(signed_in):
    page = signed_in().page
    form, shown = page.locator("#picture-form"), page.get_by_alt_text("Your picture now")
    expect(shown).to_have_attribute("src", re.compile("avatars/"))
    default = shown.get_attribute("src")
    remove = form.get_by_role("button", name="Remove the picture")
    expect(remove).to_be_hidden()
    form.get_by_role("button", name="Save the picture").click()
    expect(form.get_by_label("New picture")).to_have_accessible_description(
        re.compile("Choose a file first.")
    )
    text = {"name": "me.png", "mimeType": "image/png", "buffer": b"no picture"}
    form.get_by_label("New picture").set_input_files(text)
    form.get_by_role("button", name="Save the picture").click()
    expect(form.get_by_label("New picture")).to_have_accessible_description(
        re.compile("We cannot read this picture.")
    )
    expect(page.locator("canvas")).to_be_hidden()
    form.get_by_label("New picture").set_input_files(picture())
    expect(page.get_by_role("img", name="Your new picture, not saved yet")).to_be_visible()
    form.get_by_role("button", name="Save the picture").click()
    expect(form.get_by_role("status")).to_have_text("Saved.")
    expect(shown).not_to_have_attribute("src", default)
    assert shown.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 64
    remove.click()
    expect(form.get_by_role("status")).to_have_text("Your picture has been removed.")
    expect(remove).to_be_hidden()
    expect(shown).to_have_attribute("src", default)


def test_a_picture_that_takes_long_is_sent_once(signed_in):
    page, sent = signed_in().page, []
    page.route("**/api/users/avatar", lambda route: sent.append(route))
    form = page.locator("#picture-form")
    form.get_by_label("New picture").set_input_files(picture())
    button = form.get_by_role("button", name="Save the picture")
    with page.expect_request("**/api/users/avatar"):
        button.press("Enter")
    expect(form.get_by_role("status")).to_have_text("One moment…")
    button.press("Enter")
    sent[0].continue_()
    expect(form.get_by_role("status")).to_have_text("Saved.")
    assert len(sent) == 1


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_a_picture_may_come_from_elsewhere(signed_in, way):
    page = signed_in().page
    name, data = (
        ("DragEvent", "dataTransfer") if way == "drop" else ("ClipboardEvent", "clipboardData")
    )
    page.evaluate(
        """async ([way, name, data]) => {
            const blob = await new Promise((done) =>
                Object.assign(document.createElement("canvas"), {width: 9}).toBlob(done));
            const transfer = new DataTransfer();
            transfer.items.add(new File([blob], "a.png", {type: "image/png"}));
            const options = {[data]: transfer, bubbles: true, cancelable: true};
            document.body.dispatchEvent(new window[name](way, options));
        }""",
        [way, name, data],
    )
    expect(page.get_by_role("img", name="Your new picture, not saved yet")).to_be_visible()
    page.get_by_role("button", name="Save the picture").click()
    expect(page.locator("#picture-form").get_by_role("status")).to_have_text("Saved.")


def test_a_large_photo_is_made_smaller_and_a_large_file_of_another_kind_is_refused(
    signed_in, change_settings
):
    change_settings(max_avatar_bytes=2**20)
    form = (page := signed_in().page).locator("#picture-form")
    large = picture(side=700)
    assert len(large["buffer"]) > 2**20
    form.get_by_label("New picture").set_input_files({**large, "buffer": bytes(2 * 2**20)})
    form.get_by_role("button", name="Save the picture").click()
    expect(form.get_by_role("alert")).to_contain_text("The file is too large.")
    page.evaluate("""() => {
        const real = createImageBitmap;
        const drawn = new Promise((draw) => (window.draw = draw));
        window.createImageBitmap = (file) => drawn.then(() => real(file));
    }""")
    form.get_by_label("New picture").set_input_files(large)
    form.get_by_role("button", name="Save the picture").click()  # before the preview stands
    expect(form.get_by_role("status")).to_have_text("One moment…")
    page.evaluate("draw()")
    expect(form.get_by_role("status")).to_have_text("Saved.")


def test_a_small_file_of_a_large_picture_is_taken_too(signed_in):
    form = signed_in().page.locator("#picture-form")
    file = io.BytesIO()
    Image.new("1", (4000, 3500)).save(file, "PNG")
    assert len(file.getvalue()) < 2**20
    large = {"name": "me.png", "mimeType": "image/png", "buffer": file.getvalue()}
    form.get_by_label("New picture").set_input_files(large)
    expect(form.page.locator("canvas")).to_be_visible()
    form.get_by_role("button", name="Save the picture").click()
    expect(form.get_by_role("status")).to_have_text("Saved.")


def test_no_mail_is_announced_where_none_arrives(signed_in):
    page = signed_in(email="ada@no-mail.invalid").page
    page.get_by_role("link", name="Security").click()
    card = page.locator("#security-email")
    expect(card.locator("[data-text=email]")).to_have_text("none")
    for part in (card.locator(".badge"), page.get_by_label("By e-mail")):
        expect(part.filter(visible=True)).to_have_count(0)
    expect(page.get_by_text("not confirmed yet")).to_be_hidden()
