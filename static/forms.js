// Forms that say in their markup what they do. docs/pages.md has the attributes.

import { Problem, call } from "./api.js";
import { has, say, when } from "./words.js";

/** Return the sentence for a problem. */
export function explain({ key, retryAfter }) {
  if (retryAfter && has(`${key}_when`)) return say(`${key}_when`, { when: when(retryAfter) });
  return say(has(key) ? key : "error_internal_error");
}

function reasonText(control, word) {
  const isNew = control.autocomplete === "new-password"; // whatever the name of the field
  const name = isNew ? "newPassword" : control.name.replaceAll(".", "_");
  const keys = [`field_${name}_${word}`, `field_${word}`, "field_invalid"];
  return say(keys.find(has));
}

const controls = (form) => [...form.querySelectorAll(":is(input, select, textarea)[name]")];
const at = (object, name) => name.split(".").reduce((inner, part) => inner?.[part], object);

/**
 * Show one message for each mistake: at its field, else in the form's alert; none: clear all. A
 * form may also be a row of a table.
 */
export function showProblem(form, problem, focus = true) {
  let first = null;
  for (const control of controls(form)) {
    const place = document.getElementById(`${control.id}-error`);
    if (!place) continue;
    const words = at(problem?.reasons, control.name);
    const wrong = Array.isArray(words) && !control.matches(":disabled");
    place.textContent = wrong ? words.map((word) => reasonText(control, word)).join(" ") : "";
    if (wrong) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
    if (wrong) first ??= control;
  }
  form.querySelector("[role=alert]").textContent = problem && !first ? explain(problem) : "";
  if (focus) first?.focus();
}

/** Return what the form holds, for a body; a dot in a name makes an object. */
export function read(form) {
  const body = {};
  for (const control of controls(form)) {
    if (control.matches(":disabled, [readonly]") || control.type === "file") continue;
    if (control.type === "radio" && !control.checked) continue;
    const path = control.name.split(".");
    const name = path.pop();
    const inner = path.reduce((object, part) => (object[part] ??= {}), body);
    if (control.type === "checkbox") inner[name] = control.checked;
    else if (control.type === "number") inner[name] = control.valueAsNumber;
    else inner[name] = control.value;
  }
  return body;
}

// The code of the second factor is asked for only where the service wants it.
function askForCode(form, asked) {
  const part = form.querySelector("[data-second-factor]");
  if (!part || part.hidden !== asked) return false;
  part.hidden = part.disabled = !asked;
  part.querySelector("input").value = "";
  if (asked) part.querySelector("input").focus();
  return true;
}

const tell = (form, name, detail) =>
  form.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, cancelable: true }));

/** Show that the form is at work; its button keeps the focus. */
export function setBusy(form, isBusy, text = "") {
  form.ariaBusy = String(isBusy);
  for (const button of form.querySelectorAll("button:not([type=button])")) {
    button.ariaDisabled = String(isBusy);
  }
  form.querySelector("[role=status]").textContent = isBusy ? say("say_wait") : text;
}

async function submit(event) {
  const form = event.target;
  if (!form.dataset.call) return;
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  const [method, path] = form.dataset.call
    .replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(form.dataset[name]))
    .split(" ");
  const body = read(form);
  showProblem(form, null);
  if (!tell(form, "prepare", { body })) return;
  setBusy(form, true);
  try {
    const data = await call(method, path, body);
    setBusy(form, false);
    if (!tell(form, "done", { data, body })) return;
    askForCode(form, false);
    if ("reset" in form.dataset) form.reset();
    for (const secret of form.querySelectorAll("[autocomplete$=password]")) secret.value = "";
    form.closest("dialog")?.close();
    if (form.dataset.done) setBusy(form, false, say(form.dataset.done, data));
    if (form.dataset.then) location.hash = form.dataset.then;
  } catch (problem) {
    setBusy(form, false);
    if (!(problem instanceof Problem)) throw problem; // a mistake of ours
    if (problem.status === 401 && form.offsetParent === null) return; // the sign-in is shown
    if (problem.reasons.secondFactor && askForCode(form, true)) return;
    if (tell(form, "failed", problem)) showProblem(form, problem);
  }
}

document.addEventListener("submit", submit);
document.addEventListener("input", ({ target }) => {
  const status = target.form?.querySelector("[role=status]");
  if (status && target.form.ariaBusy !== "true") status.textContent = ""; // "Saved." is over
});
document.addEventListener("change", ({ target }) => {
  if (!target.dataset.reveals) return;
  document.getElementById(target.dataset.reveals).type = target.checked ? "text" : "password";
});
document.addEventListener("click", ({ target }) => {
  const { opens, closes, copies } = target.closest("button")?.dataset ?? {};
  if (opens) document.getElementById(opens).showModal();
  if (closes !== undefined) target.closest("dialog").close();
  if (copies) {
    const field = document.getElementById(copies);
    field.select(); // where scripts may not copy, the user can
    navigator.clipboard?.writeText(field.value).then(
      () => (target.textContent = say("say_copied")),
      () => {},
    );
  }
});
