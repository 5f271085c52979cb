// The section "security": address, username, password, second factor, devices, the user's own data.

import { call, forget } from "./api.js";
import { askForCode, showProblem } from "./forms.js";
import { copy, date, fill, moment, pictureOf, say, when } from "./words.js";

const byId = (id) => document.getElementById(`security-${id}`);
const section = document.getElementById("security");
const factor = byId("factor");
// The first sign that a user agent shows counts: most of them also name others.
const BROWSERS = [
  ...[["Edge", /Edg/], ["Opera", /OPR\//], ["Samsung Internet", /SamsungBrowser/]],
  ...[["Firefox", /Firefox|FxiOS/], ["Chrome", /Chrome|CriOS/], ["Safari", /Safari/]],
];
const SYSTEMS = [
  ...[["iPhone", /iPhone/], ["iPad", /iPad/], ["Android", /Android/], ["Windows", /Windows/]],
  ...[["ChromeOS", /CrOS/], ["macOS", /Mac OS/], ["Linux", /Linux/]],
];
let me;
let codes = [];

function device(userAgent) {
  const find = (known) => known.find(([, sign]) => sign.test(userAgent))?.[0];
  const [browser, system] = [find(BROWSERS), find(SYSTEMS)];
  if (browser && system) return say("say_device", { browser, system });
  return userAgent || say("say_unknown_device");
}

function row(session) {
  const used = session.current ? 0 : Math.min(0, Date.parse(session.lastUsedAt) - Date.now());
  const values = { device: device(session.userAgent), used: when(used / 1000) };
  const row = copy("security-session", { ...session, ...values });
  const form = row.querySelector("form");
  form.dataset.sessionId = session.id;
  form.querySelector("button").ariaLabel = say("say_sign_out_device", values);
  return row;
}

// What the second factor shows: "off"; the new "key", until its first code; "codes", until they are
// kept; "on".
const stage = () => factor.querySelector("[data-stage]:not([hidden])").dataset.stage;
function turn(to) {
  for (const part of factor.querySelectorAll("[data-stage]")) {
    part.hidden = part.dataset.stage !== to;
  }
  for (const card of section.querySelectorAll(".card")) {
    card.classList.toggle("no-print", to === "codes" && card !== factor);
  }
}

/** Loads what the section shows; what is typed, and codes that are not kept yet, stay. */
async function load() {
  const [email, state, { sessions }] = await Promise.all([
    call("GET", "users/email"),
    call("GET", "auth/second-factor"),
    call("GET", "auth/sessions"),
  ]);
  fill(section, { account: me.profile });
  const until = email.pendingUntil && moment(email.pendingUntil);
  fill(byId("email"), {
    ...email,
    canVerify: !email.emailVerified && !email.email.endsWith(".invalid"), // no mail goes there
    pending: say("say_code_sent", { email: email.pendingEmail, until }),
  });
  fill(factor, {
    ...state,
    isMissing: state.required && !state.enabled,
    since: state.enabled ? say("say_on_since", { date: date(state.since) }) : "",
    left: say("say_codes_left", { count: state.recoveryCodesLeft }),
  });
  if (["off", "on"].includes(stage())) turn(state.enabled ? "on" : "off");
  for (const form of section.querySelectorAll("form")) askForCode(form, state.enabled);
  byId("sessions").replaceChildren(...sessions.map(row));
  byId("others").hidden = sessions.length < 2;
}

function showKey({ secret, uri, qrCode }) {
  const key = secret.match(/.{1,4}/g).join(" ");
  fill(factor, { key, uri, picture: pictureOf(qrCode) });
  turn("key");
}

function showCodes({ recoveryCodes }) {
  byId("kept").reset();
  fill(factor, { codesOf: say("say_codes_of", me.profile) });
  codes = recoveryCodes;
  byId("codes").replaceChildren(...codes.map((code) => copy("security-code", { code })));
  byId("copied").textContent = "";
  turn("codes");
}

/** Offer a text for saving as a file. */
function save(name, text, type = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

const codesAsText = () => `${say("say_codes_of", me.profile)}\n\n${codes.join("\n")}\n`;

async function copyCodes() {
  let said = "say_copied";
  try {
    await navigator.clipboard.writeText(codesAsText());
  } catch {
    said = "say_not_copied"; // without https, or the user does not want it
  }
  byId("copied").textContent = say(said);
}

/** Says what a form has done, in its card, and moves the focus there if its place is gone. */
function conclude(form, card) {
  const { says } = form.dataset;
  card.querySelector(".said").textContent = says ? say(says) : "";
  if (card.contains(document.activeElement) && document.activeElement.offsetParent) return;
  const next = [...card.querySelectorAll("[data-next]")].find((each) => each.offsetParent);
  (next ?? card.querySelector("h2")).focus();
}

// What follows when a form is done, besides loading the section anew.
const AFTER = {
  "security-begin": showKey,
  "security-first-code": showCodes,
  "security-new-codes": showCodes,
  "security-export": (data) => {
    const name = `account-${me.profile.username}-${data.exportedAt.slice(0, 10)}.json`;
    save(name, JSON.stringify(data, null, 2));
  },
  "security-delete-form": () => forget("#goodbye"),
};

async function done({ target: form, detail: { data } }) {
  const card = form.closest(".card");
  try {
    await AFTER[form.id]?.(data);
    await Promise.all([me.reload(), load()]);
    conclude(form, card);
  } catch (problem) {
    if (!problem.code) throw problem;
    showProblem(form, problem);
  }
}

// Codes that cannot be right any more: back to the form that begins.
const AGAIN = {
  "security-confirm-email": ["change-email", "error_email_again"],
  "security-first-code": ["begin", "error_set_up_again"],
};

async function failed(event) {
  const [id, key] = AGAIN[event.target.id] ?? [];
  if (!id || event.detail.code !== "invalid_token") return;
  event.preventDefault();
  event.target.reset();
  if (id === "begin") turn("off");
  else await call("DELETE", "users/email").then(load).catch(() => {});
  byId(id).closest("details").open = true;
  showProblem(byId(id), { key });
  byId(id).querySelector("input").focus();
}

section.addEventListener("done", done);
section.addEventListener("failed", failed);
byId("delete-form").addEventListener("prepare", ({ detail: { body } }) => {
  const plain = (text) => text.trim().toLowerCase();
  if (plain(body.confirmation) !== plain(say("say_delete_word"))) return;
  body.confirmation = "DELETE_MY_ACCOUNT";
});
byId("kept").addEventListener("submit", (event) => {
  event.preventDefault();
  event.target.reset();
  conclude(event.target, factor);
});
// The frame also resets all forms, before another user's turn: nothing may ask whether to stay.
byId("kept").addEventListener("reset", () => {
  codes = [];
  byId("codes").replaceChildren();
  turn("on");
});
byId("cancel").addEventListener("click", () => {
  turn("off");
  conclude(byId("begin"), factor);
});
byId("copy").addEventListener("click", copyCodes);
byId("save").addEventListener("click", () => {
  save(`recovery-codes-${me.profile.username}.txt`, codesAsText(), "text/plain");
});
byId("print").addEventListener("click", () => print());
// The codes are shown once only.
addEventListener("beforeunload", (event) => stage() === "codes" && event.preventDefault());

export const sections = {
  security: (_, who) => {
    me = who;
    for (const place of section.querySelectorAll(".said")) place.textContent = "";
    return load();
  },
};
