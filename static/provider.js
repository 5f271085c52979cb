// Sign in with a provider: the way there, and what follows when the browser is back.

import { NAME, client, inTab, signedIn, userId } from "./api.js";
import { askForCode, setBusy, showProblem, showText } from "./forms.js";
import "./sign-in.js"; // it prepares what its form sends
import { byId, fill, say } from "./words.js";

const MOST = 120_000; // milliseconds for which a password may still link
const ASKED = `${NAME} asked`; // who has left for a provider, and whether the device is their own

const signIn = document.querySelector("#sign-in [data-call]");
const link = byId("security-link"); // on /account
const note = byId("ended");
const both = byId("sign-in-link"); // the button that links, too

// A walk is in one of three states. "none": nobody has come back, or the code is forgotten. "alone":
// the sign-in sends the code, and a second factor where one is asked for. "password": the code waits
// until `form`, the sign-in or `link`, sends a password with it, which links. `isSent` says whether
// the code goes with what is being sent.
const walk = { state: "none", form: signIn, label: "", isSent: false, me: null };

function enter(state) {
  walk.state = state;
  for (const name of ["email", "password"]) {
    const field = signIn.elements[name];
    field.disabled = field.closest(".field").hidden = state === "alone";
  }
  if (state !== "none") return;
  walk.me.brought = null;
  both.hidden = true;
}

/** Go to a provider. The form whose button was pressed says what hinders. */
export async function leave(from, name) {
  if (from.ariaBusy === "true") return;
  showProblem(from, null);
  setBusy(from, true);
  try {
    const ownDevice = signIn.elements.ownDevice.checked;
    inTab(ASKED, JSON.stringify({ user: userId(), isOwn: ownDevice }));
    await client.signInWith(name, { ownDevice });
  } catch (problem) {
    setBusy(from, false);
    showProblem(from, problem.reasons ? problem : { code: "provider_blocked" });
  }
}

// The person at the device may be another one by now: only the button that names the address links.
function askForPassword({ code = "registration_closed", email = "" } = {}) {
  const { label } = walk;
  enter(email ? "password" : "none");
  showText(note, say(`say_provider_${code}`, { label }));
  both.hidden = !email;
  both.textContent = say("say_provider_both", { label, email });
  setTimeout(hide, MOST);
  signIn.elements.email.focus();
}
function hide() {
  if (walk.state !== "password") return;
  if (walk.form === link) drop("again");
  else enter("none");
}
document.addEventListener("visibilitychange", () => document.hidden && hide());

// Forgets the code, and says why.
function drop(word) {
  enter("none");
  note.textContent = "";
  if (link) link.hidden = true;
  askForCode(signIn, false);
  const place = walk.form === link ? link.previousElementSibling : signIn;
  if (word) showProblem(place, { key: `error_provider_${word}` });
}

// Whose account has come back: our code says it, in the places of `Arrival` (services/providers.py).
function addressIn(code) {
  try {
    const text = atob(code.split(".")[0].replaceAll("-", "+").replaceAll("_", "/"));
    const { 4: email, 8: isShown } = JSON.parse(text.slice(4)); // after its end, in 4 bytes
    return isShown ? email : "";
  } catch {
    return ""; // made up: it is refused in the end
  }
}

/** Go on with what the URL brought, before a section is shown. */
export async function comeBack(me) {
  if (walk.state !== "none") return; // "Try again", after something else
  walk.me = me;
  const asked = JSON.parse(inTab(ASKED)); // where storage is blocked, nobody has left from here
  inTab(ASKED, null);
  const user = userId();
  if (user && asked?.user !== user) {
    drop(); // nobody has asked to link this account
    return me.reload();
  }
  if (user) {
    walk.form = link;
    history.replaceState(null, "", "#security");
  }
  if (!asked) return drop("again");
  if (!me.brought.has("code")) return client.arrived().catch(({ code }) => drop(code));
  const label = document.getElementsByName(me.brought.get("provider"))[0]?.value;
  walk.label = label;
  signIn.elements.ownDevice.checked = asked.isOwn;
  if (user) {
    enter("password");
    setTimeout(hide, MOST);
    link.hidden = false;
    const [email, name] = [addressIn(me.brought.get("code")), me.profile.username];
    const key = email ? "say_provider_password" : "say_provider_nameless";
    fill(link, { linking: say(key, { label, email, name }) });
  } else if (asked.user) askForPassword(); // the session has ended meanwhile
  else {
    enter("alone");
    signIn.requestSubmit();
  }
}

const isOurs = (target) => walk.state !== "none" && target === walk.form;
document.addEventListener("prepare", ({ target, detail }) => {
  const isAlone = walk.state === "alone";
  const isChosen = isAlone || target === link || detail.submitter === both;
  walk.isSent = isOurs(target) && isChosen;
  if (walk.isSent && isAlone) detail.send = (body) => signedIn(client.arrived(body));
  else if (walk.isSent) detail.body.link = true;
  if (target !== link) return;
  Object.assign(detail.body, { email: walk.me.profile.username, ownDevice: client.ownDevice });
});
document.addEventListener("done", ({ target }) => {
  if (!isOurs(target)) return;
  if (walk.isSent && walk.state === "password" && target === signIn) {
    fill(document.body, { news: say("say_provider_now", { label: walk.label }) });
  }
  drop();
});
document.addEventListener("failed", (event) => {
  const { target, detail: problem } = event;
  if (!isOurs(target)) return;
  const isPassword = problem.code === "invalid_credentials" && walk.state === "password";
  if (isPassword && target === link) problem.key = "error_wrong_password";
  const next = {
    username_taken: () => signIn.requestSubmit(), // by somebody at this very moment
    email_taken: () => askForPassword(problem),
    registration_closed: () => askForPassword(problem),
    invalid_token: () => drop("again"),
    invalid_credentials: isPassword ? null : () => drop("again"), // the account has changed
    identity_taken: () => drop("taken"),
  }[problem.code];
  if (next) event.preventDefault();
  next?.();
});
