// Sign in with a provider: the way there, and what follows when the browser is back.

import { NAME, client, userId } from "./api.js";
import { askForCode, setBusy, showProblem, showText } from "./forms.js";
import "./sign-in.js"; // it prepares what its form sends
import { fill, say } from "./words.js";

const MOST = 120_000; // milliseconds for which a password may still link
const ASKED = `${NAME} asked`; // who has left for a provider, and whether the device is their own

const signIn = document.querySelector("#sign-in form");
const link = document.getElementById("security-link"); // on /account
const note = document.getElementById("ended");
const both = document.getElementById("sign-in-link"); // the button that links, too
let me = null;
let isHeld = false; // whether somebody who has come back may still sign in or link
let form = signIn; // the one that sends the code
let label = ""; // of the provider
let isAlone = false; // whether the form sends nothing but the code
let isSent = false; // whether the code goes with the form

/** Go to a provider. The form whose button was pressed says what hinders. */
export async function leave(from, name) {
  if (from.ariaBusy === "true") return;
  showProblem(from, null);
  setBusy(from, true);
  try {
    const ownDevice = signIn.elements.ownDevice.checked;
    sessionStorage.setItem(ASKED, JSON.stringify({ user: userId(), isOwn: ownDevice }));
    await client.signInWith(name, { ownDevice });
  } catch (problem) {
    setBusy(from, false);
    showProblem(from, problem.reasons ? problem : { code: "provider_blocked" });
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
  if (!email) isHeld = me.brought = null;
  setTimeout(hide, MOST);
  signIn.elements.email.focus();
}
function hide() {
  if (!both.hidden) isHeld = me.brought = null;
  both.hidden = true;
}
document.addEventListener("visibilitychange", () => document.hidden && hide());

// Forgets the code, and says why.
function drop(word) {
  isHeld = me.brought = null;
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
  if (isHeld) return; // "Try again", after something else
  me = who;
  let asked = null;
  try {
    asked = JSON.parse(sessionStorage.getItem(ASKED));
    sessionStorage.removeItem(ASKED);
  } catch {
    // Blocked: then nobody has left from here.
  }
  const user = userId();
  if (user && asked?.user !== user) {
    drop(); // nobody has asked to link this account
    return me.reload();
  }
  if (user) {
    form = link;
    history.replaceState(null, "", "#security");
  }
  if (!asked) return drop("again");
  if (!me.brought.has("code")) return client.arrived().catch(({ code }) => drop(code));
  isHeld = true;
  label = document.getElementsByName(me.brought.get("provider"))[0]?.value;
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

const isOurs = (target) => isHeld && target === form;
document.addEventListener("prepare", ({ target, detail }) => {
  isSent = isOurs(target) && (isAlone || target === link || detail.submitter === both);
  if (isSent && isAlone) detail.send = (body) => client.arrived(body);
  else if (isSent) detail.body.link = true;
  if (target !== link) return;
  Object.assign(detail.body, { email: me.profile.username, ownDevice: client.ownDevice });
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
