// The pages that links open: a password is chosen, with a code too, or an address is confirmed.

import { call, loadModule, onChange, resume } from "./api.js";
import { byId, fill, say } from "./words.js";

const act = document.querySelector("[data-module=links]");
const form = act.querySelector("form");
const isReset = act.id === "choose-password";
const asked = form.querySelector("fieldset"); // account and code without a link, or its password
const way = byId("way-on"); // to /account
const signIn = document.querySelector("#done form"); // there too
let me;
let isOwn = false; // whether the device is

const tokenOf = () => me.brought?.get("token");
const isDead = ({ code, reasons }) => code === "invalid_token" || Boolean(reasons.token);

// Leads to a new link, not by a step of the history: that would lead back here again and again.
function goOnWithout(key) {
  me.brought = null;
  fill(document, { why: say(key) });
  location.replace(isReset ? "#forgot-password" : "#new-confirmation");
}

// Returns for whom the link is.
async function check(token) {
  try {
    const link = await call("POST", "auth/check-link", { token });
    if (link.action === act.id.replace("-", "_")) return link;
  } catch (problem) {
    if (!isDead(problem)) throw problem;
  }
  goOnWithout("error_invalid_token");
  return {};
}

function ask(asks) {
  fill(act, { asks });
  asked.disabled = !asks; // what is disabled is not sent
}

async function show(_, who) {
  me = who;
  if (!tokenOf() && !isReset) return goOnWithout("error_no_link");
  const { username, email, hasPassword } = tokenOf() ? await check(tokenOf()) : {};
  const name = username || email || "";
  let needsPassword = !isReset && hasPassword;
  const here = tokenOf() ? `#token=${tokenOf()}` : "";
  if (signIn && (await resume(here))) {
    const [profile, { askWho }] = [await call("GET", "users/profile"), await loadModule("shared")];
    needsPassword &&= profile.email !== email;
    if (isReset || needsPassword) askWho(profile, encodeURIComponent(name), here);
  }
  fill(act, { name });
  ask(isReset ? name === "" : needsPassword);
  return act.querySelector("h1");
}

// All ways to the sign-in name the account.
function nameWays(name) {
  for (const each of name ? document.querySelectorAll(".to-sign-in") : []) {
    each.hash = `sign-in/${encodeURIComponent(name)}`;
  }
}

form.addEventListener("prepare", ({ detail: { body } }) => {
  if (tokenOf()) body.token = tokenOf();
  isOwn = body.ownDevice;
  delete body.ownDevice;
});
form.addEventListener("done", ({ detail: { body } }) => {
  me.brought = null;
  const name = body.account || form.elements.name.value;
  const secret = body.newPassword ?? body.password;
  nameWays(name);
  if (!signIn || !secret) return;
  const { email, password } = signIn.elements;
  [email.value, password.value] = [name, secret];
  signIn.hidden = false;
  password.closest(".field").hidden = true;
  setTimeout(() => signIn.requestSubmit()); // when it is shown
});
signIn?.addEventListener("prepare", ({ detail: { body } }) => (body.ownDevice = isOwn));
// The second factor is asked for in that form.
onChange((hasBegun) => hasBegun && new Promise(() => location.replace(way.href.split("#")[0])));
// Who stays signed in does nothing here.
byId("other")?.addEventListener("close", () => location.assign(way.href));
form.addEventListener("failed", (event) => {
  const { detail: problem } = event;
  if (problem.code === "wrong_password") ask(true); // the session has ended meanwhile
  if (!isDead(problem)) return;
  if (!tokenOf()) {
    nameWays(form.elements.account.value);
    return (problem.reasons = { code: ["wrong"] });
  }
  event.preventDefault();
  goOnWithout("error_invalid_token");
});
// A code is shown like on the sheet that it was printed on.
form.elements.code?.addEventListener("change", ({ target }) => {
  const digits = target.value.toUpperCase().replace(/[\s-]/g, "");
  if (/^[0-9A-Z]{12}$/.test(digits)) target.value = digits.match(/.{4}/g).join("-");
});

export const sections = { "choose-password": show, "verify-email": show };
