// The pages that links open: a password is chosen, with a code too, or an address is confirmed.

import { call } from "./api.js";
import { fill, say } from "./words.js";

const act = document.querySelector("[data-module=links]");
const form = act.querySelector("form");
const codes = form.querySelector("fieldset"); // for those without a link
let me;

const tokenOf = () => me.brought?.get("token");
const isDead = ({ code, reasons }) => code === "invalid_token" || Boolean(reasons.token);

// Leads to a new link, not by a step of the history: that would lead back here again and again.
function goOnWithout(key) {
  me.brought = null;
  fill(document, { why: say(key) });
  location.replace(codes ? "#forgot-password" : "#new-confirmation");
}

// Returns for whom the link is.
async function check(token) {
  try {
    const { action, username, email } = await call("POST", "auth/check-link", { token });
    if (action === act.id.replace("-", "_")) return username || email;
  } catch (problem) {
    if (!isDead(problem)) throw problem;
  }
  goOnWithout("error_invalid_token");
  return "";
}

async function show(_, who) {
  me = who;
  if (!tokenOf() && !codes) return goOnWithout("error_no_link");
  const name = tokenOf() ? await check(tokenOf()) : "";
  fill(act, { name });
  if (codes) codes.disabled = name !== ""; // what is disabled is not sent
  return act.querySelector("h1");
}

form.addEventListener("prepare", ({ detail: { body } }) => {
  if (tokenOf()) body.token = tokenOf();
});
form.addEventListener("done", ({ detail: { body } }) => {
  me.brought = null;
  const name = body.account || form.elements.name?.value;
  const way = document.getElementById("way-on");
  if (name && way) way.hash = `sign-in/${encodeURIComponent(name)}`;
});
form.addEventListener("failed", (event) => {
  const { detail: problem } = event;
  if (!isDead(problem)) return;
  if (!tokenOf()) return (problem.reasons = { code: ["wrong"] });
  event.preventDefault();
  goOnWithout("error_invalid_token");
});
// A code is shown like on the sheet that it was printed on.
form.elements.code?.addEventListener("change", ({ target }) => {
  const digits = target.value.toUpperCase().replace(/[\s-]/g, "");
  if (/^[0-9A-Z]{12}$/.test(digits)) target.value = digits.match(/.{4}/g).join("-");
});

export const sections = { "choose-password": show, "verify-email": show };
