// The part of client.js for passkeys, which loads it at the first use.

import { Problem, encode } from "./client.js";

export const FRESH = 240_000; // milliseconds; a challenge lives for five minutes
const AGAIN = [
  ...["wrong_password", "wrong_code", "second_factor_required", "too_many_requests"],
  ...["no_response", "unavailable"],
];
/** Whether the same passkey is sent again, and the device does not make a second one. */
export const isAgain = ({ code }) => AGAIN.includes(code);
// By hand: older browsers have no functions for this, and those of some password managers fail.
export const decode = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const decoded = (each) => ({ ...each, id: decode(each.id) });
export const toJson = ({ rawId, response }, ...names) => {
  const parts = ["clientDataJSON", ...names].map((each) => [each, encode(response[each])]);
  return { id: encode(rawId), response: Object.fromEntries(parts) };
};

// Asks the device. One question ends the one before.
let asking = null;
async function ask(how, options) {
  asking?.abort();
  asking = new AbortController();
  try {
    return await navigator.credentials[how]({ ...options, signal: asking.signal });
  } catch ({ name, message }) {
    const code = name === "InvalidStateError" ? "passkey_taken" : "passkey_failed";
    throw new Problem(code, { message });
  }
}

export function createPasskeys({ call, send, logIn, whose }) {
  let made = null; // a new passkey that waits for the right password
  const load = () => call("GET", "auth/passkeys");

  async function signIn({ ownDevice } = {}) {
    const { publicKey } = await send("POST", "auth/passkeys/options");
    const challenge = decode(publicKey.challenge);
    const found = await ask("get", { publicKey: { ...publicKey, challenge } });
    const passkey = toJson(found, "authenticatorData", "signature", "userHandle");
    return logIn({ ownDevice, passkey });
  }

  async function make() {
    // The time is that before the challenge, since the device takes its own.
    const about = { of: whose(), at: Date.now() };
    const { publicKey } = await load();
    if (!publicKey) throw new Problem("too_many_passkeys");
    const { challenge, user, excludeCredentials: own } = publicKey;
    const options = { ...publicKey, challenge: decode(challenge), user: decoded(user) };
    options.excludeCredentials = own.map(decoded);
    const found = await ask("create", { publicKey: options });
    return { credential: toJson(found, "attestationObject"), ...about };
  }
  async function add(body) {
    const waits = made?.of === whose() && Date.now() < made.at + FRESH;
    const { credential } = (made = waits ? made : await make());
    const adding = call("POST", "auth/passkeys", { ...body, credential });
    const forget = () => (made = null);
    adding.then(forget, (problem) => isAgain(problem) || forget());
    return adding;
  }

  const list = async () => (await load()).passkeys;
  const remove = (id, body) => call("DELETE", `auth/passkeys/${encodeURIComponent(id)}`, body);
  return { signIn, list, add, remove };
}
