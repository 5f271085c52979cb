// An act for those chosen in the list of people, one after the other; undo.js takes it back.
// Closing the dialog stops it.

import { Problem, call, userId } from "./api.js";
import { explain, setBusy, showProblem } from "./forms.js";
import { hasWayIn, loadAll } from "./lists.js";
import { chosen, countText, reload } from "./people.js";
import { attempt, run } from "./run.js";
import * as sheet from "./sheet.js";
import { begin, change, done, takeBack } from "./undo.js";
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
let act = "";
let people = []; // those whom it is for
let left = new Set(); // those of them for whom it is not done
let groups = new Map(); // of people who leave one, by their ids
let ending = null; // what a dialog that was closed still waits for
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
  for (const [there, back] of ACTS[act]?.(user) ?? []) await change(user, there, back);
  left.delete(user);
}

const isFor = {
  slip(user) {
    const { id, isActive, role } = user;
    return isActive && !slips.has(id) && role !== "admin" && (role === "student" || !hasWayIn(user));
  },
  activate: ({ isActive }) => !isActive,
  deactivate: ({ isActive }) => isActive,
};

const isListed = () => !["leave", "move"].includes(act) || !fromId.disabled;

// Runs something for each of these in the open dialog, whose end stops it.
function runHere(items, work, more) {
  const stop = new AbortController();
  dialog.addEventListener("close", () => stop.abort(), { once: true });
  return run(form, items, work, { signal: stop.signal, ...more });
}

// Lists the groups of those chosen, of which they can be taken out.
async function listFrom() {
  const open = people.filter(({ id }) => !groups.has(id));
  const load = async ({ id }) => {
    const found = await call("GET", `users/${id}/account`).catch((problem) => {
      if (problem.code !== "user_not_found") throw problem; // of this one, the act will say so
    });
    groups.set(id, found?.groups ?? []);
  };
  const isOver = await runHere(open, load, { all: people.length, atOnce: AT_ONCE });
  if (!isOver || groups.size < people.length) return;
  const all = [...groups.values()].flat().sort((a, b) => a.name.localeCompare(b.name));
  const names = new Map(all.map(({ id, name }) => [id, name]));
  const count = (id) => all.filter((each) => each.id === id).length;
  const option = ([id, name]) =>
    new Option(`${name} (${count(id)})`, id, false, id === filter.value);
  const only = new Option(say("say_people_only_group"), "only");
  fromId.replaceChildren(...(act === "move" ? [only] : [new Option()]), ...[...names].map(option));
  if (act === "leave" && names.size === 1) fromId.selectedIndex = 1;
  fromId.disabled = false;
}

/** Ask whether the act of a button of the list is meant. */
export async function ask(opener) {
  if (opener === pasting) return byId("pick").showModal();
  await ending?.catch(() => {});
  if (dialog.open) return;
  act = opener.value;
  begin();
  groups = new Map();
  if (!sheet.hasCodes()) slips = new Set();
  people = [...(act === "undo" ? done.keys() : chosen.values())].filter(isFor[act] ?? (() => true));
  left = new Set(people);
  const [isFrom, isTo] = [["leave", "move"], ["join", "move"]].map((acts) => acts.includes(act));
  const [isSlip, isDeactivation] = [act === "slip", act === "deactivate"];
  const known = isSlip && people.filter(hasWayIn).length;
  const text = opener.textContent;
  const whom = countText(people, known && say("say_people_known", { count: known }));
  groupId.replaceChildren(new Option(), ...[...filter.cloneNode(true).options].slice(1));
  fromId.disabled = true; // until it is listed
  groupId.disabled = !isTo;
  fill(dialog, { text, whom, isSlip, isDeactivation, isFrom, isTo });
  const button = form.querySelector("button");
  Object.assign(button, { textContent: text, disabled: !people.length });
  showProblem(form, null);
  dialog.onclose = null;
  dialog.showModal();
  if (act === "undo") goBack();
  else if (!isListed()) ending = listFrom();
}

// Runs something for each that is left, in the open dialog; says then what has become of all.
function runAll(work, text) {
  const failed = new Map();
  const refused = (user, problem) => {
    if (problem.code === "not_found" && act !== "undo") {
      left = new Set(people); // the group is gone, and nobody is in it any more
      throw problem;
    }
    failed.set(user, copy("learning-line", { name: nameOf(user), facts: explain(problem) }));
  };
  const over = runHere([...left], work, { refused, all: people.length });
  const finish = async () => {
    setBusy(byId("people-form"), true); // a call may be on its way
    await over;
    if (act === "undo") for (const user of failed.keys()) done.delete(user);
    await attempt(byId("people-form"), reload);
    const news = byId("people-chosen");
    const all = people.length;
    news.textContent = text({ done: all - left.size, all });
    undo.hidden = !done.size;
    byId("people-failures").replaceChildren(...failed.values());
    (act === "slip" && sheet.hasCodes() ? sheet.heading : news).focus();
  };
  dialog.onclose = () => (ending = finish());
  over.then((isOver) => isOver && dialog.close());
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  if (act === "undo") return goBack();
  if (!isListed()) return (ending = listFrom());
  if (act === "slip") sheet.place(byId("people-form"));
  runAll(doFor, (counts) => say("say_people_done", counts));
});

function goBack() {
  const isLost = [...done.values()].some(([{ back: [, , body] }]) => body?.isActive);
  const work = async (user) => {
    if (!(await takeBack(user))) people = people.filter((each) => each !== user);
    left.delete(user);
  };
  runAll(work, (counts) => {
    const text = say("say_people_undone", counts);
    return isLost && counts.done ? `${text} ${say("say_people_undone_lost")}` : text;
  });
}

// The frame empties all forms before another user's turn.
form.addEventListener("reset", () => (form.ariaBusy = "false"));
addEventListener("beforeunload", (event) => form.ariaBusy === "true" && event.preventDefault());

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
