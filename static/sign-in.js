// What visitors see: sign in, and the ways back in.

import { loadModule } from "./api.js";
import { byId, decoded, say } from "./words.js";

const signIn = byId("sign-in");

// `name` is who has just chosen a password. Returns the field to begin with.
function showSignIn(section, _, name) {
  if (byId("passkey-go")) loadModule("passkeys").then(({ offer }) => offer(), () => {});
  const { email, password } = section.querySelector("[data-call]").elements;
  if (name) email.value = decoded(name);
  const why = history.state?.ended; // from shared.js
  if (why) {
    history.replaceState(null, "");
    const texts = [...new Set([why, "out"])].map((it) => say(`say_session_${it}`));
    setTimeout(() => (byId("ended").textContent = texts.join(" "))); // once shown
  }
  return email.value ? password : email;
}

// What was typed need not be typed again, unless an account was begun with another address.
function askForName(section) {
  const isOther = "#sign-up:has([data-if=isUnconfirmed]:not([hidden])) *";
  const fields = [...document.querySelectorAll("#sign-in [name=email], #sign-up-email")];
  const typed = fields.find((each) => each.value && !each.matches(isOther))?.value ?? "";
  const field = section.querySelector("[name=email]");
  if (!field.value && (field.type !== "email" || typed.includes("@"))) field.value = typed;
}

signIn.addEventListener("prepare", () => (byId("unverified").hidden = true));
signIn.addEventListener("failed", ({ detail: problem }) => {
  const { code, retryAfter } = problem;
  byId("unverified").hidden = code !== "email_unverified";
  const isLocked = code === "too_many_requests" && retryAfter > 60 && retryAfter <= 900;
  if (isLocked) problem.key ??= "error_too_many_logins"; // a new password ends no other limit
});
signIn.addEventListener("keyup", (event) => {
  const isOn = event.target.name === "password" && event.getModifierState?.("CapsLock");
  byId("caps").textContent = isOn ? say("say_caps") : "";
});

export const sections = {
  "sign-in": showSignIn,
  "forgot-password": askForName,
  "new-confirmation": askForName,
};
