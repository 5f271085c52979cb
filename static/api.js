// What these pages need besides client.js: a page shows one user, and starts anew for another one.

import { Problem, createClient } from "./client.js";

// What a link, a provider or an application brings.
const BROUGHT = /^#(token|provider|request|leave)=/;
const { hash: first } = location;
export const isBrought = (hash) => BROUGHT.test(hash);
export const brought = isBrought(first) ? new URLSearchParams(first.slice(1)) : null;

export { Problem };
export const client = createClient({ url: new URL(".", location) });
export const NAME = `accounts ${new URL(".", location).pathname}`;
export const USED = `${NAME} used`; // when a key, a click or a touch was the last one, in any tab
export const ASKS = `${NAME} asks`; // what an application wants
export const HERE = `${NAME} here`; // who has signed in here since

let lastUser = null; // the id of whose page this is, until it starts anew
let shown; // waits until what follows a sign-in is on the screen
let isResuming = false;
let isHere = false; // whether this tab signs in
let changed = () => {};
/** Call back when somebody has signed in here (true), or the session has ended (false). */
export const onChange = (callback) => (changed = callback);
export const userId = () => client.user?.id ?? null;

/** Return what is stored under a name; store a value there first, or remove it by null. */
export function stored(name, value, place = "localStorage") {
  try {
    const box = window[place];
    if (value === null) box.removeItem(name);
    else if (value !== undefined) box.setItem(name, value);
    return box.getItem(name);
  } catch {
    return null; // storage is blocked: a reload signs out, and begins in the colours of the device
  }
}
export const inTab = (name, value) => stored(name, value, "sessionStorage");

client.onChange((user, why) => {
  if (user && !isResuming) stored(USED, Date.now());
  if (user && isHere) inTab(HERE, user.id);
  const isGone = why === "signed_out" || why === "replaced";
  if (isGone || (user && lastUser && user.id !== lastUser)) {
    inTab(ASKS, null);
    // Or a link's token would be lost.
    if (isGone && document.querySelector("[data-module=links]")) return;
    return (shown = loadModule("shared").then((it) => it.startAnew(), () => location.reload()));
  }
  lastUser = user?.id ?? lastUser;
  if (!isResuming) shown = changed(user !== null);
});

/** Wait for a sign-in and what follows it; so long its form is at work. */
export const signedIn = (work) => {
  isHere = true;
  return work.finally(() => (isHere = false)).then(() => shown);
};

/** Return the `data` of the answer. Throws Problem. The body of a GET is its query. */
export const call = (method, path, body) =>
  path === "auth/login" ? signedIn(client.signIn(body)) : client.call(method, path, body);

/** Return a module of this folder. Throws Problem if it does not come. */
export const loadModule = (name) =>
  import(`./${name}.js`).catch(() => Promise.reject(new Problem("no_response")));

/**
 * Return whether somebody is signed in on this browser. Throws Problem if that stays unknown. Who has
 * left a device of others alone is signed out; the page goes on at `hash` then.
 */
export async function resume(hash = "") {
  const loading = stored(NAME)?.startsWith("{") && loadModule("shared");
  isResuming = true;
  const [user] = await Promise.all([client.resume(), loading]).finally(() => {
    isResuming = false;
  });
  return user !== null && (await loadModule("shared")).stay(hash);
}

// A page that comes back by the back button may be another user's by now.
addEventListener("pageshow", (event) => event.persisted && location.reload());
