// The script of the pages that links open. A page shows one of its steps: check (the API is asked
// for whom the link is), act (the form for users with a link or a code), done, again (without a valid
// link), sent (a new one is on its way). The attributes of each form name the URL that it is sent to
// and the next step.

const TIMEOUT = 30000; // milliseconds

// The page has the words in its language: error_<code>, field_<word> and field_<name>_<word>.
const texts = new Map(
  [...document.getElementById("texts").content.children].map((text) => [
    text.dataset.for,
    text.textContent,
  ]),
);
const textOf = (code) => texts.get(`error_${code}`) ?? texts.get("error_internal_error");
const problemOf = (name, word) =>
  texts.get(`field_${name}_${word}`) ?? texts.get(`field_${word}`) ?? texts.get("field_invalid");

let token = null;

function show(step, message) {
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== step;
  }
  for (const part of document.querySelectorAll("[data-without-token]")) {
    part.hidden = part.disabled = token !== null; // the fields of a hidden fieldset are not sent
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
    show("again", textOf("no_link"));
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

// Returns the API's response body, or one of the same shape if there is none.
async function post(url, body) {
  let response;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT),
    });
  } catch {
    return { success: false, error: { code: "no_response" } };
  }
  try {
    const result = await response.json();
    if (result.success || result.error.code) return result;
  } catch {
    // A proxy may respond with its own error page.
  }
  return { success: false, error: { code: "unavailable" } };
}

// Shows one message for each mistake: at its field, else above the button.
function showProblem(form, message, reasons) {
  let first = null;
  for (const input of form.querySelectorAll("input[name]")) {
    const problems = (reasons[input.name] ?? []).map((word) => problemOf(input.name, word));
    document.getElementById(`${input.id}-error`).textContent = problems.join(" ");
    if (problems.length) {
      input.setAttribute("aria-invalid", "true");
      first ??= input;
    } else {
      input.removeAttribute("aria-invalid");
    }
  }
  form.querySelector("[role=alert]").textContent = first ? "" : message;
  first?.focus();
}

async function send(event) {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  // aria-disabled, since a disabled button would lose the keyboard focus.
  if (button.ariaDisabled === "true") return;
  const body = Object.fromEntries(new FormData(form));
  const withToken = token !== null && "withToken" in form.dataset;
  if (withToken) body.token = token;

  showProblem(form, "", {});
  button.ariaDisabled = "true";
  form.querySelector("[role=status]").textContent = texts.get("wait");
  const result = await post(form.dataset.post, body);
  button.ariaDisabled = "false";
  form.querySelector("[role=status]").textContent = "";

  const { action, next } = form.dataset;
  const reasons = result.error?.reasons ?? {};
  const isInvalid = result.error?.code === "invalid_token";
  const isDead = result.success
    ? action && result.data?.action !== action // the link of another page
    : withToken && (isInvalid || reasons.token);
  if (isDead) {
    token = null;
    show("again", textOf("invalid_token")).focus();
  } else if (result.success) {
    if (action) showAccount(result.data);
    form.reset();
    show(next).focus();
  } else {
    button.hidden = false;
    const wrongCode = { code: ["wrong"] };
    showProblem(form, textOf(result.error.code), isInvalid ? wrongCode : reasons);
  }
}

for (const form of document.forms) form.addEventListener("submit", send);
for (const box of document.querySelectorAll("[data-reveals]")) {
  const input = document.getElementById(box.dataset.reveals);
  box.addEventListener("change", () => (input.type = box.checked ? "text" : "password"));
}
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
