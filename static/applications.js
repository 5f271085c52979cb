// Where an application of the operator has sent somebody here: to go on to it signed in
// (`#request=…`), or to sign out (`#leave=…`). It goes only where the service says.

import { ASKS, HERE, call, client, inTab, userId } from "./api.js";
import { attempt, setBusy, showProblem } from "./forms.js";
import { logOut } from "./shared.js";
import { byId, fill, nameOf, say } from "./words.js";

const LONGEST = 900_000; // milliseconds that it waits on a device that is not one's own
const form = byId("going");
const signIn = byId("sign-in");
let me;
let found = null; // what the service says of it
let isAgreed = false; // by a click
let hindrance = null; // why there was no code

function drop() {
  me.asked = inTab(ASKS, null);
  form.hidden = true;
}
function goTo(url) {
  drop();
  return new Promise(() => location.replace(url)); // what waits for it goes on until then
}
// The page starts anew, and goes on with it.
const signOut = () => logOut(me.asked.replace(/^\d+/, ""), true);

function show(parts) {
  form.className = parts.title ? "card" : "note field"; // a question stands alone
  if (userId()) signIn.parentElement.prepend(form);
  else signIn.querySelector("h1").after(form);
  for (const part of form.querySelectorAll("[data-if]")) part.hidden = true;
  fill(form, parts);
  showProblem(form, hindrance);
  form.hidden = false;
  return Boolean(parts.title);
}
function end(key) {
  if (userId() && !me.profile) return false; // the page may change its language, and ask again
  drop();
  hindrance = null;
  return show({ why: say(key) });
}

function leave(user, name) {
  if (user && user === found.userId) return signOut();
  if (!user && found.url) return goTo(found.url);
  if (!user) return end("say_app_left");
  const title = say("say_app_leave");
  return name && show({ title, why: say("say_other_is", { name }), leave: title, stay: true });
}

// Asks who is signed in.
function ask(name) {
  const { label, prompt } = found;
  const title = say("say_app_title", { label });
  const { code } = hindrance ?? {};
  if (code === "second_factor_required") return show({ go: title, cancel: true });
  if (code !== "login_too_old" && (hindrance || !prompt.includes("login"))) {
    return show({ title, go: say("say_app_go", { name }), other: true, cancel: true });
  }
  hindrance = null;
  const why = say("say_app_again", { label, name });
  return show({ title, why, leave: say("say_app_renew"), cancel: true });
}

/** Go on to the application, or ask; return whether nothing but its question is shown. */
export async function answer(who) {
  me = who;
  if (me.asked.startsWith("#")) {
    me.asked = Date.now() + me.asked;
    inTab(ASKS, me.asked);
    inTab(HERE, null);
  }
  const [at, sent] = me.asked.split("#");
  const [[kind, request]] = new URLSearchParams(sent);
  const send = (what) => call("POST", `auth/applications/${what}`, { request });
  const isOver = ({ status }) => [400, 404, 413].includes(status);
  const over = (problem) => (isOver(problem) ? problem : Promise.reject(problem));
  found ??= await send("check").catch(over);
  // One to sign out is none to sign in: only the latter goes back with an error.
  const isOther = /[?&]error=/.test(found.url) !== (kind === "request");
  const out = userId() ? "say_app_in" : "say_app_left";
  if (found.status || isOther) return end(kind === "leave" ? out : "say_app_over");
  const [user, { ownDevice }, { label, loginHint, prompt, url }] = [userId(), client, found];
  const name = me.profile && `${nameOf(me.profile)} (${me.profile.username})`;
  if (kind === "leave") return leave(user, name);
  if (prompt === "none" && !(user && ownDevice)) return goTo(url);
  if (!user) {
    [hindrance, isAgreed] = [null, false];
    signIn.querySelector("[name=email]").value ||= loginHint;
    return show({ why: say("say_app_sign_in", { label }), cancel: true });
  }
  if (!ownDevice && Date.now() - at > LONGEST) return end("say_app_over");
  const isFor = user === inTab(HERE) || (ownDevice && ["", "none"].includes(prompt));
  if (isAgreed || (isFor && !hindrance)) {
    isAgreed = false;
    hindrance = await send("codes").then((it) => goTo(it.url), (problem) => problem);
    if (hindrance.code === "second_factor_required") history.replaceState(null, "", "#security");
  }
  if (hindrance?.status === 400) return end("say_app_over");
  if (hindrance && prompt === "none") return goTo(url);
  return name && userId() && ask(name);
}

const acts = { go: () => (isAgreed = true), stay: drop, cancel: () => goTo(found.url) };
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  setBusy(form, true);
  hindrance = null;
  const isDone = await attempt(form, acts[event.submitter.name] ?? signOut);
  if (isDone) await me.go(location.hash.slice(1));
  setBusy(form, false);
  event.submitter.focus(); // if it is still there
});
