// The section "security": address, username, password, second factor, devices, the user's own data.

import { call } from "./api.js";
import { askForCode, attempt, sayDone, showProblem } from "./forms.js";
import { latest, showEvents } from "./happened.js";
import { save, saveData } from "./lists.js";
import "./client-passkeys.js"; // or it comes only after passkeys.js, which needs it
import { show as showPasskeys } from "./passkeys.js";
import { logOut } from "./shared.js";
import { providerOf } from "./sign-up.js";
import { date, moment } from "./times.js";
import { addressOf, byId, copy, fill, pictureOf, say, when } from "./words.js";

const part = (id) => byId(`security-${id}`);
const section = byId("security");
const factor = part("factor");
// The first sign that a user agent shows counts: most of them also name others.
const BROWSERS = {
  Edge: /Edg/, Opera: /OPR\//, "Samsung Internet": /SamsungBrowser/, Firefox: /Firefox|FxiOS/,
  Chrome: /Chrome|CriOS/, Safari: /Safari/,
};
const SYSTEMS = {
  iPhone: /iPhone/, iPad: /iPad/, Android: /Android/, Windows: /Windows/, ChromeOS: /CrOS/,
  macOS: /Mac OS/, Linux: /Linux/,
};
let me;
let codes = [];
let session = ""; // the id of this device's

function device(userAgent) {
  const find = (known) => Object.keys(known).find((name) => known[name].test(userAgent));
  const [browser, system] = [find(BROWSERS), find(SYSTEMS)];
  if (browser && system) return say("say_device", { browser, system });
  return userAgent || say("say_unknown_device");
}

function rowOf(session, index) {
  const used = session.current ? 0 : Math.min(0, Date.parse(session.lastUsedAt) - Date.now());
  const values = { device: device(session.userAgent), used: when(used / 1000) };
  const since = say("say_on_since", { date: moment(session.createdAt) });
  const row = copy("security-session", { ...session, ...values, since });
  row.hidden = index >= 5 && !part("all").hidden;
  const form = row.querySelector("form");
  form.dataset.id = session.id;
  form.querySelector("button").ariaLabel = say("say_sign_out_device", values);
  return row;
}

// What the second factor shows: "off"; the new "key", until its first code; "codes", until they are
// kept; "on".
const stage = () => factor.querySelector("[data-stage]:not([hidden])").dataset.stage;
function showStage(to) {
  if (to !== "key") fill(factor, { key: "", uri: "", picture: "" }); // a secret
  for (const each of factor.querySelectorAll("[data-stage]")) {
    each.hidden = each.dataset.stage !== to;
  }
  for (const card of section.querySelectorAll(".card")) {
    card.classList.toggle("no-print", to === "codes" && card !== factor);
  }
}

/** Loads what the section shows; what is typed, and codes that are not kept yet, stay. */
async function load() {
  const [email, state, { sessions }, label, events, passkeys] = await Promise.all([
    call("GET", "users/email"),
    call("GET", "auth/second-factor"),
    call("GET", "auth/sessions"),
    providerOf(me.profile.provider),
    latest(me.profile.id),
    call("GET", "auth/passkeys"),
  ]);
  session = sessions.find(({ current }) => current).id;
  const mine = me.profile.mayChangeAccount;
  const { email: address, username: who } = me.profile;
  const linked = label ?? me.profile.provider;
  const hasPasskeys = passkeys.passkeys.length > 0;
  fill(section, { account: me.profile, email: address, who, linked, hasPasskeys, mine });
  const until = email.pendingUntil && moment(email.pendingUntil);
  fill(part("email"), {
    ...email,
    ...addressOf(email),
    pending: say("say_code_sent", { email: email.pendingEmail, until }),
  });
  fill(factor, {
    ...state,
    isMissing: state.required && !state.enabled,
    since: state.enabled ? say("say_on_since", { date: date(state.since) }) : "",
    left: say("say_codes_left", { count: state.recoveryCodesLeft }),
  });
  if (["off", "on"].includes(stage())) showStage(state.enabled ? "on" : "off");
  showPasskeys(passkeys);
  for (const form of section.querySelectorAll("form")) askForCode(form, state.enabled);
  sessions.sort((one, other) => other.current - one.current); // else by the last use
  part("sessions").replaceChildren(...sessions.map(rowOf));
  part("all").textContent = say("say_all_devices", { count: sessions.length });
  part("all").hidden ||= sessions.length <= 5; // or it was pressed
  part("others").hidden = sessions.length < 2;
  showEvents(part("happened"), me.profile.id, events);
}

function showKey({ secret, uri, qrCode }) {
  const key = secret.match(/.{1,4}/g).join(" ");
  fill(factor, { key, uri, picture: pictureOf(qrCode) });
  showStage("key");
}

function showCodes({ recoveryCodes }) {
  part("kept").reset();
  fill(factor, { codesOf: say("say_codes_of", me.profile) });
  codes = recoveryCodes;
  part("codes").replaceChildren(...codes.map((code) => copy("security-code", { code })));
  part("copied").textContent = "";
  showStage("codes");
}

const codesAsText = () => `${say("say_codes_of", me.profile)}\n\n${codes.join("\n")}\n`;

async function copyCodes() {
  const copied = navigator.clipboard?.writeText(codesAsText()).then(() => "say_copied");
  const said = await copied?.catch(() => {}); // the user does not want it
  part("copied").textContent = say(said ?? "say_not_copied"); // without https, too
}

// Moves the focus on in the card if the place of what was done is gone.
function moveOn(card) {
  if (card.contains(document.activeElement) && document.activeElement.offsetParent) return;
  const places = [...card.querySelectorAll("h3[tabindex], [name=code]")];
  const next = places.find((each) => each.offsetParent);
  (next ?? card.querySelector("h2")).focus();
}

// What follows when a form is done, besides loading the section anew.
const AFTER = {
  "security-begin": showKey,
  "security-first-code": showCodes,
  "security-new-codes": showCodes,
  "security-export": (data) => {
    saveData(`account-${me.profile.username}-${data.exportedAt.slice(0, 10)}`, data);
  },
  "security-delete-form": () => logOut("#goodbye", true),
  // The one before; if it stays, the list shows it.
  "security-link": () => call("DELETE", `auth/sessions/${session}`).catch(() => {}),
};

function done({ target: form, detail: { data } }) {
  const card = form.closest(".card"); // the form may go
  attempt(form, async () => {
    await AFTER[form.id]?.(data);
    await me.reload();
    await load();
    moveOn(card);
  });
}

// Codes that cannot be right any more: back to the form that begins.
const AGAIN = {
  "security-confirm-email": ["change-email", "error_email_again"],
  "security-first-code": ["begin", "error_set_up_again"],
};

async function failed(event) {
  const [id, key] = AGAIN[event.target.id] ?? [];
  if (id === "begin" && event.detail.reasons.code) event.detail.reasons.code = ["not_of_app"];
  if (!id || event.detail.code !== "invalid_token") return;
  event.preventDefault();
  event.target.reset();
  if (id === "begin") showStage("off");
  else await call("DELETE", "users/email").then(load).catch(() => {});
  part(id).closest("details").open = true;
  showProblem(part(id), { key });
  part(id).querySelector("input").focus();
}

section.addEventListener("done", done);
section.addEventListener("failed", failed);
part("delete-form").addEventListener("prepare", ({ detail: { body } }) => {
  const plain = (text) => text.trim().toLowerCase();
  if (plain(body.confirmation) !== plain(say("say_delete_word"))) return;
  body.confirmation = "DELETE_MY_ACCOUNT";
});
part("kept").addEventListener("submit", (event) => {
  event.preventDefault();
  event.target.reset();
  sayDone(event.target);
  moveOn(factor);
});
// The frame also resets all forms, before another user's turn: nothing may ask whether to stay.
part("kept").addEventListener("reset", () => {
  codes = [];
  part("codes").replaceChildren();
  showStage("on");
});
part("cancel").addEventListener("click", () => {
  showStage("off");
  moveOn(factor);
});
part("all").addEventListener("click", ({ target }) => {
  target.hidden = true;
  for (const row of part("sessions").rows) row.hidden = false;
  part("sessions").rows[5].querySelector("button").focus();
});
part("copy").addEventListener("click", copyCodes);
part("save").addEventListener("click", () => {
  save(`recovery-codes-${me.profile.username}.txt`, codesAsText(), "text/plain");
});
// The codes are shown once only.
addEventListener("beforeunload", (event) => stage() === "codes" && event.preventDefault());

export const sections = {
  security: (_, who) => {
    me = who;
    for (const place of section.querySelectorAll(".said")) place.textContent = "";
    return load().then(() => section.querySelector("#security-link:not([hidden]) [type=password]"));
  },
};
