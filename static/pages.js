// The script of /reset-password and /verify-email. A page has four steps, of which it shows one:
// act (the form for people with a link), done, again (ask for a new link), sent. Their forms say
// where they are sent to and which step comes next.

const NO_LINK = "This page works from the link in our mail. Open that link, or ask for a new one.";
const NO_ANSWER = "The service did not answer. Check your connection and try again.";
const NO_SENSE = "The service cannot do this right now. Try again in a moment.";
const PATIENCE = 30000; // milliseconds

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

// Takes the token out of the address, so that it stays neither on the screen nor in the history.
function start() {
  token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname + location.search);
  if (token) show("act");
  else show("again", NO_LINK);
}

// Returns the API's answer, or one of the same shape when there is none to be had.
async function post(address, body) {
  let response;
  try {
    response = await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch {
    return { success: false, message: NO_ANSWER };
  }
  try {
    const answer = await response.json();
    if (typeof answer.message === "string") return answer;
  } catch {
    // A proxy in front may answer with a page of its own.
  }
  return { success: false, message: NO_SENSE };
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
  // aria-disabled, since a disabled button would drop the keyboard's focus.
  if (button.ariaDisabled === "true") return;
  const body = Object.fromEntries(new FormData(form));
  if ("withToken" in form.dataset) body.token = token;

  showProblem(form, "", {});
  button.ariaDisabled = "true";
  form.querySelector("[role=status]").textContent = "One moment…";
  const answer = await post(form.dataset.post, body);
  button.ariaDisabled = "false";
  form.querySelector("[role=status]").textContent = "";

  const fields = answer.error?.fields ?? {};
  if (answer.success) {
    form.reset();
    show(form.dataset.next, answer.message).focus();
  } else if (answer.error?.code === "invalid_token" || fields.token) {
    token = null;
    show("again", answer.message).focus();
  } else {
    showProblem(form, answer.message, fields);
  }
}

for (const form of document.forms) form.addEventListener("submit", send);
for (const box of document.querySelectorAll("[data-reveals]")) {
  const input = document.getElementById(box.dataset.reveals);
  box.addEventListener("change", () => (input.type = box.checked ? "text" : "password"));
}
// A link pasted over this page's own address loads nothing anew.
addEventListener("hashchange", start);
start();
