// The client of this service for browsers: sign up, in and out, stay signed in in each tab, call the
// API; client.d.ts says more. Import it from the service; or copy it with client.d.ts and
// client-passkeys.js into a project, and copy them again after an upgrade.

const TIMEOUT = 30_000; // milliseconds
const UPLOAD_TIMEOUT = 120_000;
// So short that the second try of a lost answer still gets the same new token.
const REFRESH_TIMEOUT = 10_000;
const LOCK_TIMEOUT = 10_000; // a tab that is frozen keeps its lock
const EARLY = 30_000; // milliseconds before its end in which an access token is not sent any more
const KEPT = 120_000; // milliseconds for which what a provider brought may be linked
// What is stored where nobody is signed in. Where there is nothing, the browser may have forgotten it.
const [OVER, OUT, ASKING] = ["ended", "signed_out", "asking"];

/** A call that failed: `code` as in docs/reference.md, or no_response; `retryAfter` in seconds. */
export class Problem extends Error {
  constructor(code, { message = code, ...about } = {}) {
    super(message);
    Object.assign(this, { status: 0, fields: {}, reasons: {}, retryAfter: 0, email: "" }, about);
    Object.assign(this, { name: "Problem", code });
  }
}
// Not by the status: a proxy of the front end may refuse with 401 too.
const isOver = ({ code }) => code.startsWith("token_");
const over = () => new Problem("token_revoked", { status: 401 });

/** Return bytes as base64url. */
export const encode = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

export function createClient({ url, storage = "cookie" }) {
  const here = globalThis.location; // there is none on a server that renders pages
  const base = new URL(String(url).replace(/\/*$/, "/"), here?.href);
  const [usesCookie, isLocal] = [storage === "cookie", storage === "local"];
  // All applications of an origin share its storage and locks. A text of one storage would be none
  // for a front end that changes to the other.
  const place = base.origin === here?.origin ? base.pathname : base;
  const name = `accounts ${place}${isLocal ? " local" : ""}`;
  const listeners = new Set();
  let user = null;
  let owner = null; // the id of whose page this is, until somebody signs out
  let access = null; // {token, until}
  let isReplaced = false; // by another user, until somebody signs in or `resume` is called

  // A provider's answer leaves the address first of all; the code is in this variable only.
  let came = null; // {code, error}, and {verifier, ownDevice} if it was asked for in this tab
  if (here?.hash.startsWith("#provider=")) {
    const brought = new URLSearchParams(here.hash.slice(1));
    history.replaceState(history.state, "", here.pathname + here.search);
    came = { code: brought.get("code"), error: brought.get("error") };
    try {
      Object.assign(came, JSON.parse(sessionStorage.getItem(name)));
      sessionStorage.removeItem(name);
    } catch {
      // Blocked: then nobody has left from here.
    }
  }

  // What the tabs share: {user, id, how}, and with "local" the tokens. `id` is another one after each
  // login. With "cookie", `user` is only its id, and `how` is how the cookie is kept.
  let box = null;
  let known = null; // what was last seen or stored; without storage, this is all there is
  try {
    if (here && (usesCookie || isLocal)) box = localStorage;
  } catch {
    // Blocked: a reload signs out.
  }
  const read = () => (box ? box.getItem(name) : known);
  const stored = () => (read()?.startsWith("{") ? read() : null);
  const parse = (text) => JSON.parse(text) ?? {};
  const mine = () => parse(user ? known : stored());
  // Safari drops all that scripts store after seven days; the cookie stays, and decides.
  const hasForgotten = () => usesCookie && box !== null && [null, ASKING].includes(read());
  function write(text) {
    known = text;
    try {
      if (text) box?.setItem(name, text);
      else box?.removeItem(name);
    } catch {
      box = null; // full: from now on this tab is alone
    }
  }

  function become(next, why) {
    const isNew = next?.id !== user?.id || why === "replaced";
    user = next;
    if (!next) access = null;
    // Each by itself, so that a mistake in one of them breaks nothing here.
    if (isNew) for (const callback of listeners) queueMicrotask(() => callback(next, why));
  }
  function end(why) {
    write(why);
    if (why === OUT) owner = null;
    become(null, why);
  }
  function adopt(session, text) {
    const { how, id } = session;
    access = session.access;
    if (text) known = text; // another tab has stored it
    else write(JSON.stringify(usesCookie ? { how, id, user: { id: session.user.id } } : session));
    owner = session.user.id;
    isReplaced = false;
    become(session.user, "signed_in");
  }
  function replace() {
    isReplaced = true;
    become(null, "replaced");
  }

  // Goes by what another tab has stored. Nobody becomes somebody else here.
  function follow() {
    const text = read();
    if (text === known || isReplaced || (user && hasForgotten())) return;
    known = text;
    const next = parse(stored());
    if (owner && next.user && next.user.id !== owner) return replace();
    if (user && !stored()) {
      if (text !== OVER) owner = null;
      return become(null, text === OVER ? OVER : OUT);
    }
    access = (user && isLocal && next.access) || null;
  }

  async function send(method, path, body, { token, how } = {}) {
    const headers = {};
    const isRaw = body instanceof FormData || body instanceof Blob;
    const options = { method, headers, credentials: how ? "include" : "same-origin" };
    if (token) headers.Authorization = `Bearer ${token}`;
    if (how) headers["X-Refresh-Cookie"] = how;
    const target = new URL(`api/${path}`, base);
    if (body && method === "GET") target.search = new URLSearchParams(body);
    else if (isRaw) options.body = body;
    else if (body) {
      headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    const time = isRaw ? UPLOAD_TIMEOUT : path === "auth/refresh" ? REFRESH_TIMEOUT : TIMEOUT;
    let response, answer;
    try {
      response = await fetch(target, { ...options, signal: AbortSignal.timeout(time) });
      answer = await response.text();
    } catch {
      throw new Problem("no_response");
    }
    try {
      answer = JSON.parse(answer);
      if (answer.success) return answer.data;
    } catch {
      answer = null; // a proxy's own page
    }
    const { code = "unavailable", ...about } = answer?.error ?? {};
    const [message, { status }] = [answer?.message, response];
    const retryAfter = Number(response.headers.get("Retry-After")) || 0;
    throw new Problem(code, { message, status, retryAfter, ...about });
  }

  // Logins, refreshes and sign-outs go one after another: in this tab, and where the browser has
  // locks in all; it has none without https, and where storage is blocked.
  let queue = Promise.resolve();
  function alone(act) {
    let isBegun = false;
    const once = () => ((isBegun = true), act());
    const locked = async () => {
      try {
        const signal = AbortSignal.timeout(LOCK_TIMEOUT);
        return await navigator.locks.request(name, { signal }, once);
      } catch (error) {
        if (isBegun) throw error;
        return act();
      }
    };
    return (queue = queue.then(locked, locked));
  }

  const newId = () => crypto.getRandomValues(new Uint32Array(1))[0];
  const sessionOf = ({ accessToken: token, expiresIn, refreshToken, user: found }) => {
    const { id, username, email, role } = found;
    const until = Date.now() + expiresIn * 1000 - EARLY; // by this clock
    return { user: { id, username, email, role }, access: { token, until }, refreshToken };
  };

  async function refresh(stale) {
    follow();
    if (access && access !== stale) return; // another tab was first
    // It may be a shared computer: a cookie whose kind is forgotten ends with the browser.
    const was = { how: "session", id: newId(), ...mine() };
    const isAsking = hasForgotten();
    if (isAsking && !user) write(ASKING); // where that cannot be stored, this tab is alone
    if (isReplaced || !(stored() || (isAsking && box))) throw over();
    const before = read();
    if (isLocal && !user && Date.now() < was.access.until) return adopt(was, before);
    const body = usesCookie ? {} : { refreshToken: was.refreshToken };
    const ask = () => send("POST", "auth/refresh", body, { how: usesCookie && was.how });
    let answer;
    try {
      answer = await ask().catch((problem) => (problem.status ? Promise.reject(problem) : ask()));
    } catch (problem) {
      if (isOver(problem) && read() === before) end(OVER);
      throw problem;
    }
    if (read() !== before) return refresh(stale); // somebody has signed out or in meanwhile
    const session = { how: was.how, id: was.id, ...sessionOf(answer) };
    if (!owner || owner === session.user.id) return adopt(session);
    // The cookie is somebody else's: of another front end, or of a late answer.
    write(JSON.stringify({ how: was.how, user: { id: session.user.id } }));
    replace();
    throw over();
  }
  let renewing = null;
  function renew() {
    const stale = access;
    return (renewing ??= alone(() => refresh(stale)).finally(() => (renewing = null)));
  }
  const isFresh = () => access && Date.now() < access.until;

  async function call(method, path, body) {
    path = path.replace(/^\//, "");
    await resuming?.catch(() => {});
    const mine = user?.id;
    const check = () => {
      follow();
      if (isReplaced || (mine && user?.id !== mine)) throw over();
    };
    const attempt = async (refused) => {
      check();
      if (mine && (!isFresh() || access === refused)) await renew();
      check();
      const used = access;
      const data = await send(method, path, body, { token: used?.token }).catch((problem) => {
        if (refused || !used || !isOver(problem)) throw problem;
        return attempt(used);
      });
      check();
      return data;
    };
    return attempt();
  }

  async function token() {
    await resuming?.catch(() => {});
    follow();
    if (isReplaced) throw over();
    if (user && !isFresh()) await renew();
    return access?.token ?? null;
  }

  let resuming = null;
  const resume = () => (resuming ??= begin().finally(() => (resuming = null)));
  async function begin() {
    if (isReplaced) owner = null;
    isReplaced = false;
    const pass = (problem) => isOver(problem) || Promise.reject(problem);
    if (!user && (stored() || hasForgotten())) await renew().catch(pass);
    return user;
  }

  // Every login. A refused one leaves the session before as it is.
  function logIn({ ownDevice, ...body }) {
    const how = usesCookie && (ownDevice ? "1" : "session");
    return alone(async () => {
      const answer = await send("POST", "auth/login", body, { how });
      came = null; // it has had its use, or nobody wants it
      adopt({ how, id: newId(), ...sessionOf(answer) });
      return user;
    });
  }
  const proof = ({ code, verifier }) => ({
    provider: { code, verifier },
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone, // of an account that is made now
  });
  async function signIn({ link, ...login }) {
    if (link && !came?.verifier) throw new Problem("again");
    const found = await logIn(link ? { ...login, ...proof(came) } : login);
    arriving = null;
    return found;
  }
  async function signUp({ ownDevice, ...form }) {
    await send("POST", "auth/register", form);
    return signIn({ email: form.email, password: form.password, ownDevice }).catch(() => null);
  }
  const signOut = () =>
    alone(async () => {
      follow();
      if (!user && !stored()) return;
      try {
        if (!isFresh()) await refresh(access);
        const how = usesCookie && mine().how;
        await send("POST", "auth/logout", undefined, { token: access.token, how });
      } catch (problem) {
        // The cookie is still there, and the page must not say otherwise.
        if (usesCookie && !isOver(problem)) throw problem;
      }
      if (!isReplaced) end(OUT);
    });

  let leaving = null;
  const signInWith = (...asked) => (leaving ??= leave(...asked).finally(() => (leaving = null)));
  async function leave(provider, { returnTo, ownDevice } = {}) {
    const verifier = encode(crypto.getRandomValues(new Uint8Array(32)));
    let challenge;
    try {
      challenge = encode(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
      sessionStorage.setItem(name, JSON.stringify({ verifier, ownDevice }));
    } catch {
      throw new Problem("provider_blocked"); // no https, or no storage
    }
    const page = base.origin === here.origin ? undefined : here.href.split("#")[0];
    const body = { challenge, returnTo: returnTo ?? page };
    const path = `auth/providers/${encodeURIComponent(provider)}/start`;
    here.assign((await send("POST", path, body)).url);
    return new Promise((_, reject) => {
      // The page is left, and comes back by the back button; or the browser was told to stay.
      addEventListener("pageshow", ({ persisted }) => persisted && reject(new Problem("denied")));
      setTimeout(reject, TIMEOUT, new Problem("no_response"));
    });
  }

  // The next person at the device must not link what somebody has brought. A code that waits for a
  // second factor is good for one account alone, whose app may be on this very phone.
  let isNeeded = false;
  const forget = () => came?.code && !isNeeded && (came = {});
  const forgetSoon = () => (document.hidden ? forget() : setTimeout(forget, KEPT));
  if (came) {
    setTimeout(forget, KEPT);
    document.addEventListener("visibilitychange", () => document.hidden && forget());
  }
  let arriving = null;
  function arrived(more) {
    if (!came || (arriving && !more)) return arriving ?? Promise.resolve(null);
    const { code, error, verifier, ownDevice } = came;
    if (!code || !verifier) {
      const word = !verifier ? "again" : error === "denied" ? error : "failed";
      return (arriving ??= Promise.reject(new Problem(word)));
    }
    isNeeded = true;
    arriving = logIn({ ownDevice, ...more, ...proof(came) });
    arriving.catch((problem) => {
      if (problem.code === "no_response") arriving = null;
      isNeeded = ["second_factor_required", "wrong_code"].includes(problem.code);
      forgetSoon();
    });
    return arriving;
  }

  let loading = null;
  const load = () =>
    (loading ??= import("./client-passkeys.js").then(
      ({ createPasskeys }) => createPasskeys({ call, send, logIn, whose: () => owner }),
      () => Promise.reject(((loading = null), new Problem("no_response"))),
    ));
  const later = (what) => async (...given) => (await load())[what](...given);
  const passkeys = {
    signIn: later("signIn"), list: later("list"), add: later("add"), remove: later("remove"),
  };

  function look() {
    follow();
    if (!user && !isReplaced && stored()) resume().catch(() => {});
  }
  if (here) {
    addEventListener("storage", ({ key }) => [name, null].includes(key) && look());
    // A page that comes back by the back button has missed what other tabs stored.
    addEventListener("pageshow", ({ persisted }) => persisted && look());
  }

  return {
    call, token, signUp, signIn, signOut, resume, signInWith, arrived, passkeys,
    get user() { return user; },
    get ownDevice() { return usesCookie && mine().how === "1"; },
    onChange(callback) {
      const listener = (...said) => callback(...said); // the same one may come twice
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
