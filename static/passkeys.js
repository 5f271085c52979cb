// Passkeys: the button and the proposals of the sign-in, and the card in Security.

import { Problem, call, client } from "./api.js";
import { FRESH, decode, isAgain, toJson } from "./client-passkeys.js";
import { emit, setBusy, showProblem } from "./forms.js";
import { byId, copy, fill, say, when } from "./words.js";

const signIn = document.querySelector("#sign-in [data-call]");
const button = byId("passkey-go");
const card = byId("security-passkeys"); // on /account
const add = byId("passkey-add");
let asked = null; // {publicKey, at}: for a login
let waiting = null; // ends the call of the browser's that waits
let isOpen = false; // whether its dialog is
const isFresh = () => asked && Date.now() < asked.at + FRESH;

async function ask() {
  if (isFresh()) return;
  asked = { ...(await call("POST", "auth/passkeys/options")), at: Date.now() };
}

// Lets the user choose a passkey, and signs in with it. Of two calls, the later one ends the other.
async function signInWith(mediation) {
  waiting?.abort();
  waiting = new AbortController();
  const publicKey = { ...asked.publicKey, challenge: decode(asked.publicKey.challenge) };
  const options = { publicKey, mediation, signal: waiting.signal };
  const used = await navigator.credentials.get(options);
  asked = null; // it works once
  const passkey = toJson(used, "authenticatorData", "signature", "userHandle");
  setBusy(signIn, true);
  try {
    await call("POST", "auth/login", { passkey, ownDevice: signIn.elements.ownDevice.checked });
  } finally {
    setBusy(signIn, false);
  }
}

function showRefusal(problem) {
  const isOld = problem.code === "invalid_token" || !(problem instanceof Problem);
  if (isOld) problem = { key: "error_passkey_unused" };
  if (problem.code === "invalid_credentials") problem.key = "error_passkey_refused";
  if (emit(signIn, "failed", problem)) showProblem(signIn, problem);
}

/** Offer passkeys: by the button, and among what the browser proposes for the username. */
export async function offer() {
  if (!window.PublicKeyCredential) return;
  button.hidden = false;
  if (isOpen || document.hidden || button.closest("[hidden]")) return;
  try {
    await ask(); // before the click, as Safari wants it
    if (!(await PublicKeyCredential.isConditionalMediationAvailable?.()) || isOpen) return;
  } catch {
    return; // a click says why
  }
  try {
    await signInWith("conditional");
  } catch (problem) {
    if (problem instanceof Problem) showRefusal(problem); // else nobody has chosen one
  }
}
const renew = () => button && !isFresh() && offer();
setInterval(renew, 30_000);
document.addEventListener("visibilitychange", renew);

button?.addEventListener("click", async () => {
  showProblem(signIn, null);
  isOpen = true;
  try {
    await ask();
    await signInWith("optional");
  } catch (problem) {
    if (problem.name === "AbortError") return; // there was a later click
    showRefusal(problem);
  }
  isOpen = false;
  offer();
});

function rowOf(passkey) {
  const title = passkey.name || say("say_passkey");
  const { lastUsedAt } = passkey;
  const ago = lastUsedAt && when((Date.parse(lastUsedAt) - Date.now()) / 1000);
  const used = ago ? say("say_passkey_used", { when: ago }) : say("say_passkey_new");
  const row = copy("passkey", { title, used });
  for (const way of row.querySelectorAll("button")) {
    const dialog = byId(way.dataset.opens);
    way.addEventListener("click", () => {
      fill(dialog, { who: title, name: passkey.name });
      dialog.querySelector("form").dataset.id = passkey.id;
    });
  }
  return row;
}

/** Show the user's passkeys; browsers that can do so forget the others. */
export function show({ publicKey, passkeys }) {
  const mayAdd = Boolean(publicKey && window.PublicKeyCredential);
  card.hidden = !mayAdd && !passkeys.length;
  fill(card, { mayAdd });
  byId("passkeys").replaceChildren(...passkeys.map(rowOf));
  if (!mayAdd) return;
  // All of them: browsers drop what is not in this list.
  const allAcceptedCredentialIds = passkeys.map(({ credentialId }) => credentialId);
  const known = { rpId: publicKey.rp.id, userId: publicKey.user.id, allAcceptedCredentialIds };
  PublicKeyCredential.signalAllAcceptedCredentials?.(known).catch(() => {});
}
const load = () => call("GET", "auth/passkeys").then(show);

add?.addEventListener("prepare", ({ detail }) => {
  waiting?.abort();
  detail.send = client.passkeys.add;
});
add?.addEventListener("failed", ({ detail: problem }) => {
  const isUnused = ["invalid_token", "passkey_failed"].includes(problem.code);
  if (isUnused) problem.key = "error_passkey_unused";
  // So that the browser forgets one that it made for nothing.
  if (!isAgain(problem)) load().catch(() => {});
});
