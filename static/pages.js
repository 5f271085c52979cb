// The script of the pages that links open. A page shows one of its steps: check (the API is asked
// for whom the link is), act (the form for users with a link or a code), done, again (without a valid
// link), sent (a new one is on its way). The attributes of each form name its call and the next step.

import "./forms.js";
import { say } from "./words.js";

let token = null;

function show(step, message) {
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== step;
  }
  for (const part of document.querySelectorAll("[data-without-token]")) {
    part.hidden = part.disabled = token !== null; // the fields of a disabled fieldset are not sent
  }
  for (const place of document.querySelectorAll("[data-account]")) {
    place.closest("p").hidden = token === null;
  }
  const section = document.getElementById(step);
  const heading = section.querySelector("h1");
  if (message) section.querySelector(".message").textContent = message;
  document.title = heading.textContent;
  return heading;
}

// Removes the token from the URL, so that it is not shown and not kept in the history.
function start() {
  token = new URLSearchParams(location.hash.slice(1)).get("token") || null;
  history.replaceState(null, "", location.pathname + location.search);
  if (token) {
    show("check");
    document.querySelector("#check form").requestSubmit();
  } else if (document.querySelector("[data-without-token]")) {
    show("act");
  } else {
    show("again", say("error_no_link"));
  }
}

// Says for whom the link is, and whether the password is a new one or the first.
function showAccount({ username, email, hasPassword }) {
  for (const place of document.querySelectorAll("[data-account]")) {
    // The default value, because a form that was sent is reset.
    place[place.matches("input") ? "defaultValue" : "textContent"] = username || email;
  }
  if (!hasPassword) return;
  for (const place of document.querySelectorAll("[data-new]")) {
    place.textContent = place.dataset.new;
  }
}

function sayDead() {
  token = null;
  show("again", say("error_invalid_token")).focus();
}

const withToken = (form) => token !== null && "withToken" in form.dataset;
document.addEventListener("prepare", ({ target: form, detail: { body } }) => {
  if (withToken(form)) body.token = token;
});
document.addEventListener("done", (event) => {
  const { target: form, detail: { data } } = event;
  const { action, next } = form.dataset;
  event.preventDefault(); // the next step is no section
  if (action && data.action !== action) return sayDead(); // the link of another page
  if (action) showAccount(data);
  const name = form.elements.account?.value || form.querySelector("#username")?.value;
  const way = document.getElementById("way-on");
  if (name && way) way.hash = `sign-in/${encodeURIComponent(name)}`;
  form.reset();
  show(next).focus();
});
document.addEventListener("failed", (event) => {
  const { target: form, detail: problem } = event;
  const isInvalid = problem.code === "invalid_token";
  if (withToken(form) && (isInvalid || problem.reasons.token)) {
    event.preventDefault();
    return sayDead();
  }
  form.querySelector("button").hidden = false;
  if (isInvalid) problem.reasons = { code: ["wrong"] };
});
for (const button of document.querySelectorAll("[data-show]")) {
  button.addEventListener("click", () => show(button.dataset.show).focus());
}
// A code is shown like on the sheet that it was printed on.
document.getElementById("code")?.addEventListener("change", ({ target }) => {
  const digits = target.value.toUpperCase().replace(/[\s-]/g, "");
  if (/^[0-9A-Z]{12}$/.test(digits)) target.value = digits.match(/.{4}/g).join("-");
});
// Pasting another link into the location bar of this page does not reload it by itself.
addEventListener("hashchange", () => location.reload());
start();
