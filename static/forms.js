// Forms that say in their markup what they do. docs/pages.md has the attributes.

import { Problem, call } from "./api.js";
import { at, byId, copy, has, say, when } from "./words.js";

// What is typed exactly as it is, and never corrected.
const EXACT = `:is([type=email], [type=password], [autocomplete^=username], [autocomplete$=code],
  [autocomplete=url], [autocomplete=off]:not([name$=Name]), [name=username])`;

const paragraph = (className, role = null) =>
  Object.assign(document.createElement("p"), { className, role });

// Adds what a field of fields.html needs besides: the place of its message, what names and
// describes the control, and the box that shows a password.
function complete(field) {
  const control = field.querySelector("[name]:is(input, select, textarea)");
  const hint = field.querySelector(".hint");
  const error = paragraph("error");
  field.querySelector("label").htmlFor = control.id;
  const described = [hint, error].filter(Boolean);
  for (const part of described) part.id = `${control.id}-${part.classList[0]}`;
  control.setAttribute("aria-describedby", described.map(({ id }) => id).join(" "));
  field.append(error);
  if (control.matches(EXACT)) {
    control.autocapitalize ||= "none";
    control.spellcheck = false;
    control.setAttribute("autocorrect", "off");
  }
  if (control.type !== "password") return;
  const reveal = copy("reveal");
  reveal.querySelector("input").dataset.reveals = control.id;
  field.append(reveal);
}
const templates = [...document.querySelectorAll("template:not(#second-factor)")];
for (const root of [document, ...templates.map(({ content }) => content)]) {
  for (const form of root.querySelectorAll("form")) form.noValidate = true; // `check` does it
  for (const field of root.querySelectorAll("div.field")) complete(field);
  for (const end of root.querySelectorAll("form div.actions")) {
    end.before(paragraph("error", "alert"));
    end.append(paragraph("status", "status"));
  }
}

const [contact] = byId("second-factor").content.querySelectorAll("a");
/** Show a text, with the link to whom it says to ask, if that is one. */
export function showText(place, text) {
  const [first, ...rest] = contact ? text.split(contact.textContent) : [text];
  place.replaceChildren(first, ...rest.flatMap((part) => [contact.cloneNode(true), part]));
}

/** Return the sentence for a problem. */
export function explain({ code, key = `error_${code}`, retryAfter }) {
  if (retryAfter && has(`${key}_when`)) return say(`${key}_when`, { when: when(retryAfter) });
  return say(has(key) ? key : "error_internal_error");
}

/** Return the sentence for what is wrong with a field of a type, from a word of the `reasons`. */
export function explainReason(name, word, type) {
  const keys = [name, type].map((what) => `field_${what}_${word}`);
  keys.push(`field_${word}`, "field_invalid");
  return say(keys.find(has));
}

const controls = (form) => [...form.querySelectorAll(":is(input, select, textarea)[name]")];

/** Show one message for each mistake: at its field, else in the form's alert; none: clear all. */
export function showProblem(form, problem, focus = true) {
  let first = null;
  for (const control of controls(form)) {
    const place = byId(`${control.id}-error`);
    if (!place) continue;
    const isNew = control.autocomplete === "new-password"; // whatever the name of the field
    const name = isNew ? "newPassword" : control.name.replaceAll(".", "_");
    const words = problem?.reasons?.[control.name] ?? at(problem?.reasons, control.name);
    const isAgain = first?.name === control.name; // the next radio button of the same choice
    const wrong = Array.isArray(words) && !control.matches(":disabled") && !isAgain;
    const explained = wrong ? words.map((word) => explainReason(name, word, control.type)) : [];
    place.textContent = explained.join(" ");
    control.ariaInvalid = wrong ? "true" : null;
    if (wrong) first ??= control;
  }
  showText(form.querySelector("[role=alert]"), problem && !first ? explain(problem) : "");
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
    else if (control.type === "number") inner[name] = control.value ? Number(control.value) : null;
    else inner[name] = control.value;
  }
  return body;
}

const held = (value) => value || (value === 0 ? value : ""); // what is not set, and false, are alike
/** Leave in a body only what is not as it was: somebody else may have changed the rest. */
export function keepChanges(body, before) {
  for (const [name, value] of Object.entries(body)) {
    if (value instanceof Object) keepChanges(value, before[name]);
    else if (held(value) === held(before[name])) delete body[name];
  }
}

/** Ask for the code of the second factor below the password, or not; return whether that is new. */
export function askForCode(form, isAsked) {
  const password = form.querySelector("[autocomplete=current-password]");
  const { secondFactor } = form.elements;
  if (!password || Boolean(secondFactor) === isAsked) return false;
  if (!isAsked) {
    secondFactor.closest(".field").remove();
    return true;
  }
  const field = copy("second-factor");
  field.querySelector("input").id = `${password.id}-code`;
  password.closest(".field").after(field);
  complete(field);
  return true;
}

/** Tell the scripts of a form; return whether the work goes on here. */
export const emit = (form, name, detail) =>
  form.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, cancelable: true }));

/** Show that the form is at work; its button keeps the focus. */
export function setBusy(form, isBusy, text = "") {
  form.ariaBusy = String(isBusy);
  for (const button of form.querySelectorAll("button:not([type=button])")) {
    button.ariaDisabled = String(isBusy);
  }
  form.querySelector("[role=status]").textContent = isBusy ? say("say_wait") : text;
}

// Where a form says what it has done: a card with many forms has one place for it.
const newsOf = (form) =>
  form.closest(".card")?.querySelector(".said") ?? form.querySelector("[role=status]");
/** Say what the form has done: its `data-done`. */
export function sayDone(form, data) {
  const { done } = form.dataset;
  newsOf(form).textContent = done ? say(done, data) : "";
}

/** Do some work of a form, which says what hinders it; return true if nothing did. */
export async function attempt(form, work) {
  try {
    await work();
    return true;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem; // a mistake of ours
    if (problem.status !== 401) showProblem(form, problem); // else the sign-in is shown
  }
}

// Says what the browser would: its bubbles come in its own language, and cover the button.
function check(event) {
  const wrong = controls(event.target).filter((control) => !control.checkValidity());
  if (!wrong.length) return;
  event.preventDefault();
  event.stopPropagation(); // the form does not begin its work
  const word = ({ valueMissing }) => (valueMissing ? "required" : "invalid");
  const reasons = Object.fromEntries(wrong.map(({ name, validity }) => [name, [word(validity)]]));
  showProblem(event.target, new Problem("invalid_request", { reasons }));
}

async function submit(event) {
  const form = event.target;
  if (!form.dataset.call) return;
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  const valueOf = (name) => form.dataset[name] ?? form.elements[name].value;
  const [method, path] = form.dataset.call
    .replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(valueOf(name)))
    .split(" ");
  const send = (body) => call(method, path, body);
  const detail = { body: read(form), send, submitter: event.submitter };
  showProblem(form, null);
  if (!emit(form, "prepare", detail)) return;
  setBusy(form, true);
  try {
    const data = await detail.send(detail.body);
    setBusy(form, false);
    if (!emit(form, "done", { ...detail, data })) return;
    askForCode(form, false);
    if ("reset" in form.dataset) form.reset();
    for (const secret of form.querySelectorAll("[autocomplete$=password]")) secret.value = "";
    form.closest("dialog")?.close();
    sayDone(form, data);
    if (form.dataset.next) location.hash = form.dataset.next;
  } catch (problem) {
    setBusy(form, false);
    if (!(problem instanceof Problem)) throw problem; // a mistake of ours
    if (problem.status === 401 && form.offsetParent === null) return; // the sign-in is shown
    if (problem.reasons.secondFactor && askForCode(form, true)) {
      return form.elements.secondFactor.focus();
    }
    const { secondFactor } = form.elements;
    if (secondFactor && problem.code === "too_many_requests") problem.key = "error_too_many_codes";
    if (emit(form, "failed", problem)) showProblem(form, problem);
  }
}

document.addEventListener("submit", check, true); // before the listeners of the form
document.addEventListener("submit", submit);
document.addEventListener("input", ({ target }) => {
  const news = target.form && newsOf(target.form);
  if (news && target.form.ariaBusy !== "true") news.textContent = ""; // "Saved." is over
});
document.addEventListener("change", ({ target }) => {
  if (!target.dataset.reveals) return;
  byId(target.dataset.reveals).type = target.checked ? "text" : "password";
});
document.addEventListener("click", ({ target }) => {
  const { opens, closes, copies, prints } = target.closest("button")?.dataset ?? {};
  if (opens) byId(opens).showModal();
  if (closes !== undefined) target.closest("dialog").close();
  if (prints !== undefined) print();
  if (copies) {
    const field = byId(copies);
    field.select(); // where scripts may not copy, the user can
    navigator.clipboard?.writeText(field.value).then(
      () => (target.textContent = say("say_copied")),
      () => {},
    );
  }
});
