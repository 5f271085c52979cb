// Sign in with a provider: the way there, and what follows when the browser is back. From then on,
// the code and its verifier are in memory only.

import { NAME, call, remembered, userId } from "./api.js";
import { askForCode, setBusy, showProblem } from "./forms.js";
import "./sign-in.js"; // it prepares what its form sends
import { fill, say } from "./words.js";

const signIn = document.querySelector("#sign-in form");
const link = document.getElementById("security-link"); // for who is signed in
let me = null;
let form = signIn; // the one that sends what is held
let held = null; // {code, verifier}
let label = ""; // of the provider

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

// Whether the sign-in asks for nothing but the second factor.
const isAlone = () => signIn.elements.password.disabled;
function setAlone(isAlone) {
  for (const name of ["email", "password"]) {
    const field = signIn.elements[name];
    field.disabled = field.closest(".field").hidden = isAlone;
  }
}

function drop(problem) {
  held = me.returned = null;
  if (link) link.hidden = true;
  setAlone(false);
  askForCode(signIn, false);
  if (problem) showProblem(form === link ? link.previousElementSibling : signIn, problem);
}

// The account that the password opens is linked by the same login.
function askForPassword() {
  setAlone(false);
  document.getElementById("ended").textContent = say("say_provider_link", { label });
  signIn.elements.email.focus();
}

/** Go on with `returned`, before a section is shown. */
export function comeBack(who) {
  if (held) return; // "Try again", after something else
  me = who;
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
  const code = me.returned.get("code");
  const error = asked ? me.returned.get("error") : "again";
  if (!asked || !code) return drop({ key: `error_provider_${error}` });
  held = { code, verifier: asked.verifier };
  label = document.getElementsByName(me.returned.get("provider"))[0]?.value;
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

document.addEventListener("prepare", ({ target, detail: { body, options } }) => {
  if (!held || target !== form) return;
  body.provider = held;
  if (form !== link) return;
  body.email = me.profile.username;
  options.cookie = remembered() ?? "session";
});
document.addEventListener("done", ({ target }) => held && target === form && drop());
document.addEventListener("failed", (event) => {
  const { target, detail: problem } = event;
  if (!held || target !== form) return;
  let { code } = problem;
  if (code === "invalid_credentials" && form === link) problem.key = "error_wrong_password";
  else if (code === "invalid_credentials" && isAlone()) code = "invalid_token"; // it has changed
  const next = {
    username_taken: () => form.requestSubmit(), // by somebody at this very moment
    email_taken: askForPassword,
    registration_closed: askForPassword,
    invalid_token: () => drop({ key: "error_provider_again" }),
    identity_taken: () => drop({ key: "error_provider_taken" }),
  }[code];
  if (next) event.preventDefault();
  next?.();
});
