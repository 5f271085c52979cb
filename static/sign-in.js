// What visitors see: sign in, and the ways back in.

import { loadModule } from "./api.js";
import { byId, decoded } from "./words.js";

const signIn = byId("sign-in");

// `name` is who has just chosen a password. Returns the field to begin with.
function showSignIn(section, _, name) {
  if (byId("passkey-go")) loadModule("passkeys").then(({ offer }) => offer(), () => {});
  const { email, password } = section.querySelector("form").elements;
  if (name) email.value = decoded(name);
  return email.value ? password : email;
}

// What was typed at the sign-in need not be typed again.
function askForName(section) {
  const typed = signIn.querySelector("[name=email]").value;
  const field = section.querySelector("[name=email]");
  if (!field.value && (field.type !== "email" || typed.includes("@"))) field.value = typed;
}

signIn.addEventListener("prepare", () => (byId("unverified").hidden = true));
signIn.addEventListener("failed", ({ detail: { code } }) => {
  byId("unverified").hidden = code !== "email_unverified";
});

export const sections = {
  "sign-in": showSignIn,
  "forgot-password": askForName,
  "new-confirmation": askForName,
};
