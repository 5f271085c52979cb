// The script of /reset-password and /verify-email. A page shows one of four steps: act (the form
// for users with a link), done, again (ask for a new link), sent. The attributes of each form name
// the URL that it is sent to and the next step.

const NO_LINK = "This page needs the link in our e-mail. Open that link, or ask for a new one.";
const NO_RESPONSE = "The service did not respond. Check your connection and try again.";
const BAD_RESPONSE = "The service is temporarily unavailable. Try again in a moment.";
const TIMEOUT = 30000; // milliseconds

let token = null;

function show(step, message) {
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== step;
  }
  const section = document.getElementById(step);
  const heading = section.querySelector("h1");
  if (message) section.querySelector(".message").textContent = message;
  document.title = heading.textContent;
  return heading;
}

// Removes the token from the URL, so that it is not shown and not kept in the history.
function start() {
  token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname + location.search);
  if (token) show("act");
  else show("again", NO_LINK);
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
    return { success: false, message: NO_RESPONSE };
  }
  try {
    const result = await response.json();
    if (typeof result.message === "string") return result;
  } catch {
    // A proxy may respond with its own error page.
  }
  return { success: false, message: BAD_RESPONSE };
}

function showProblem(form, message, fields) {
  form.querySelector("[role=alert]").textContent = message;
  let first = null;
  for (const input of form.querySelectorAll("input[name]")) {
    const problems = fields[input.name] ?? [];
    document.getElementById(`${input.id}-error`).textContent = problems.join(" ");
    if (problems.length) {
      input.setAttribute("aria-invalid", "true");
      first ??= input;
    } else {
      input.removeAttribute("aria-invalid");
    }
  }
  first?.focus();
}

async function send(event) {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  // aria-disabled, since a disabled button would lose the keyboard focus.
  if (button.ariaDisabled === "true") return;
  const body = Object.fromEntries(new FormData(form));
  if ("withToken" in form.dataset) body.token = token;

  showProblem(form, "", {});
  button.ariaDisabled = "true";
  form.querySelector("[role=status]").textContent = "One moment…";
  const result = await post(form.dataset.post, body);
  button.ariaDisabled = "false";
  form.querySelector("[role=status]").textContent = "";

  const fields = result.error?.fields ?? {};
  if (result.success) {
    form.reset();
    show(form.dataset.next, result.message).focus();
  } else if (result.error?.code === "invalid_token" || fields.token) {
    token = null;
    show("again", result.message).focus();
  } else {
    showProblem(form, result.message, fields);
  }
}

for (const form of document.forms) form.addEventListener("submit", send);
for (const box of document.querySelectorAll("[data-reveals]")) {
  const input = document.getElementById(box.dataset.reveals);
  box.addEventListener("change", () => (input.type = box.checked ? "text" : "password"));
}
// Pasting another link into the location bar of this page does not reload it.
addEventListener("hashchange", start);
start();
