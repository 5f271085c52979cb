// A class or another list: shows how its text is understood and what is wrong in it, and makes the
// accounts. The text is what is still to be done: a line leaves it when its account is made.

import { call, Problem } from "./api.js";
import { explain, explainReason, read, showProblem } from "./forms.js";
import { listGroups, newId } from "./lists.js";
import { bodyOf, COLUMNS, listOf, parse, textOf } from "./pasted-list.js";
import { attempt, run } from "./run.js";
import * as sheet from "./sheet.js";
import { copy, nameOf, number, say } from "./words.js";

const LARGEST_FILE = 1_000_000; // bytes
const byId = (id) => document.getElementById(id);
const [options, paste, make, preview] = ["options", "paste", "make", "lines"].map(byId);
const { list, file, lastFirst } = paste.elements;
const heading = preview.querySelector("h3");
const stop = byId("make-stop");
let lines = []; // without an account: the people of the list, each with its `mistake`
let sent = null; // {line, body} of the call without an answer: this account may be there already
let making = null; // what stops it, while accounts are made
let groups = new Map(); // {id, name, isNew, isTwice} by the names in the list

// Checking

const { elements } = byId("newcomer");
const labels = Object.fromEntries(
  COLUMNS.map((name) => [name, elements[name].labels[0].textContent]),
);
labels.group = options.elements.groupId.labels[0].textContent;
const mistakeOf = (reasons) =>
  Object.keys(labels)
    .filter((name) => reasons[name])
    .map((name) => [labels[name], explainReason(name, reasons[name][0])])
    .map(([column, mistake]) => say("say_newcomers_mistake", { column, mistake }))
    .join(" ");

// Selects a line of the text; what is wrong in it describes the field then.
function goTo({ number }) {
  const texts = list.value.split("\n").slice(0, number);
  const end = texts.join("\n").length;
  list.setAttribute("aria-describedby", `paste-list-hint paste-list-error line-${number}`);
  list.focus();
  list.setSelectionRange(end - texts.at(-1).length, end);
}

// Finds the group of each name: the one that is written so, else the one with other capitals.
async function findGroups(people) {
  const wanted = new Set(people.map(({ group }) => group).filter(Boolean));
  const known = wanted.size ? (await call("GET", "groups")).groups : [];
  const made = new Map(); // "5a" and "5A" are one new group
  groups = new Map();
  for (const name of wanted) {
    const key = name.toLowerCase();
    const same = known.filter((each) => each.name === name);
    const near = same.length ? same : known.filter((each) => each.name.toLowerCase() === key);
    const found = near[0] ?? made.get(key) ?? { id: newId(), name, isNew: true };
    made.set(key, found);
    groups.set(name, near.length > 1 ? { ...found, isTwice: true } : found);
  }
}

// Says of each group how many go into it.
function groupText() {
  const names = new Map();
  for (const { group } of lines) {
    const { name, isNew } = groups.get(group) ?? {};
    const text = isNew ? say("say_newcomers_new_group", { name }) : name;
    if (text) names.set(text, (names.get(text) ?? 0) + 1);
  }
  const counts = [...names].map(([text, count]) => `${text}: ${number(count)}`).join(", ");
  return counts && say("say_newcomers_groups", { groups: counts });
}

function rowOf(line) {
  const row = copy("newcomers-line", line);
  row.querySelector(".error").id = `line-${line.number}`;
  row.querySelector("button").addEventListener("click", () => goTo(line));
  return row;
}

// Shows the lines of the text, and goes to the first that is wrong; returns whether there is one.
function showLines(news = "", leftOut = "") {
  const open = lines.filter((line) => line !== sent?.line);
  const wrong = open.filter(({ mistake }) => mistake);
  const bare = open.filter(({ email }) => !email);
  const facts = Object.entries({ lines: open, wrong, bare, unsure: sent ? [sent] : [] });
  const texts = facts
    .filter(([, list]) => list.length)
    .map(([fact, { length }]) => say(`say_newcomers_${fact}`, { count: length }));
  byId("lines-summary").textContent = [news, ...texts, groupText(), leftOut].join(" ");
  preview.querySelector("tbody").replaceChildren(...open.map(rowOf));
  const table = preview.querySelector("table");
  table.hidden = !open.length;
  table.classList.toggle("grouped", groups.size > 0);
  make.hidden = !lines.length;
  make.querySelector("button").textContent = say("say_newcomers_make", { count: lines.length });
  preview.hidden = false;
  const reasons = { list: ["lines"] };
  showProblem(paste, wrong.length ? new Problem("invalid_request", { reasons }) : null, false);
  if (wrong.length) goTo(wrong[0]);
  return wrong.length > 0;
}

paste.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (making) return;
  const { people, leftOut, code } = parse(list.value, labels, lastFirst.checked);
  if (code) return showProblem(paste, new Problem(code));
  if (!(await attempt(paste, () => findGroups(sent ? [sent.line, ...people] : people)))) return;
  const isTwice = ({ group }) => groups.get(group)?.isTwice;
  for (const { reasons } of people.filter(isTwice)) reasons.group = ["twice_there"];
  const found = people.map((person) => ({ ...person, mistake: mistakeOf(person.reasons) }));
  lines = sent ? [sent.line, ...found] : found;
  showProblem(make, null);
  const columns = leftOut.join(", ");
  if (!showLines("", columns && say("say_newcomers_left_out", { columns }))) heading.focus();
});
// Nothing is made that the preview does not show.
list.addEventListener("input", () => (make.hidden = true));
lastFirst.addEventListener("change", () => preview.hidden || paste.requestSubmit());

async function readFile(chosen) {
  if (!chosen || making) return;
  if (chosen.size > LARGEST_FILE) return showProblem(paste, new Problem("too_large"));
  const text = await textOf(chosen);
  file.value = "";
  if (/^(PK\x03|ÐÏ\x11)/.test(text)) return showProblem(paste, new Problem("excel_file"));
  list.value = text;
  paste.requestSubmit();
}
file.addEventListener("change", () => readFile(file.files[0]));
paste.addEventListener("dragover", (event) => event.preventDefault());
paste.addEventListener("drop", (event) => {
  const [dropped] = event.dataTransfer.files;
  if (dropped) event.preventDefault(); // else a text, which goes into the field
  readFile(dropped);
});

// Making the accounts

/** Put somebody into a group, which is made first where it is new. */
export async function join({ id }, group) {
  if (group.isNew) await call("PUT", `groups/${group.id}`, { name: group.name });
  group.isNew = false;
  await call("PUT", `groups/${group.id}/members/${id}`);
}

async function makeLine(line, chosen) {
  const isAgain = sent?.line === line;
  sent = isAgain ? sent : { line, body: bodyOf(line, chosen) };
  let data = isAgain ? await findMade(sent.body) : null;
  try {
    data ??= await call("POST", "users", sent.body);
  } catch (problem) {
    if (problem.status && problem.status < 500) sent = null; // refused
    throw problem;
  }
  const { selectedOptions: [{ value: id, text: name }] } = options.elements.groupId;
  const group = groups.get(line.group) ?? (id ? { id, name } : null);
  if (group) await join(data.user, group);
  sent = null;
  lines = lines.filter((other) => other !== line);
  if (data.code) sheet.add({ ...data, group: group?.name });
}

// Returns what the lost answer of a call that made an account said, or would have said.
async function findMade({ username, email, deliver }) {
  const { users } = await call("GET", "users", { username });
  const named = (address) => address.toLowerCase().split("@")[0]; // domains are written in two ways
  // Who came by a provider has no password, but has signed in: it is somebody else.
  const isNew = ({ hasPassword, lastLogin }) => !hasPassword && !lastLogin;
  const user = users.find((each) => named(each.email) === named(email) && isNew(each));
  if (!user) return null;
  const link = deliver === "link";
  return { user, ...(link && (await call("POST", `users/${user.id}/access-link`, { deliver }))) };
}

/** Return {href, name} of the account that has the username or address that was refused, if any. */
export async function holderOf({ reasons }, body) {
  const taken = COLUMNS.find((name) => reasons[name]?.includes("taken"));
  const found = taken && (await call("GET", "users", { [taken]: body[taken] }).catch(() => null));
  const [user] = found?.users ?? [];
  return user && { href: `#people/${user.id}`, name: nameOf(user) };
}

async function refused(line, problem) {
  // Where the account is there and the group is not, the next lines would fare no better. The
  // preview says then that the group is a new one.
  if (problem.code === "not_found") await findGroups(lines).catch(() => {});
  if (![400, 409].includes(problem.status)) throw problem;
  const { username } = problem.reasons;
  const isBare = username && !line.email; // the address is made of the name
  line.mistake = mistakeOf(isBare ? { username } : problem.reasons) || explain(problem);
  line.holder = await holderOf(problem, bodyOf(line, read(options)));
}

make.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (making || showLines()) return;
  const [all, chosen] = [lines.length, read(options)];
  making = new AbortController();
  list.readOnly = true;
  stop.hidden = false;
  await run(make, lines, (line) => makeLine(line, chosen), { signal: making.signal, refused });
  making = null;
  list.readOnly = false;
  stop.hidden = true;
  const open = lines.filter((line) => line !== sent?.line);
  // With the usernames that were shown: what is made by now must not change them.
  list.value = listOf(open, labels);
  lastFirst.checked = false;
  const first = list.value.split("\n").length - open.length + 1; // after the headings, if any
  for (const [index, line] of open.entries()) line.number = index + first;
  if (groups.size) attempt(make, () => listGroups(options.elements.groupId));
  const made = all - lines.length;
  const isWrong = showLines(made ? say("say_newcomers_made", { made, all }) : "");
  const end = sheet.hasCodes() ? sheet.heading : heading;
  if (!isWrong) (lines.length ? make.querySelector("button") : end).focus();
});
stop.addEventListener("click", () => making.abort());

addEventListener("beforeunload", (event) => {
  if (making || sent || list.value) event.preventDefault();
});
// The frame empties all forms before another user's turn.
paste.addEventListener("reset", () => {
  making?.abort();
  making = sent = null;
  lines = [];
  preview.hidden = true;
});
