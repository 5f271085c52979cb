// An act for those chosen in the list of people, one after the other, and how it is taken back.
// Closing the dialog stops it. What has changed stands in `done`, until the page is left.

import { Problem, call, userId } from "./api.js";
import { explain, setBusy, showProblem } from "./forms.js";
import { hasWayIn, loadAll } from "./lists.js";
import { chosen, offScreen, reload } from "./people.js";
import { attempt, run } from "./run.js";
import * as sheet from "./sheet.js";
import { copy, fill, nameOf, say } from "./words.js";

const AT_ONCE = 6; // calls for the groups of those chosen: what a browser sends at once
const NAMES = 30; // of a pasted list, in one call
const byId = (id) => document.getElementById(id);
const dialog = byId("many");
const form = dialog.querySelector("form");
const filter = byId("people-groupId");
const { fromId, groupId } = form.elements;
const undo = byId("people-undo");
const pasting = byId("people-pick");
// What a history says of these acts, and of what somebody else does to the same.
const CHANGES = /^(group_|role_|account_(de)?activated)/;
let act = "";
let people = []; // those whom it is for
let left = new Set(); // those of them for whom it is not done
let groups = new Map(); // of people who leave one, by their ids
let done = []; // {user, back}: what takes back what an act has changed, latest first
let slips = new Set(); // who has a slip in the sheet

const member = (method, group, { id }) => [method, `groups/${group}/members/${id}`];
const active = ({ id }, isActive) => ["PATCH", `users/${id}`, { isActive }];
const enter = (user, group) => [member("PUT", group, user), member("DELETE", group, user)];
const exit = (user, group) => enter(user, group).reverse();

// The group that somebody leaves: the one that was named, or the only one.
function leftBy({ id }) {
  if (fromId.value !== "only") return fromId.value;
  const own = groups.get(id) ?? [];
  if (own.length > 1) throw new Problem("several_groups", { status: 409 });
  return own[0]?.id;
}

// For each act: pairs of a call and of that which takes it back.
const ACTS = {
  join: (user) => [enter(user, groupId.value)],
  leave: (user) => [exit(user, fromId.value)],
  move(user) {
    const from = leftBy(user);
    const isSame = from === groupId.value;
    return isSame ? [] : [enter(user, groupId.value), ...(from ? [exit(user, from)] : [])];
  },
  activate: (user) => [[active(user, true), active(user, false)]],
  deactivate: (user) => [[active(user, false), active(user, true)]],
};

async function doFor(user) {
  if (act === "slip") {
    const made = await call("POST", `users/${user.id}/access-link`, { deliver: "link" });
    sheet.add({ ...made, user, group: filter.value && filter.selectedOptions[0].text });
    slips.add(user.id);
  }
  for (const [[method, path, body], back] of ACTS[act]?.(user) ?? []) {
    const { changed } = await call(method, path, body);
    // An account does not say whether it was changed; what the list has shown does.
    if (!(changed ?? user.isActive !== body?.isActive)) continue;
    const known = done.find((each) => each.user === user);
    if (known) known.back.unshift(back);
    else done.push({ user, back: [back] });
    if (body) Object.assign(user, body);
  }
  left.delete(user);
}

// Returns whether an event is that of the call which this one takes back.
function isOurs({ type, byId, details }, [method, path, body]) {
  const told = { DELETE: "group_joined", PUT: "group_left" }[method];
  const state = body?.isActive ? "account_deactivated" : "account_activated";
  return byId === userId() && type === (told ?? state) && path.includes(details.group ?? "");
}

// Takes back what was done to somebody, unless somebody has changed the same since.
async function takeBack(entry) {
  const { user, back } = entry;
  const { events } = await call("GET", `users/${user.id}/activity`, { limit: 100 });
  const last = events.find(({ type }) => CHANGES.test(type));
  if (!last || !isOurs(last, back[0])) throw new Problem("changed_since", { status: 409 });
  for (const [method, path, body] of back) {
    await call(method, path, body);
    if (body) Object.assign(user, body);
  }
  left.delete(entry);
}

const isFor = {
  slip(user) {
    const { id, isActive, role } = user;
    return isActive && !slips.has(id) && role !== "admin" && (role === "student" || !hasWayIn(user));
  },
  activate: ({ isActive }) => !isActive,
  deactivate: ({ isActive }) => isActive,
};

// Lists the groups of those chosen, of which they can be taken out.
async function listFrom() {
  groups = new Map();
  const [waiting, names] = [[...people], new Map()];
  const next = async () => {
    for (let user = waiting.pop(); user; user = waiting.pop()) {
      const found = await call("GET", `users/${user.id}/account`);
      groups.set(user.id, found.groups);
      for (const { id, name } of found.groups) names.set(id, name);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  const isIn = (id) => (own) => own.some((each) => each.id === id);
  const count = (id) => [...groups.values()].filter(isIn(id)).length;
  const option = ([id, name]) =>
    new Option(`${name} (${count(id)})`, id, false, id === filter.value);
  const only = new Option(say("say_people_only_group"), "only");
  fromId.replaceChildren(...(act === "move" ? [only] : [new Option()]), ...[...names].map(option));
  if (act === "leave" && names.size === 1) fromId.selectedIndex = 1;
}

/** Ask whether the act of a button of the list is meant. */
export async function ask(opener) {
  if (opener === pasting) return byId("pick").showModal();
  act = opener.value;
  if (!sheet.hasCodes()) slips = new Set();
  people = [...chosen.values()].filter(isFor[act] ?? (() => true));
  if (act === "undo") people = done.map(({ user }) => user);
  left = new Set(act === "undo" ? done : people);
  const [isFrom, isTo] = [["leave", "move"], ["join", "move"]].map((acts) => acts.includes(act));
  const away = people.filter(({ id }) => offScreen(id)).length;
  const known = people.filter(hasWayIn).length;
  const sentences = [
    say("say_people_chosen", { count: people.length }),
    away ? say("say_people_away", { count: away }) : "",
    act === "slip" && known ? say("say_people_known", { count: known }) : "",
  ];
  const [text, whom] = [opener.textContent, sentences.filter(Boolean).join(" · ")];
  const [isSlip, isDeactivation] = [act === "slip", act === "deactivate"];
  groupId.replaceChildren(new Option(), ...[...filter.cloneNode(true).options].slice(1));
  for (const [select, isOn] of [[fromId, isFrom], [groupId, isTo]]) select.disabled = !isOn;
  fill(dialog, { text, whom, isSlip, isDeactivation, isFrom, isTo });
  const button = form.querySelector("button");
  Object.assign(button, { textContent: text, disabled: !people.length });
  showProblem(form, null);
  dialog.onclose = null;
  dialog.showModal();
  if (act === "undo") return goBack();
  if (!isFrom || !people.length) return;
  setBusy(form, true, say("say_wait"));
  await attempt(form, listFrom);
  setBusy(form, false);
}

// Runs something for each that is left, in the open dialog; says then what has become of all.
function runAll(all, work, text) {
  const [stop, failed] = [new AbortController(), []];
  const refused = (item, problem) => {
    const name = nameOf(item.user ?? item);
    failed.push(copy("learning-line", { name, facts: explain(problem) }));
    item.isRefused = true;
  };
  const over = run(form, [...left], work, { signal: stop.signal, refused, all });
  dialog.onclose = async () => {
    stop.abort();
    await over;
    if (act === "undo") done = [...left].filter(({ isRefused }) => !isRefused);
    await reload();
    const news = byId("people-chosen");
    news.textContent = text(all - left.size);
    undo.hidden = !done.length;
    byId("people-failures").replaceChildren(...failed);
    (act === "slip" && sheet.hasCodes() ? sheet.heading : news).focus();
  };
  over.then((isOver) => isOver && dialog.close());
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  if (act === "undo") return goBack();
  const all = people.length;
  if (left.size === all && act !== "slip") done = [];
  if (act === "slip") sheet.place(byId("people-form"));
  runAll(all, doFor, (some) => say("say_people_done", { done: some, all }));
});

function goBack() {
  const all = done.length;
  const isLost = done.some(({ back }) => back[0][2]?.isActive);
  runAll(all, takeBack, (some) => {
    const text = say("say_people_undone", { done: some, all });
    return isLost && some ? `${text} ${say("say_people_undone_lost")}` : text;
  });
}

// Chooses by a pasted list: a name, number or address in each line.
const pick = byId("pick").querySelector("form");
pick.addEventListener("submit", (event) => {
  event.preventDefault();
  const { names } = pick.elements;
  const texts = names.value.split(/[\n,;\t]/).map((text) => text.trim());
  const wanted = [...new Set(texts)].filter(Boolean);
  const found = [];
  setBusy(pick, true, say("say_wait"));
  attempt(pick, async () => {
    for (let at = 0; at < wanted.length; at += NAMES) {
      const anyOf = wanted.slice(at, at + NAMES).join(",");
      found.push(...(await loadAll({ anyOf }, 2 * NAMES)));
    }
    const fits = (text) => ({ username, email, externalId }) =>
      [username.toLowerCase(), email].includes(text.toLowerCase()) || externalId === text;
    const refused = wanted.filter((text) => {
      const [user, other] = found.filter(fits(text));
      if (user && !other && user.id !== userId()) chosen.set(user.id, user);
      return !user || other || user.id === userId();
    });
    names.value = refused.join("\n");
    await reload();
    if (refused.length) throw new Problem("fits_nobody", { reasons: { names: ["nobody"] } });
    byId("pick").close();
    byId("people-chosen").focus();
  }).finally(() => setBusy(pick, false));
});
