// What visitors see: sign in, sign up, and the ways back in.

import { call } from "./api.js";
import { language, say } from "./words.js";

const byId = (id) => document.getElementById(id);
const signIn = byId("sign-in");
let options = null;
let { timeZone } = Intl.DateTimeFormat().resolvedOptions();

// `name` is who has just chosen a password. Returns the field to begin with.
function showSignIn(section, _, name) {
  const { email, password } = section.querySelector("form").elements;
  if (name) email.value = new URLSearchParams(`name=${name}`).get("name"); // bad escapes stay
  return email.value ? password : email;
}

async function signUp() {
  options ??= await call("GET", "auth/options");
  const { registration, registrationDomains: domains } = options;
  byId("sign-up-open").hidden = registration !== "open";
  byId("sign-up-closed").hidden = registration !== "closed";
  byId("sign-up-domains").textContent = domains.length
    ? say("say_domains", { domains: domains.join(", ") })
    : "";
}

// What was typed at the sign-in need not be typed again.
function askForName(section) {
  const typed = signIn.querySelector("[name=email]").value;
  const field = section.querySelector("[name=email]");
  if (!field.value && (field.type !== "email" || typed.includes("@"))) field.value = typed;
}

signIn.addEventListener("prepare", ({ detail: { body, options } }) => {
  byId("unverified").hidden = true;
  options.cookie = body.ownDevice ? "1" : "session";
  delete body.ownDevice;
});
signIn.addEventListener("failed", ({ detail: { code } }) => {
  byId("unverified").hidden = code !== "email_unverified";
});
byId("sign-up").addEventListener("prepare", ({ detail: { body } }) => {
  Object.assign(body, { language, timezone: timeZone });
});
byId("sign-up").addEventListener("failed", (event) => {
  if (!event.detail.reasons.timezone) return;
  event.preventDefault(); // a device without a zone says "Etc/Unknown", or a newer one than we know
  timeZone = undefined;
  event.target.requestSubmit();
});
byId("sign-up").addEventListener("done", (event) => {
  if (options.emailVerificationRequired) return;
  event.preventDefault();
  event.target.reset(); // the password is not needed any more
  const { email, password } = event.detail.body;
  call("POST", "auth/login", { email, password }).catch(() => (location.hash = "sign-in"));
});

export const sections = {
  "sign-in": showSignIn,
  "sign-up": signUp,
  "forgot-password": askForName,
  "new-confirmation": askForName,
};
