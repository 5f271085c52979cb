// A computer that many use: the next user is not taken for the one before.

import { USED, call, client, isUnused, logOut, stored, userId } from "./api.js";
import { byId, decoded, fill, nameOf, say } from "./words.js";

// Who is named in a URL, which anybody can make up, is shown only if it is a username or an address.
const NAMED = /^[a-z0-9][\w.+-]{2,63}(@[a-z0-9.-]+)?$/i;
const { body } = document;
const dialog = byId("other");

/** Sign out before anybody sees more; the page goes on at `hash`. */
export async function leave(hash = "") {
  body.hidden = true;
  return logOut(hash, true).catch(() => location.reload()); // which tries again
}

function watch(event) {
  if (!userId() || body.hidden) return;
  if (isUnused()) {
    event?.preventDefault();
    event?.stopImmediatePropagation();
    leave();
  } else if (event || document.querySelector("form[aria-busy=true]")) stored(USED, Date.now());
}
for (const name of ["keydown", "pointerdown", "click"]) addEventListener(name, watch, true);
for (const name of ["visibilitychange", "focus"]) addEventListener(name, () => isUnused() && watch());
setInterval(watch, 15_000);
addEventListener("storage", ({ key, newValue }) => {
  if (key === "theme") document.documentElement.dataset.theme = newValue ?? "system";
});

/** Lead who manages others and has no courses to /admin, but not from a section that the URL names. */
export async function leadOn() {
  const way = document.querySelector(`header a[href^=admin][data-roles~=${client.user?.role}]`);
  if (!way || (location.hash && !location.hash.startsWith("#sign-in"))) return false;
  const found = await call("GET", "users/progress").catch(() => null);
  if (found?.totalCourses !== 0) return false;
  location.assign(way.href);
  return true;
}

/**
 * Ask whether who is signed in makes way for somebody else, whose name is percent-encoded or empty;
 * the page goes on at `hash`.
 */
export function askWho(user, encoded, hash) {
  const name = decoded(encoded);
  const isOwn = [user.username, user.email].some((own) => own.toLowerCase() === name.toLowerCase());
  if (isOwn || (name && !NAMED.test(name))) return;
  const goOn = name ? say("say_other_as", { name }) : say("say_other");
  fill(dialog, { other: say("say_other_is", { name: nameOf(user) }), goOn });
  dialog.querySelector("button").onclick = () => logOut(hash, true).catch(() => dialog.close());
  dialog.showModal();
}
