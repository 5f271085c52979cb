// What visitors see: sign in, sign up, and the ways back in.

import { call } from "./api.js";
import { language, say } from "./words.js";

const byId = (id) => document.getElementById(id);
const signIn = byId("sign-in");
let options = null;

async function signUp() {
  options ??= await call("GET", "auth/options");
  const { registration, registrationDomains: domains } = options;
  byId("sign-up-open").hidden = registration !== "open";
  byId("sign-up-closed").hidden = registration === "open";
  byId("sign-up-domains").textContent = domains.length
    ? say("say_domains", { domains: domains.join(", ") })
    : "";
}

// What was typed at the sign-in need not be typed again.
function askForAddress(section) {
  const typed = signIn.querySelector("[name=email]").value;
  const field = section.querySelector("[name=email]");
  if (!field.value && typed.includes("@")) field.value = typed;
}

signIn.addEventListener("prepare", () => (byId("unverified").hidden = true));
signIn.addEventListener("failed", ({ detail: { code } }) => {
  byId("unverified").hidden = code !== "email_unverified";
});
byId("sign-up").addEventListener("prepare", ({ detail: { body } }) => {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  Object.assign(body, { language, timezone: timeZone });
});
byId("sign-up").addEventListener("done", (event) => {
  if (options.emailVerificationRequired) return;
  event.preventDefault();
  event.target.reset(); // the password is not needed any more
  const { email, password } = event.detail.body;
  call("POST", "auth/login", { email, password }).catch(() => (location.hash = "sign-in"));
});

export const sections = {
  "sign-in": () => {},
  "sign-up": signUp,
  "forgot-password": askForAddress,
  "new-confirmation": askForAddress,
};
