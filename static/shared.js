// A computer that many use: the next user is not taken for the one before.

import { USED, call, client, stored, userId } from "./api.js";
import { byId, decoded, fill, nameOf, say } from "./words.js";

// Who is named in a URL, which anybody can make up, is shown only if it is a username or an address.
const NAMED = /^[a-z0-9][\w.+-]{2,63}(@[a-z0-9.-]+)?$/i;
const IDLE = 900_000; // milliseconds without use, after which a device of others is signed out
const LAST = 60_000; // those at their end in which a dialog asks
const { body } = document;
const dialog = byId("other");
const still = byId("still");
let isOwn = client.ownDevice; // also after the sign-out
let after = ""; // the section that comes when the page has started anew

// Whether nobody has used the device for too long; by the clock, since timers sleep with it.
function isUnused(early = 0) {
  const used = stored(USED); // without storage, each load asks for a sign-in
  return used !== null && !isOwn && Date.now() - used > IDLE - early;
}

/** Drop everything that this page holds about a user, and load it anew. */
export function startAnew() {
  // Why: for the sign-in, which says it once. No other tab sees this, and it needs no storage.
  const unused = isUnused() && (document.querySelector(".slip") ? "slips" : "idle");
  const ended = history.state?.ended || unused || (!isOwn && "out");
  for (const form of document.forms) form.reset(); // or a reload brings back what was typed
  history.replaceState({ ended }, "", location.pathname + location.search + after);
  return new Promise(() => location.reload()); // what waits for it goes on until then
}

/** Sign out; `hash` is the section that comes then, on a device of others or `always`. */
export async function logOut(hash, always = false) {
  isOwn = client.ownDevice;
  after = always || !isOwn ? hash : "";
  await client.signOut();
  if (!isOwn) stored("theme", null); // the next user has another one
  return startAnew();
}

// Signs out before anybody sees more; the page goes on at `hash`.
async function leave(hash = "") {
  body.hidden = true;
  return logOut(hash, true).catch(startAnew); // that tries again
}

/** Let who is signed in stay, or sign out who has left a device of others alone. */
export function stay(hash) {
  if (isUnused()) return leave(hash);
  history.replaceState(null, ""); // the one before has ended
  if (!stored(USED)) stored(USED, Date.now()); // the browser has forgotten it
  return true;
}

function watch(event) {
  if (!userId() || body.hidden) return still?.close();
  isOwn = client.ownDevice;
  const isOver = isUnused();
  // A key that answers the dialog does nothing else: the focus is elsewhere then.
  if (event && (isOver || (still.open && event.type === "keydown"))) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
  if (isOver) return leave();
  if (event || document.querySelector("form[aria-busy=true]")) stored(USED, Date.now());
  const isLate = isUnused(LAST);
  if (isLate && !still.open) still.showModal();
  if (!isLate && event?.type !== "pointerdown") still.close(); // or the click would go below it
}
for (const name of ["keydown", "pointerdown", "click"]) addEventListener(name, watch, true);
for (const name of ["visibilitychange", "focus"]) addEventListener(name, () => watch());
setInterval(watch, 5_000);
addEventListener("storage", ({ key, newValue }) => {
  if (key === USED && !isUnused(LAST)) still.close();
  if (key === "theme") document.documentElement.dataset.theme = newValue ?? "system";
});

/** Lead who manages others and has no courses to /admin, but not from a section that the URL names. */
export async function leadOn(me) {
  const way = document.querySelector(`header a[href^=admin][data-roles~=${client.user?.role}]`);
  if (!way || me.asked || (location.hash && !location.hash.startsWith("#sign-in"))) return;
  const found = await call("GET", "users/progress").catch(() => null);
  if (found?.totalCourses !== 0) return;
  return new Promise(() => location.assign(way.href));
}

/** Ask who is signed in to make way for another, of this name or any, at `hash`. */
export function askWho(user, encoded, hash) {
  const name = decoded(encoded);
  const isOwn = [user.username, user.email].some((own) => own.toLowerCase() === name.toLowerCase());
  if (isOwn || (name && !NAMED.test(name))) return;
  const goOn = name ? say("say_other_as", { name }) : say("say_other");
  fill(dialog, { other: say("say_other_is", { name: nameOf(user) }), goOn });
  dialog.querySelector("button").onclick = () => logOut(hash, true).catch(() => dialog.close());
  dialog.showModal();
}
