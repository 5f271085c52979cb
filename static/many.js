// An act for those chosen in the list of people: one call for up to 1,000 of them, which the same
// call, turned round, takes back.

import { Problem, userId } from "./api.js";
import { attempt, explain, setBusy, showProblem } from "./forms.js";
import {
  AT_ONCE, SLIPS, callForMany, findAll, hasWayIn, listed, loadMemberships, partsOf, textOf,
} from "./lists.js";
import { chosen, countText, isAway, reload } from "./people.js";
import * as sheet from "./sheet.js";
import { byId, copy, fill, nameOf, say } from "./words.js";

const dialog = byId("many");
const form = dialog.querySelector("form");
const filter = byId("people-groupId");
const { fromId, groupId } = form.elements;
const news = byId("people-done");
let act = "";
let people = new Map(); // who is chosen, or was for what is undone, by their ids
let members = []; // their memberships: [{groupId, userId}]
let asked = new Set(); // ids that were sent
let refused = new Map(); // codes by ids
let queue = []; // the calls that are not answered yet
let turned = []; // the calls that take back what this act has changed, the latest first
let latest = { back: [] }; // the latest act: what takes it `back`, `people`, `isLoss`
let slips = new Set(); // who has a slip in the sheet

const change = (group, body) => ["POST", `groups/${group}/members`, body];
const activate = (ids, isActive) => ["PATCH", "users", { ids, isActive }];
// For each act: its calls.
const ACTS = {
  join: (ids) => [change(groupId.value, { add: ids })],
  leave: (ids) => [change(fromId.value, { remove: ids })],
  move: (ids) => [...ACTS.join(ids), ...ACTS.leave(ids)],
  activate: (ids) => [activate(ids, true)],
  deactivate: (ids) => [activate(ids, false)],
  slip: (ids) => [["POST", "users/access-links", { ids }]],
};
const idsOf = ({ ids = [], add = [], remove = [] }) => [...ids, ...add, ...remove];

const isMember = ({ id }) => // before a group is named: all
  !fromId.value || members.some((each) => each.groupId === fromId.value && each.userId === id);
const isFor = {
  leave: isMember,
  move: isMember,
  activate: ({ isActive }) => !isActive,
  deactivate: ({ isActive }) => isActive,
  slip(user) {
    const { id, isActive, role } = user;
    const mayHave = role === "student" || (role !== "admin" && !hasWayIn(user));
    return isActive && !slips.has(id) && mayHave;
  },
  undo: ({ id }) => latest.back.some(([, , body]) => idsOf(body).includes(id)),
};
const concerned = () => [...people.values()].filter(isFor[act] ?? (() => true));

function showWhom() {
  const users = concerned();
  const learners = users.filter(({ role }) => role === "student");
  const staff = users.filter(({ role }) => role !== "student");
  const count = act === "slip" && users.filter(hasWayIn).length;
  const known = count && say("say_people_known", { count });
  const named = (key, some) => (some.length ? say(key, { names: listed(some) }) : "");
  const here = named("say_people_staff", staff.filter((user) => !isAway(user)));
  const away = named("say_people_staff_away", staff.filter(isAway));
  const whom = countText("say_people_learners", learners, known);
  fill(dialog, { whom, staff: [here, away].join(" ").trim() });
  for (const option of groupId.options) option.disabled = option.value === (fromId.value || "none");
  if (groupId.selectedOptions[0]?.disabled) groupId.value = "";
  form.querySelector("button").disabled = !users.length;
}
fromId.addEventListener("change", showWhom);

// Lists the groups that those chosen are in, of which they can be taken out.
async function listFrom() {
  const mine = people;
  let found = [];
  setBusy(form, true);
  const isListed = await attempt(form, async () => (found = await loadMemberships()));
  if (mine !== people) return; // another act has begun
  setBusy(form, false);
  if (!isListed) return;
  members = found.filter(({ userId: id }) => people.has(id));
  for (const { text, value } of filter.options) {
    const count = members.filter((each) => each.groupId === value).length;
    if (count) fromId.add(new Option(`${text} (${count})`, value, false, value === filter.value));
  }
  if (fromId.length === 2) fromId.selectedIndex = 1;
  fromId.disabled = false;
  showWhom();
}

/** Ask whether the act of a button of the list is meant; undo at once. */
export function ask(opener) {
  if (opener === byId("people-pick")) return byId("pick").showModal();
  if (form.ariaBusy === "true" && asked.size) return; // the last call of an act that was stopped
  act = opener.value;
  people = act === "undo" ? latest.people : new Map(chosen);
  [asked, refused, turned] = [new Set(), new Map(), []];
  if (!sheet.hasCodes()) slips = new Set();
  members = [];
  const [isFrom, isTo] = [["leave", "move"], ["join", "move"]].map((acts) => acts.includes(act));
  const text = opener.textContent;
  fromId.replaceChildren(new Option("–", ""));
  groupId.replaceChildren(new Option("–", ""), ...[...filter.cloneNode(true).options].slice(1));
  fromId.disabled = true; // until it is listed
  groupId.disabled = !isTo;
  fill(dialog, { text, isSlip: act === "slip", isDeactivation: act === "deactivate", isFrom, isTo });
  const button = form.querySelector("button");
  button.textContent = text;
  button.className = act === "deactivate" ? "danger" : "";
  showProblem(form, null);
  setBusy(form, false);
  showWhom();
  dialog.showModal();
  if (isFrom) listFrom();
  if (act === "undo") form.requestSubmit();
}

// Sends the calls, until the dialog is closed.
async function send() {
  while (queue.length && dialog.open) {
    const [method, path, body] = queue[0];
    const answer = await callForMany(method, path, body).catch((problem) => {
      if (problem.code !== "not_found" || act !== "undo") throw problem;
      return { refused: body.add.map((id) => ({ id, code: "group_gone" })) };
    });
    queue.shift();
    const { added = [], removed = [], changed = [], links = [] } = answer;
    const isMoved = added.length + removed.length > 0;
    if (isMoved) turned.unshift([method, path, { add: removed, remove: added }]);
    if (changed.length) turned.unshift(activate(changed, !body.isActive));
    for (const { userId: id, ...made } of links) {
      const group = filter.value && filter.selectedOptions[0].text;
      sheet.add({ ...made, user: people.get(id), group });
      slips.add(id);
    }
    for (const { id, code } of answer.refused) refused.set(id, code);
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  if (!fromId.closest("[data-if]").hidden && fromId.disabled) return listFrom();
  if (act === "slip") sheet.place(byId("people-form"));
  const ids = concerned().map(({ id }) => id);
  for (const id of ids) asked.add(id);
  if (act !== "undo") refused.clear(); // they are asked for again
  const inParts = () => partsOf(ids, act === "slip" ? SLIPS : AT_ONCE).flatMap(ACTS[act]);
  queue = act === "undo" ? latest.back : inParts();
  showProblem(form, null);
  setBusy(form, true);
  await attempt(form, send);
  setBusy(form, false);
  if (!dialog.open) finish();
  else if (!queue.length) dialog.close();
});
dialog.addEventListener("close", () => asked.size && form.ariaBusy !== "true" && finish());

// Says what has become of all; who was refused stays chosen.
async function finish() {
  const isUndo = act === "undo";
  if (!isUndo) latest = { back: turned, people, isLoss: act === "deactivate" };
  const open = new Set(queue.flatMap(([, , body]) => idsOf(body)));
  const isDone = (id) => !refused.has(id) && !open.has(id);
  if (!isUndo) for (const id of people.keys()) if (isDone(id)) chosen.delete(id);
  const done = [...asked].filter(isDone).length;
  const counts = { count: asked.size, done };
  const whom = say(done < asked.size ? "say_people_some" : "say_people_all", counts);
  const [from, to] = [fromId, groupId].map(({ value }) => textOf(filter, value));
  const failed = [...refused].map(([id, code]) =>
    copy("learning-line", { name: nameOf(people.get(id)), facts: explain({ code }) }),
  );
  const texts = [
    say(`say_people_done_${act}`, { whom, from, to }),
    done && latest.isLoss ? say("say_people_lost") : "",
    form.querySelector("[role=alert]").textContent,
  ];
  await attempt(byId("people-form"), reload);
  news.textContent = texts.join(" ");
  fill(byId("people-acts"), { canUndo: latest.back.length > 0 });
  byId("people-failures").replaceChildren(...failed);
  (act === "slip" && sheet.hasCodes() ? sheet.heading : news).focus();
}

// The frame empties all forms before another user's turn.
form.addEventListener("reset", () => (form.ariaBusy = "false"));
addEventListener("beforeunload", (event) => form.ariaBusy === "true" && event.preventDefault());

// Chooses by a pasted list: a name, number or address in each line.
const pick = byId("pick").querySelector("form");
pick.addEventListener("prepare", ({ detail }) => (detail.send = chooseBy));
async function chooseBy({ names }) {
  const texts = names.split(/[\n,;\t]/).map((text) => text.trim());
  const wanted = [...new Set(texts)].filter(Boolean);
  const found = await findAll(wanted);
  const fits = (text) => ({ username, email, externalId }) =>
    [username.toLowerCase(), email].includes(text.toLowerCase()) || externalId === text;
  const unclear = wanted.filter((text) => {
    const [user, other] = found.filter(fits(text));
    if (user && !other && user.id !== userId()) chosen.set(user.id, user);
    return !user || other || user.id === userId();
  });
  pick.elements.names.value = unclear.join("\n");
  await reload();
  if (unclear.length) throw new Problem("fits_nobody", { reasons: { names: ["nobody"] } });
}
