// The one door to the API, and who is signed in. The access token lives in this module only; the
// refresh token is in a cookie that scripts cannot read.

const TIMEOUT = 30_000; // milliseconds
const UPLOAD_TIMEOUT = 120_000;
// So short that the second try of a lost answer still gets the same new token.
const REFRESH_TIMEOUT = 10_000;
const EARLY = 30_000; // milliseconds before its end in which an access token is not sent any more
const WITH_COOKIE = new Set(["auth/login", "auth/refresh", "auth/logout"]);
// All applications of an origin share its storage and channels.
export const NAME = `accounts ${new URL(".", location).pathname}`;
export const USED = `${NAME} used`; // when a key, a click or a touch was the last one, in any tab

/** A call that failed: `code` as in docs/reference.md, or no_response; `retryAfter` in seconds. */
export class Problem extends Error {
  constructor(code, { status = 0, fields = {}, reasons = {}, retryAfter = 0, email = "" } = {}) {
    super(code);
    Object.assign(this, { code, key: `error_${code}`, status, fields, reasons, retryAfter, email });
  }
}

let access = null; // {token, user, until}
let lastUser = null; // who is signed in, or was until the session ended
let changed = () => {};
let channel;
try {
  channel = new BroadcastChannel(NAME);
} catch {
  // Storage is blocked, and Firefox blocks this with it: each tab is alone.
}

/** Call back when somebody has signed in here (true), or the session has ended (false). */
export const onChange = (callback) => (changed = callback);
export const userId = () => access?.user ?? null;

/** Return what is stored under a name; store a value there first, or remove it by null. */
export function stored(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null; // storage is blocked: a reload signs out, and begins in the colours of the device
  }
}

// Whether somebody is signed in on this browser, and how the cookie is kept: `1`, or `session`
// where the device belongs to others. Never a token.
const remembered = () => stored(NAME);
export const kept = () => remembered() ?? "session";
function remember(how) {
  stored(NAME, how);
  if (how) stored(USED, Date.now());
}

// Drops everything that this page holds about a user; `hash` names the section that comes then.
export function startAnew(hash = "") {
  for (const form of document.forms) form.reset(); // or a reload brings back what was typed
  history.replaceState(null, "", location.pathname + location.search + hash);
  location.reload();
  return new Promise(() => {});
}

/** Forget who is signed in, here and in the other tabs: after a sign-out, or without an account. */
export function forget(hash) {
  if (kept() === "session") stored("theme", null); // the next user has another one
  remember(null);
  channel?.postMessage(null);
  return startAnew(hash);
}

function store({ accessToken, expiresIn }) {
  const part = accessToken.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
  const user = JSON.parse(atob(part)).sub;
  if (lastUser && user !== lastUser) return startAnew();
  lastUser = user;
  access = { token: accessToken, user, until: Date.now() + expiresIn * 1000 - EARLY };
}

async function send(method, path, body, cookie = kept()) {
  const headers = {};
  const isForm = body instanceof FormData; // the browser sets its Content-Type
  const options = { method, headers };
  if (access && path !== "auth/refresh") headers.Authorization = `Bearer ${access.token}`;
  if (WITH_COOKIE.has(path)) headers["X-Refresh-Cookie"] = cookie;
  let url = `api/${path}`;
  if (body && method === "GET") url += `?${new URLSearchParams(body)}`;
  else if (isForm) options.body = body;
  else if (body) {
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const time = isForm ? UPLOAD_TIMEOUT : path === "auth/refresh" ? REFRESH_TIMEOUT : TIMEOUT;
  let response, answer;
  try {
    response = await fetch(url, { ...options, signal: AbortSignal.timeout(time) });
    answer = await response.text();
  } catch {
    throw new Problem("no_response");
  }
  try {
    answer = JSON.parse(answer);
    if (answer.success) return answer.data;
  } catch {
    answer = null;
  }
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  const about = { status: response.status, retryAfter, ...answer?.error };
  throw new Problem(answer?.error?.code ?? "unavailable", about); // a proxy's own page is no JSON
}

const withLock = (act) =>
  // Browsers have no locks on pages without https, and refuse them where storage is blocked; there
  // the grace of the service has to do.
  navigator.locks && remembered() ? navigator.locks.request(`${NAME} refresh`, act) : act();
let renewing = null;

// Gets a new access token; one tab at a time, so that each sends the newest cookie.
function renew() {
  const ask = () => send("POST", "auth/refresh", {});
  const again = (problem) => (problem.status ? Promise.reject(problem) : ask());
  renewing ??= withLock(() => ask().catch(again).then(store))
    .catch((problem) => {
      if (problem.status === 401) {
        access = null;
        remember(null);
        if (lastUser) changed(false);
      }
      throw problem;
    })
    .finally(() => (renewing = null));
  return renewing;
}

/**
 * Return the `data` of the answer. Throws Problem. The body of a GET is its query. An access token
 * that has expired is replaced, and the call is sent once more. `cookie` is how a login's cookie is
 * kept.
 */
export async function call(method, path, body, { cookie = kept() } = {}) {
  if (access && Date.now() > access.until) await renew();
  const used = access?.token;
  try {
    const data = await send(method, path, body, cookie);
    if (path === "auth/login") {
      remember(cookie); // first: for another user, the page starts anew
      await store(data);
      channel?.postMessage(access.user);
      changed(true);
    }
    return data;
  } catch (problem) {
    if (problem.status !== 401 || !used || path === "auth/login") throw problem;
    if (used === access?.token) await renew();
    return send(method, path, body);
  }
}

/** Return a module of this folder. Throws Problem if it does not come. */
export const loadModule = (name) =>
  import(`./${name}.js`).catch(() => Promise.reject(new Problem("no_response")));

/**
 * Return whether somebody is signed in on this browser. Throws Problem if that stays unknown. Who has
 * left a device of others alone is signed out; the page goes on at `hash` then.
 */
export async function resume(hash = "") {
  if (!remembered()) return false;
  // Pages with a copy of this module have no such dialog.
  const shared = document.getElementById("other") && (await loadModule("shared"));
  const isOver = shared?.isUnused();
  try {
    await renew();
    if (isOver) return shared.leave(hash);
  } catch (problem) {
    if (problem.status !== 401) throw problem;
  }
  return access !== null;
}

/**
 * Sign out; `hash` names the section that comes then: on a device of others, or `always`.
 */
export async function logOut(hash, always = false) {
  await call("POST", "auth/logout").catch((problem) => {
    // Without an answer, the cookie is still there.
    if (problem.status !== 401) throw problem;
  });
  return forget(always || kept() === "session" ? hash : "");
}

channel?.addEventListener("message", ({ data: user }) => {
  // Or a link's token would be lost.
  if (document.querySelector("[data-module=links]")) return;
  if (user === null || user !== lastUser) startAnew();
  else if (!access) renew().then(() => changed(true), () => {});
});
// A page that comes back by the back button may be another user's by now.
addEventListener("pageshow", (event) => event.persisted && location.reload());
