// A class or another list: shows how its text is understood and what is wrong in it, and makes the
// accounts. The text is what is still to be done: a line leaves it when its account is made.

import { call, Problem } from "./api.js";
import { attempt, explain, explainReason, read, setBusy, showProblem } from "./forms.js";
import { callForMany, listGroups, newId } from "./lists.js";
import { bodyOf, COLUMNS, listOf, parse, textOf } from "./pasted-list.js";
import * as sheet from "./sheet.js";
import { byId, copy, nameOf, number, say } from "./words.js";

const LARGEST_FILE = 1_000_000; // bytes
const AT_ONCE = 1000; // accounts that one call takes back
const [options, paste, make, preview] = ["options", "paste", "make", "lines"].map(byId);
const { list, file, lastFirst } = paste.elements;
const heading = preview.querySelector("h3");
const takeBack = byId("take-back");
let lines = []; // without an account: the people of the list, each with its `mistake`
let sent = null; // {line, body} of the call without an answer: this account may be there already
let isMaking = false;
let isOver = true; // with all of a list: what is made next is of another one
const made = new Map(); // of the list, by their ids: {user, slip}
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
  if (isMaking) return;
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
  if (!chosen || isMaking) return;
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
  const { user } = data;
  made.set(user.id, { user });
  if (group) await join(user, group);
  sent = null;
  lines = lines.filter((other) => other !== line);
  if (data.code) made.set(user.id, { user, slip: sheet.add({ ...data, group: group?.name }) });
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
  if (problem.code === "not_found") {
    problem.key = "error_group_gone";
    await findGroups(lines).catch(() => {});
  }
  if (![400, 409].includes(problem.status)) throw problem;
  const { username } = problem.reasons;
  const isBare = username && !line.email; // the address is made of the name
  line.mistake = mistakeOf(isBare ? { username } : problem.reasons) || explain(problem);
  line.holder = await holderOf(problem, bodyOf(line, read(options)));
}

make.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (isMaking || showLines()) return;
  const [all, chosen] = [lines.length, read(options)];
  if (isOver) made.clear();
  isMaking = list.readOnly = takeBack.hidden = true;
  showProblem(make, null);
  setBusy(make, true);
  await attempt(make, async () => {
    for (const [done, line] of lines.entries()) {
      make.querySelector("[role=status]").textContent = say("say_people_of", { done, all });
      await makeLine(line, chosen).catch((problem) => refused(line, problem));
    }
  });
  setBusy(make, false);
  isMaking = list.readOnly = false;
  isOver = !lines.length;
  takeBack.hidden = !made.size;
  byId("kept").replaceChildren();
  const open = lines.filter((line) => line !== sent?.line);
  // With the usernames that were shown: what is made by now must not change them.
  list.value = listOf(open, labels);
  lastFirst.checked = false;
  const first = list.value.split("\n").length - open.length + 1; // after the headings, if any
  for (const [index, line] of open.entries()) line.number = index + first;
  if (groups.size) attempt(make, () => listGroups(options.elements.groupId));
  const done = all - lines.length;
  const isWrong = showLines(done ? say("say_newcomers_made", { made: done, all }) : "");
  const end = sheet.hasCodes() ? sheet.heading : heading;
  if (!isWrong) (lines.length ? make.querySelector("button") : end).focus();
});

// Taking back who was made

takeBack.addEventListener("prepare", ({ detail }) => {
  detail.body = { ids: [...made.keys()].slice(0, AT_ONCE) };
  detail.send = (body) => callForMany("POST", "users/removals", body);
});
takeBack.addEventListener("done", (event) => {
  event.preventDefault();
  const { removed, refused: others } = event.detail.data;
  const kept = others.map(({ id, code }) =>
    copy("learning-line", { name: nameOf(made.get(id).user), facts: explain({ code }) }),
  );
  sheet.remove(removed.map((id) => made.get(id).slip).filter(Boolean));
  for (const id of [...removed, ...others.map((each) => each.id)]) made.delete(id);
  takeBack.hidden = !made.size;
  byId("kept").replaceChildren(...kept);
  const act = takeBack.querySelector("button").textContent;
  const counts = { act, done: removed.length, all: removed.length + others.length };
  byId("lines-summary").textContent = say("say_people_done", counts);
  heading.focus();
});

addEventListener("beforeunload", (event) => {
  if (isMaking || sent || list.value) event.preventDefault();
});
// The frame empties all forms before another user's turn.
paste.addEventListener("reset", () => {
  isMaking = false;
  sent = null;
  lines = [];
  preview.hidden = true;
});
