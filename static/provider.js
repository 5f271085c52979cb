// Sign in with a provider: the way there, and what follows when the browser is back. From then on,
// the code and its verifier are in memory only.

import { NAME, call, userId } from "./api.js";
import { askForCode, setBusy, showProblem, showText } from "./forms.js";
import "./sign-in.js"; // it prepares what its form sends
import { fill, say } from "./words.js";

const MOST = 120_000; // milliseconds for which a password may still link

const signIn = document.querySelector("#sign-in form");
const link = document.getElementById("security-link"); // on /account
const note = document.getElementById("ended");
const both = document.getElementById("sign-in-link"); // the button that links, too
let me = null;
let held = null; // {code, verifier}
let form = signIn; // the one that sends them
let label = ""; // of the provider
let isAlone = false; // whether the form sends nothing but the code
let isSent = false; // whether the code goes with the form

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** Go to a provider. The form whose button was pressed says what hinders. */
export async function leave(from, name) {
  if (from.ariaBusy === "true") return;
  showProblem(from, null);
  setBusy(from, true);
  try {
    const verifier = base64url(crypto.getRandomValues(new Uint8Array(32)));
    const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
    const body = { challenge: base64url(hash) };
    const { url } = await call("POST", `auth/providers/${name}/start`, body);
    const asked = { verifier, isOwn: signIn.elements.ownDevice.checked, user: userId() };
    sessionStorage.setItem(NAME, JSON.stringify(asked));
    location.assign(url);
  } catch (problem) {
    setBusy(from, false);
    // Pages without https cannot hash, and without storage nobody would know what was asked.
    showProblem(from, problem.key ? problem : { key: "error_provider_blocked" });
  }
}

// Alone, a provider's code needs no more than a second factor.
function setAlone(wanted) {
  isAlone = wanted;
  for (const name of ["email", "password"]) {
    const field = signIn.elements[name];
    field.disabled = field.closest(".field").hidden = isAlone;
  }
}

// The person at the device may be another one by now: only the button that names the address links.
function askForPassword({ code = "registration_closed", email = "" } = {}) {
  setAlone(false);
  showText(note, say(`say_provider_${code}`, { label }));
  both.hidden = !email;
  both.textContent = say("say_provider_both", { label, email });
  if (!email) held = me.brought = null;
  setTimeout(hide, MOST);
  signIn.elements.email.focus();
}
function hide() {
  if (!both.hidden) held = me.brought = null;
  both.hidden = true;
}
document.addEventListener("visibilitychange", () => document.hidden && hide());

// Forgets the code, and says why.
function drop(word) {
  held = me.brought = null;
  both.hidden = true;
  note.textContent = "";
  if (link) link.hidden = true;
  setAlone(false);
  askForCode(signIn, false);
  const place = form === link ? link.previousElementSibling : signIn;
  if (word) showProblem(place, { key: `error_provider_${word}` });
}

/** Go on with what the URL brought, before a section is shown. */
export async function comeBack(who) {
  if (held) return; // "Try again", after something else
  me = who;
  const [name, code, error] = ["provider", "code", "error"].map((key) => me.brought.get(key));
  const asked = JSON.parse(sessionStorage.getItem(NAME));
  sessionStorage.removeItem(NAME);
  const user = userId();
  if (user && asked?.user !== user) {
    drop(); // nobody has asked to link this account
    return me.reload();
  }
  if (user) {
    form = link;
    history.replaceState(null, "", "#security");
  }
  if (!asked || !code) return drop(asked ? error : "again");
  held = { code, verifier: asked.verifier };
  label = document.getElementsByName(name)[0]?.value;
  signIn.elements.ownDevice.checked = asked.isOwn;
  if (user) {
    link.hidden = false;
    fill(link, { linking: say("say_provider_password", { label, name: me.profile.username }) });
  } else if (asked.user) askForPassword(); // the session has ended meanwhile
  else {
    setAlone(true);
    form.requestSubmit();
  }
}

const isOurs = (target) => held && target === form;
document.addEventListener("prepare", ({ target, detail: { body, submitter } }) => {
  isSent = isOurs(target) && (isAlone || target === link || submitter === both);
  if (isSent) body.provider = held;
  if (isSent) body.timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (target === link) body.email = me.profile.username;
});
document.addEventListener("done", ({ target }) => {
  if (!isOurs(target)) return;
  if (isSent && !isAlone && target === signIn) {
    fill(document.body, { news: say("say_provider_now", { label }) });
  }
  drop();
});
document.addEventListener("failed", (event) => {
  const { target, detail: problem } = event;
  if (!isOurs(target)) return;
  const isPassword = problem.code === "invalid_credentials" && !signIn.elements.password.disabled;
  if (isPassword && form === link) problem.key = "error_wrong_password";
  const next = {
    username_taken: () => form.requestSubmit(), // by somebody at this very moment
    email_taken: () => askForPassword(problem),
    registration_closed: () => askForPassword(problem),
    invalid_token: () => drop("again"),
    invalid_credentials: isPassword ? null : () => drop("again"), // the account has changed
    identity_taken: () => drop("taken"),
  }[problem.code];
  if (next) event.preventDefault();
  next?.();
});
