// Where an application of the operator has sent somebody here: to go on to it signed in
// (`#request=…`), or to sign out (`#leave=…`). It goes only where the service says.

import { ASKS, HERE, Problem, call, client, inTab, userId } from "./api.js";
import { setBusy, showProblem } from "./forms.js";
import { logOut } from "./shared.js";
import { byId, fill, nameOf, say } from "./words.js";

const LONGEST = 900_000; // milliseconds that it waits on a device that is not one's own
const box = byId("going");
const form = box.querySelector("form");
const buttons = [...form.querySelectorAll("button")];
const { email } = document.querySelector("#sign-in form").elements;
let me;
let asks = null; // {kind, request, at}: it waits in the tab until it is answered
let found = null; // what the service says of it
let hindrance = null; // why there was no code
let acts = []; // of the buttons

function drop() {
  me.asked = false;
  inTab(ASKS, null);
  box.hidden = true;
}
function goTo(url) {
  drop();
  return new Promise(() => location.replace(url)); // what waits for it goes on until then
}
const cancel = () => goTo(found.url);
// The page starts anew, and goes on with it.
const signOut = () => logOut(`#${asks.kind}=${encodeURIComponent(asks.request)}`, true);

// Shows what is asked, and for each of the buttons [what it says, what it does].
function show(title, why, ...ways) {
  fill(box, { title, why });
  acts = ways.map((way) => way?.[1]);
  for (const [index, button] of buttons.entries()) {
    button.hidden = !ways[index];
    button.textContent = ways[index]?.[0] ?? button.textContent;
  }
  showProblem(form, hindrance);
  box.hidden = false;
}

// It took too long, or was made up.
function end() {
  drop();
  show("", say("say_app_over"));
}

async function goOn() {
  hindrance = null;
  try {
    const { request } = asks;
    await goTo((await call("POST", "auth/applications/codes", { request })).url);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem; // a mistake of ours
    if (problem.status === 401) return; // the sign-in is shown
    if (problem.status === 400) return end();
    hindrance = problem;
    if (problem.code === "second_factor_required") history.replaceState(null, "", "#security");
  }
}

// Asks who is signed in; returns whether nothing else is shown.
function ask(name) {
  const { label, prompt } = found;
  const [title, last] = [say("say_app_title", { label }), [undefined, cancel]];
  if (hindrance?.code === "second_factor_required") {
    show("", "", [title, goOn], null, last);
    return false;
  }
  if (hindrance?.code === "login_too_old" || prompt.includes("login")) {
    hindrance = null;
    show(title, say("say_app_again", { label, name }), [say("say_app_renew"), signOut], null, last);
  } else {
    show(title, "", [say("say_app_go", { name }), goOn], [say("say_app_other"), signOut], last);
  }
  return true;
}

// Signs out who has signed out at the application, and asks anybody else.
function leave(name) {
  const user = userId();
  if (user && user === found.userId) return signOut();
  if (!user && found.url) return cancel();
  if (!user) {
    drop();
    show("", say("say_app_left"));
  } else if (name) {
    const title = say("say_app_leave");
    show(title, say("say_other_is", { name }), [title, signOut], null, [say("say_app_stay"), drop]);
  }
  return user !== null;
}

/** Go on with what was asked; return whether nothing but its question is shown. */
export async function answer(who) {
  me = who;
  const [[kind, request] = []] = me.brought ?? [];
  if (["request", "leave"].includes(kind)) {
    asks = { kind, request, at: Date.now() };
    inTab(ASKS, JSON.stringify(asks));
    inTab(HERE, null);
    me.brought = null;
  }
  asks ??= JSON.parse(inTab(ASKS));
  try {
    found ??= await call("POST", "auth/applications/check", { request: asks.request });
  } catch (problem) {
    if (problem.status === 400) return end();
    throw problem;
  }
  const { profile } = me;
  const name = profile && `${nameOf(profile)} (${profile.username})`;
  if (asks.kind === "leave") return leave(name);
  const { label, loginHint, prompt } = found;
  const user = userId();
  const { ownDevice } = client;
  if (prompt === "none" && !(user && ownDevice)) return cancel();
  if (!user) {
    hindrance = null;
    email.value ||= loginHint;
    return show("", say("say_app_sign_in", { label }), null, null, [undefined, cancel]);
  }
  if (!ownDevice && Date.now() - asks.at > LONGEST) return end();
  const isFor = user === inTab(HERE) || (ownDevice && ["", "none"].includes(prompt));
  if (isFor && !hindrance) await goOn();
  return me.asked && name && userId() ? ask(name) : false;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  setBusy(form, true);
  try {
    await acts[buttons.indexOf(event.submitter)]();
  } catch (problem) {
    hindrance = problem;
  }
  setBusy(form, false);
  me.go(location.hash.slice(1)); // what is shown beside the question may be another section
});
