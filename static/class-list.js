// A class or another list: shows what the service would make of it, and has that done.

import { Problem } from "./api.js";
import { explain, explainReason, read, showProblem } from "./forms.js";
import {
  AT_ONCE, SLIPS, callForMany, findAll, hasWayIn, labelOf, listGroups, partsOf,
} from "./lists.js";
import * as sheet from "./sheet.js";
import { addressOf, byId, copy, language, number, say } from "./words.js";

const [options, paste, make, preview] = ["options", "paste", "make", "lines"].map(byId);
const { list, file, lastFirst } = paste.elements;
const [heading, table] = ["h3", "table"].map((name) => preview.querySelector(name));
const [button, takeBack] = [make.querySelector("button"), byId("take-back")];
let checked = null; // what Make sends: {body, query, deliver, fresh}
let shown = []; // the lines of the latest answer, each with the names of its `group`
const made = new Map(); // by the ids of whom this page has made: their slips, if any

// What the service says

const word = (key, values) => say(`say_list_${key}`, values);
const fact = (name, value) => word("fact", { name, value });
const group = options.elements.groupId;
const OURS = { line: list, group, groups: group };
const nameOfField = (name) => OURS[name]?.labels[0].textContent ?? labelOf(name);
const named = (fields) => fields.map(nameOfField).join(", ");
const is = (...kinds) => ({ status }) => kinds.includes(status);
const isRefused = is("refused");
const isBare = (line) => addressOf(line).noMailbox;
const KINDS = {
  new: is("new"), bare: (line) => line.status === "new" && isBare(line),
  changed: is("changed"), same: is("same"), refused: isRefused,
  nowhere: (line) => !isRefused(line) && line.group === "", // where the list has groups
};

function resultOf({ status, code, reasons, changes, differs }) {
  const mistakes = Object.entries(reasons ?? {}).map(([name, words]) =>
    fact(nameOfField(name), explainReason(name, [words].flat()[0])),
  );
  if (status === "refused") return mistakes.join(" ") || explain({ code });
  const text = changes.length ? fact(word(status), named(changes)) : word(status);
  return differs.length ? `${text} · ${fact(word("differs"), named(differs))}` : text;
}

function groupText({ name, isNew, isRenamed, people }) {
  const key = isNew ? "new_group" : isRenamed && "renamed_group";
  return fact(key ? word(key, { name }) : name, number(people));
}

// Selects a line of the text; what is wrong in it describes the field then.
function goTo(line) {
  const end = list.value.split("\n").slice(0, line).join("\n").length;
  list.setAttribute("aria-describedby", `paste-list-hint paste-list-error line-${line}`);
  list.focus();
  list.setSelectionRange(list.value.lastIndexOf("\n", end - 1) + 1, end);
}

function rowOf(line) {
  const row = copy("newcomers-line", {
    ...line,
    email: line.email && addressOf(line).email,
    result: resultOf(line),
    holder: line.holderId && { href: `#people/${line.holderId}`, name: word("holder") },
  });
  const result = row.querySelector("td span");
  result.id = `line-${line.line}`;
  result.classList.toggle("error", isRefused(line));
  const number = row.querySelector("button");
  number.addEventListener("click", () => goTo(line.line));
  if (!list.value) number.replaceWith(number.textContent); // a file
  return row;
}

const madeHere = () => shown.map(({ userId }) => userId).filter((id) => made.has(id));

const count = (kind) => shown.filter(KINDS[kind]).length;

// Shows an answer: first who is refused.
function show({ lines, groups, leftOut }, news = "") {
  const names = new Map(groups.map(({ id, name }) => [id, name]));
  const groupOf = (line) => line.groups.map((id) => names.get(id)).join(", ");
  shown = lines.map((line) => ({ ...line, group: groups.length ? groupOf(line) : undefined }));
  const facts = Object.keys(KINDS).filter(count).map((kind) => fact(word(kind), number(count(kind))));
  if (groups.length) facts.push(fact(word("groups"), groups.map(groupText).join(", ")));
  if (leftOut.length) facts.push(fact(word("left_out"), leftOut.join(", ")));
  byId("lines-summary").textContent = `${news} ${facts.join(" · ")}`.trim();
  const ordered = [...shown].sort((a, b) => isRefused(b) - isRefused(a));
  table.tBodies[0].replaceChildren(...ordered.map(rowOf));
  takeBack.hidden = !madeHere().length;
  preview.hidden = false;
  heading.focus();
}

// Checking

// What an answer leaves behind: the names of errors that say so.
const UNREAD = { 400: "no_list", 404: "group_gone" };
const ENDS = { ...UNREAD };
for (const status of [0, 502, 503, 504]) ENDS[status] = "list_broke_off";

function send({ body, query }, apply) {
  const path = `users/lists?${new URLSearchParams([...query, ["apply", apply]])}`;
  return callForMany("POST", path, body, apply ? ENDS : UNREAD);
}

async function check() {
  const [chosen] = file.files;
  const { deliver, ...others } = read(options);
  const asked = { ...others, deliver: deliver === "mail" && deliver, lastFirst: lastFirst.checked };
  const query = Object.entries(asked).filter(([, value]) => value);
  // A browser gives up a file that has changed since it was chosen.
  const lost = new Problem("invalid_request", { reasons: { file: ["required"] } });
  const bytes = await chosen?.arrayBuffer().catch(() => Promise.reject(lost));
  const body = new Blob([bytes ?? list.value], { type: "text/csv" });
  const mine = (checked = { body, query, deliver });
  const answer = await send(mine, false);
  show(answer);
  mine.fresh = new Map(shown.filter(is("new")).map(({ line, username }) => [line, username]));
  const acts = ["new", "changed", "refused"].filter(count);
  const text = acts.map((kind) => word(`do_${kind}`, { count: count(kind) })).join(", ");
  button.textContent = text.charAt(0).toLocaleUpperCase(language) + text.slice(1);
  make.hidden = checked !== mine || !shown.some(is("new", "changed"));
}
paste.addEventListener("prepare", ({ detail }) => {
  detail.send = check;
  showProblem(make, null);
  make.hidden = true;
});
// Nothing is made that was not checked.
for (const form of [options, paste]) {
  form.addEventListener("input", () => {
    checked = null;
    make.hidden = true;
  });
}

// Either the text or the file.
list.addEventListener("input", () => (file.value = ""));
file.addEventListener("change", () => {
  if (!file.files.length) return;
  list.value = "";
  paste.requestSubmit();
});
paste.addEventListener("dragover", (event) => event.preventDefault());
paste.addEventListener("drop", (event) => {
  const { files } = event.dataTransfer;
  if (!files.length) return; // a text, which goes into the field
  event.preventDefault();
  file.files = files;
  file.dispatchEvent(new Event("change"));
});

// Making the accounts

// After a lost answer, a line of names alone is refused: it may mean somebody else. It is ours if the
// check found the username free, and nobody can have used the account.
async function recognise(lines, fresh) {
  const lost = lines.filter(({ code, line }) => code === "username_taken" && fresh.has(line));
  const users = await findAll(lost.map(({ line }) => fresh.get(line)));
  for (const line of lost) {
    const user = users.find(({ username }) => username === fresh.get(line.line));
    const isUnused = user && isBare(user) && !hasWayIn(user) && !user.lastLogin;
    if (isUnused) Object.assign(line, { ...user, status: "same", userId: user.id, holderId: null });
  }
}

async function makeAll() {
  const { deliver, fresh } = checked;
  const answer = await send(checked, true);
  const { lines } = answer;
  await recognise(lines, fresh);
  if (!lines.some(isRefused)) list.value = file.value = "";
  const isOurs = ({ status, line }) => status === "new" || (status !== "refused" && fresh.has(line));
  for (const { userId } of lines.filter(isOurs)) made.set(userId, made.get(userId));
  show(answer, word("done"));
  listGroups(group).catch(() => {}); // some may be new
  const isFor = { link: () => true, mail: isBare, none: () => false }[deliver];
  const open = shown.filter((line) => isOurs(line) && isFor(line) && !made.get(line.userId));
  for (const part of partsOf(open, SLIPS)) {
    const ids = part.map(({ userId }) => userId);
    const { links } = await callForMany("POST", "users/access-links", { ids });
    for (const { userId, ...link } of links) {
      const user = part.find((line) => line.userId === userId);
      made.set(userId, sheet.add({ ...link, user, group: user.group }));
    }
  }
  make.hidden = true;
  if (open.length) sheet.heading.focus();
}
make.addEventListener("prepare", ({ detail }) => {
  options.inert = paste.inert = true; // or what is made would not be what they say
  detail.send = () => makeAll().finally(() => (options.inert = paste.inert = false));
});

// Taking back who was made

takeBack.addEventListener("prepare", ({ detail }) => {
  detail.body = { ids: madeHere().slice(0, AT_ONCE) };
  detail.send = (body) => callForMany("POST", "users/removals", body);
});
takeBack.addEventListener("done", (event) => {
  event.preventDefault();
  const { removed, refused } = event.detail.data;
  const codes = new Map(refused.map(({ id, code }) => [id, { status: "refused", code }]));
  sheet.remove(removed.map((id) => made.get(id)).filter(Boolean));
  for (const id of [...removed, ...codes.keys()]) made.delete(id);
  const left = shown.filter(({ userId }) => !removed.includes(userId));
  const lines = left.map((line) => ({ ...line, ...codes.get(line.userId) }));
  const counts = { done: removed.length, count: removed.length + refused.length };
  const whom = say(refused.length ? "say_people_some" : "say_people_all", counts);
  show({ lines, groups: [], leftOut: [] }, say("say_people_done_undo", { whom }));
});

addEventListener("beforeunload", (event) => {
  if (make.ariaBusy === "true" || list.value) event.preventDefault();
});
// The frame empties all forms before another user's turn.
make.addEventListener("reset", () => (make.ariaBusy = "false"));
