// The section "activity": what was done to all accounts. What it is filtered by stands in the URL,
// #activity/type=…&person=…&by=…&from=…&to=…, people by what they sign in with.

import { Problem, call } from "./api.js";
import { attempt, read, setBusy, showProblem } from "./forms.js";
import { describe } from "./happened.js";
import { linked, saveTable } from "./lists.js";
import { dayOf, known } from "./times.js";
import { byId, copy, fill, language, nameOf, say, texts } from "./words.js";

const PAGE = 100;
const ENOUGH = 25; // lines that are shown at once
const MOST_READ = 1000; // events that are read for them
const COLUMNS = ["time", "name", "username", "event", "by"]; // of a file
const MOST_SAVED = 2000; // events in a file
const section = byId("activity");
const form = section.querySelector("form");
const body = section.querySelector("tbody");
const more = byId("activity-more");
const hashOf = (shown) => {
  const entries = Object.entries(shown).filter(([, value]) => value?.trim());
  return `#activity/${new URLSearchParams(entries)}`;
};
const what = (key) => texts.get(key).replace(/\{\w+\}/g, "…");
const kinds = [...texts.keys()].filter((key) => /^say_event_(?!by)/.test(key));
kinds.sort((one, other) => what(one).localeCompare(what(other), language));
form.elements.type.append(...kinds.map((key) => new Option(what(key), key.slice(10))));
const [DAY, QUARTER] = [86_400_000, 900_000]; // milliseconds
let me;
let query = {}; // of the calls
let oldest = ""; // no id of an event may be lower
let shown = []; // the events
let asked = 0; // an answer that comes after a newer question is dropped

// Returns the id of the one person whom a text names, or what stands for no person.
async function idOf(name, text) {
  if (!text || text === "machine" || text.startsWith("key:")) return text;
  for (const fitting of [{ anyOf: text.replaceAll(",", " ") }, { search: text }]) {
    const { users } = await call("GET", "users", { ...fitting, perPage: 2 });
    if (users.length === 1) return users[0].id;
    if (users.length) break;
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

// Writes a time as spreadsheets read it. Swedish is written so.
function minuteOf(at) {
  const options = { dateStyle: "short", timeStyle: "short", timeZone: known(me.settings.timezone) };
  return new Intl.DateTimeFormat("sv", options).format(new Date(at));
}

// Returns a page of events, each with its texts and the person. The last id is `after`.
async function load(after = query.after) {
  const asked = { ...query, ...(after && { after }), limit: PAGE + 1 };
  const { events: found } = await call("GET", "activity", asked);
  const wanted = found.filter(({ id }) => id >= oldest);
  const events = wanted.slice(0, PAGE);
  const anyOf = [...new Set(events.map(({ username }) => username))].join(",");
  const [{ users }, ...texts] = await Promise.all([
    anyOf ? call("GET", "users", { anyOf, perPage: 100 }) : { users: [] },
    ...events.map(describe),
  ]);
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
  return { rows, next: wanted.length > PAGE ? events.at(-1).id : null };
}

// Returns the events of each line by its act.
function linesOf(rows) {
  const lines = new Map(rows.map(({ act }) => [act, []]));
  for (const row of rows) lines.get(row.act).push(row);
  return lines;
}

function lineOf(rows) {
  const people = [...new Map(rows.map(({ user }) => [user.id, user])).values()];
  if (people.length === 1) return copy("activity-row", { ...rows[0], count: "" });
  const count = say("say_activity_people", { count: people.length });
  const line = copy("activity-row", { ...rows[0], name: "", username: "", count });
  line.querySelector("p").append(...linked(people));
  return line;
}

// Reads on until there are enough more lines, and returns all.
async function loadLines(rows, next) {
  const [lines, events] = [linesOf(rows).size + ENOUGH, rows.length + MOST_READ];
  do {
    const page = await load(next);
    rows = [...rows, ...page.rows];
    next = page.next;
  } while (next && rows.length < events && linesOf(rows).size < lines);
  return { rows, next };
}

function showLines({ rows, next }) {
  shown = rows;
  body.replaceChildren(...[...linesOf(rows).values()].map(lineOf));
  fill(section, { next: Boolean(next), none: !rows.length });
  more.value = next ?? "";
}

async function show(_, who, rest = "") {
  const mine = ++asked;
  me = who;
  const given = Object.fromEntries(new URLSearchParams(rest));
  fill(form, { type: "", person: "", by: "", from: "", to: "", ...given });
  Object.assign(given, read(form)); // a date that is none is empty there
  showProblem(form, null);
  const isShown = await attempt(form, async () => {
    // What was looked up before stands in the URL, for a reload.
    const [userId, by] = await Promise.all([
      given.userId ?? idOf("person", given.person),
      given.byId ?? idOf("by", given.by),
    ]);
    if (mine !== asked) return;
    if (userId || by) history.replaceState(null, "", hashOf({ ...given, userId, byId: by }));
    const { type, from, to } = given;
    oldest = from && firstId(from);
    const all = Object.entries({ type, userId, by, after: to && firstId(to, 1) });
    query = Object.fromEntries(all.filter(([, value]) => value));
    const found = await loadLines([]);
    if (mine === asked) showLines(found);
  });
  if (isShown || mine !== asked) return;
  body.replaceChildren(); // those of the question before
  fill(section, { next: false, none: false });
}

function search() {
  const hash = hashOf(read(form));
  history.replaceState(null, "", hash);
  return show(section, me, hash.slice("#activity/".length));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
form.addEventListener("change", search);
more.addEventListener("click", () =>
  attempt(form, async () => {
    const [mine, { length }] = [asked, body.children];
    const found = await loadLines(shown, more.value);
    if (mine !== asked) return;
    showLines(found);
    (body.children[length] ?? body.lastElementChild).focus();
  }),
);
byId("activity-save").addEventListener("click", () =>
  attempt(form, async () => {
    setBusy(form, true);
    const lines = [];
    let after;
    do {
      const { rows, next } = await load(after);
      lines.push(...rows.map((row) => COLUMNS.map((name) => row[name])));
      after = next;
    } while (after && lines.length < MOST_SAVED);
    const heads = [...section.querySelectorAll("thead th")].map((head) => head.textContent);
    saveTable(section.querySelector("h1").textContent, [heads, ...lines]);
    if (after) throw new Problem("too_many_events");
  }).finally(() => setBusy(form, false)),
);

export const sections = { activity: show };
