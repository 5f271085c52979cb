// The section "activity": what was done to all accounts. What it is filtered by stands in the URL,
// #activity/type=…&person=…&by=…, people by what they sign in with.

import { Problem, call } from "./api.js";
import { attempt, read, setBusy, showProblem } from "./forms.js";
import { describe } from "./happened.js";
import { saveTable } from "./lists.js";
import { byId, copy, fill, language, nameOf, texts } from "./words.js";

const PAGE = 100;
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
let query = {}; // of the calls
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

// Returns a page of events, each with its texts and the name of the person. The last id is `after`.
async function load(last) {
  const after = last && { after: last };
  const { events, next } = await call("GET", "activity", { ...query, ...after, limit: PAGE });
  const anyOf = [...new Set(events.map(({ username }) => username))].join(",");
  const [{ users }, ...texts] = await Promise.all([
    anyOf ? call("GET", "users", { anyOf, perPage: 100 }) : { users: [] },
    ...events.map(describe),
  ]);
  const names = new Map(users.map((user) => [user.id, nameOf(user)]));
  const rows = events.map(({ at: time, username, userId }, at) => ({
    ...{ ...texts[at], time, username, by: texts[at].name || texts[at].by },
    name: names.get(userId) ?? username,
    person: `#people/${userId}`,
  }));
  return { rows, next };
}

function append({ rows, next }) {
  const made = rows.map((row) => copy("activity-row", row));
  body.append(...made);
  fill(section, { next: Boolean(next), none: !body.children.length });
  more.value = next ?? "";
  return made;
}

async function show(_, me, rest = "") {
  const mine = ++asked;
  const shown = { type: "", person: "", by: "", ...Object.fromEntries(new URLSearchParams(rest)) };
  fill(form, shown);
  showProblem(form, null);
  const isShown = await attempt(form, async () => {
    // What was looked up before stands in the URL, for a reload.
    const [userId, by] = await Promise.all([
      shown.userId ?? idOf("person", shown.person),
      shown.byId ?? idOf("by", shown.by),
    ]);
    if (mine !== asked) return;
    if (userId || by) history.replaceState(null, "", hashOf({ ...shown, userId, byId: by }));
    const all = Object.entries({ type: shown.type, userId, by });
    query = Object.fromEntries(all.filter(([, value]) => value));
    const page = await load();
    if (mine !== asked) return;
    body.replaceChildren();
    append(page);
  });
  if (isShown || mine !== asked) return;
  body.replaceChildren(); // those of the question before
  fill(section, { next: false, none: false });
}

function search() {
  const hash = hashOf(read(form));
  history.replaceState(null, "", hash);
  return show(section, null, hash.slice("#activity/".length));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
form.addEventListener("change", search);
more.addEventListener("click", () =>
  attempt(form, async () => append(await load(more.value))[0].focus()),
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
