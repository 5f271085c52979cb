// The section "activity": what was done to all accounts. What it is filtered by stands in the URL,
// #activity/type=…&person=…&by=…&from=…&to=…, people by what they sign in with.

import { Problem, call } from "./api.js";
import { attempt, read, setBusy, showProblem } from "./forms.js";
import { describe } from "./happened.js";
import { filled, findAll, linked, saveTable } from "./lists.js";
import { dayOf, minuteOf } from "./times.js";
import { byId, copy, fill, language, nameOf, say, texts } from "./words.js";

const COLUMNS = ["time", "name", "username", "event", "by"]; // of a file
const MOST_SAVED = 2000; // events in a file
const section = byId("activity");
const form = section.querySelector("form");
const body = section.querySelector("tbody");
const more = byId("activity-more");
const what = (key) => texts.get(key).replace(/\{\w+\}/g, "…");
const kinds = [...texts.keys()].filter((key) => /^say_event_(?!by)/.test(key));
kinds.sort((one, other) => what(one).localeCompare(what(other), language));
form.elements.type.append(...kinds.map((key) => new Option(what(key), key.slice(10))));
const [DAY, QUARTER] = [86_400_000, 900_000]; // milliseconds
let query = {}; // of the calls
let oldest = ""; // no id of an event may be lower
let unfinished = []; // the events of the last line, which the next page may go on with
let asked = 0; // an answer that comes after a newer question is dropped

// Returns the id of the one person whom a text names, or what stands for no person.
async function idOf(name, text) {
  if (!text || text === "machine" || text.startsWith("key:")) return text;
  const plain = text.replaceAll(",", " ");
  for (const fitting of [{ anyOf: plain }, { search: plain }]) {
    const { users: [user, other] } = await call("GET", "users", { ...fitting, perPage: 2 });
    if (other) break;
    if (user) return user.id;
  }
  throw new Problem("invalid_request", { reasons: { [name]: ["nobody"] } });
}

// Returns the lowest id of a day in the zone of the account, or of so many days later. Ids begin
// with their time (RFC 9562, version 7); zones differ by quarters of an hour.
function firstId(date, later = 0) {
  const day = new Date(Date.parse(date) + later * DAY).toISOString().slice(0, 10);
  let time = Date.parse(day) - DAY;
  while (dayOf(undefined, time) < day) time += QUARTER;
  const digits = Math.max(time, 0).toString(16).padStart(12, "0");
  return digits.replace(/(.{8})/, "$1-").concat("-7000-8000-000000000000");
}

// Returns a page of events, each with its texts and the person. The last id is `after`.
async function load(after = query.after) {
  const { events: found, next } = await call("GET", "activity", filled({ ...query, after }));
  const events = found.filter(({ id }) => id >= oldest);
  const usernames = new Set(events.map(({ username }) => username));
  const [users, ...texts] = await Promise.all([findAll([...usernames]), ...events.map(describe)]);
  const people = new Map(users.map((user) => [user.id, user]));
  const rows = events.map(({ id, type, at, by, byId, details, username, userId }, n) => {
    const user = people.get(userId) ?? { id: userId, firstName: username, lastName: "" };
    return {
      ...{ ...texts[n], username, user, name: nameOf(user).trim(), person: `#people/${userId}` },
      ...{ time: minuteOf(at), by: texts[n].name || texts[n].by },
      // What one person does to many in the same minute is a line.
      act: by === "user" ? id : [at.slice(0, 16), type, by, byId, JSON.stringify(details)].join(),
    };
  });
  return { rows, next: rows.length === found.length ? next : null };
}

function lineOf(rows) {
  const people = [...new Map(rows.map(({ user }) => [user.id, user])).values()];
  if (people.length === 1) return copy("activity-row", { ...rows[0], count: "" });
  const count = say("say_activity_people", { count: people.length });
  const line = copy("activity-row", { ...rows[0], name: "", username: "", count });
  line.querySelector("p").append(...linked(people));
  return line;
}

function append({ rows, next }) {
  const all = [...unfinished, ...rows];
  if (unfinished.length) body.lastElementChild.remove();
  const acts = new Map(all.map(({ act }) => [act, []]));
  for (const row of all) acts.get(row.act).push(row);
  body.append(...[...acts.values()].map(lineOf));
  unfinished = [...acts.values()].at(-1) ?? [];
  fill(section, { next: Boolean(next), none: !body.children.length });
  more.value = next ?? "";
}

async function show(_, me, rest = "") {
  const mine = ++asked;
  const given = Object.fromEntries(new URLSearchParams(rest));
  fill(form, { type: "", person: "", by: "", from: "", to: "", ...given });
  showProblem(form, null);
  body.replaceChildren();
  unfinished = [];
  fill(section, { next: false, none: false });
  await attempt(form, async () => {
    const { type, person, by, from, to } = read(form); // a date that is none is empty there
    // What was looked up before stands in the URL, for a reload.
    const asking = [given.userId ?? idOf("person", person), given.byId ?? idOf("by", by)];
    const ids = await Promise.all(asking);
    if (mine !== asked) return;
    const known = filled({ ...given, userId: ids[0], byId: ids[1] });
    if (rest) history.replaceState(null, "", `#activity/${new URLSearchParams(known)}`);
    oldest = from && firstId(from);
    query = { type, userId: ids[0], by: ids[1], after: to && firstId(to, 1) };
    const page = await load();
    if (mine === asked) append(page);
  });
}

function search() {
  const rest = new URLSearchParams(filled(read(form))).toString();
  history.replaceState(null, "", `#activity/${rest}`);
  return show(section, null, rest);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
form.addEventListener("change", search);
more.addEventListener("click", () =>
  attempt(form, async () => {
    const [mine, { length }] = [asked, body.children];
    const page = await load(more.value);
    if (mine !== asked) return;
    append(page);
    (body.children[length] ?? body.lastElementChild).focus();
  }),
);
byId("activity-save").addEventListener("click", () =>
  attempt(form, async () => {
    setBusy(form, true);
    const heads = [...section.querySelectorAll("thead th")].map((head) => head.textContent);
    const lines = [heads];
    let after;
    do {
      const { rows, next } = await load(after);
      lines.push(...rows.map((row) => COLUMNS.map((name) => row[name])));
      after = next;
    } while (after && lines.length <= MOST_SAVED);
    saveTable(section.querySelector("h1").textContent, lines);
    if (after) throw new Problem("too_many_events");
  }).finally(() => setBusy(form, false)),
);

export const sections = { activity: show };
