// The section "groups": the groups that the user sees, and a week of one, Monday to Sunday.
// #groups/<id> is this week, #groups/<id>/2026-11-20 that with this day.

import { Problem, call } from "./api.js";
import { showProblem } from "./forms.js";
import { DAY, add, addDay, day, doneText, iso, lineOf } from "./learning.js";
import { faceOf, labelOf, linked, listed, loadAll, loadGroups, newId, saveTable } from "./lists.js";
import { date, dayOf } from "./times.js";
import { byId, copy, fill, language, number, say } from "./words.js";

const MOST = 1000; // students whose days the API gives at once
const FIGURES = ["students", "idleBefore", "idle"]; // of a group, each a list of students
const SPAN = { dateStyle: "medium", timeZone: "UTC" };
const STEP = 22; // from one day of a picture to the next
const section = byId("groups");
const [list, week] = ["list", "week"].map((name) => byId(`groups-${name}`));
const make = list.querySelector("form");
const table = week.querySelector("table");
let me;
let asked = 0; // what comes after a newer question is dropped
let figures; // by the ids of groups; null where they cannot be had
let shown; // the week: {id, name, dates, students}; the days of students by their dates
let order = { by: "name", way: "ascending" }; // of the table

const manages = () => me.profile.role === "admin";
const mondayOf = (time) => time - ((new Date(time).getUTCDay() + 6) % 7) * DAY;

// Returns the active students of a group, by name, and what they did on these days.
async function load(id, bounds) {
  const query = { groupId: id, role: "student", isActive: true, sort: "name" };
  const asked = [loadAll(query, MOST), call("GET", `groups/${id}/days`, bounds)];
  const [students, { days }] = await Promise.all(asked);
  return { students, days };
}

// Returns the students of a group, and who learned nothing last week and in this one; null where
// they cannot be had: the API does not sum up more than 1,000 students.
async function figuresOf({ id }) {
  const now = Date.parse(dayOf());
  const monday = iso(mondayOf(now));
  const bounds = { from: iso(mondayOf(now) - 7 * DAY), to: iso(now + DAY) };
  const found = await load(id, bounds).catch((problem) => {
    if (!(problem instanceof Problem)) throw problem; // a mistake of ours
  });
  if (!found) return null;
  const idle = (isMeant) => {
    const learned = new Set(found.days.filter(isMeant).map(({ userId }) => userId));
    return found.students.filter((student) => !learned.has(student.id));
  };
  return [found.students, idle(({ date }) => date < monday), idle(({ date }) => date >= monday)];
}

const textsOf = (textOf) => Object.fromEntries(FIGURES.map((name, n) => [name, textOf(n)]));

// The names of groups are there at once, their figures as they come.
async function showList(groups) {
  const mine = asked;
  const rows = groups.map(({ id, name }) => copy("groups-item", { name, href: `#groups/${id}` }));
  list.querySelector("tbody").replaceChildren(...rows);
  const { length } = groups;
  fill(list, { none: !length, any: length > 0, several: length > 1, ...textsOf(() => "…") });
  await Promise.all(groups.map(async (group, at) => {
    const lists = figures.get(group.id) ?? (await figuresOf(group));
    figures.set(group.id, lists);
    fill(rows[at], textsOf((n) => (lists ? number(lists[n].length) : "–")));
  }));
  if (mine !== asked) return;
  const known = groups.map(({ id }) => figures.get(id)).filter(Boolean);
  const mark = known.length < length ? "≥ " : ""; // there may be more in the others
  // Who learns in several groups counts once.
  const idsOf = (n) => new Set(known.flatMap((lists) => lists[n].map(({ id }) => id)));
  fill(list.querySelector("tfoot"), textsOf((n) => mark + number(idsOf(n).size)));
  for (const [n, details] of list.querySelectorAll("details").entries()) {
    const lines = groups.flatMap(({ id, name }) => {
      const idle = figures.get(id)?.[n + 1] ?? [];
      const line = lineOf(name, "");
      line.lastElementChild.append(...linked(idle, "/learning"));
      return idle.length ? [line] : [];
    });
    details.hidden = !lines.length;
    details.querySelector("ul").replaceChildren(...lines);
  }
}

async function loadWeek({ id, name }, named) {
  const monday = mondayOf(Date.parse(named) || Date.parse(dayOf()));
  const dates = [0, 1, 2, 3, 4, 5, 6].map((after) => iso(monday + after * DAY));
  const query = { groupId: id, role: "instructor", isActive: true, sort: "name" };
  // Teachers do not see one another.
  const teaching = manages() ? loadAll(query, MOST) : [me.profile];
  const learning = load(id, { from: dates[0], to: dates[6] });
  const [found, teachers] = await Promise.all([learning, teaching]);
  const students = found.students.map((student) => {
    const own = found.days.filter(({ userId }) => userId === student.id);
    const sum = (name) => own.reduce((all, one) => all + one[name], 0);
    const days = new Map(own.map((one) => [one.date, one]));
    return { ...student, lessons: sum("lessons"), minutes: sum("minutes"), days };
  });
  return { id, name, dates, students, teachers };
}

const span = (...days) =>
  new Intl.DateTimeFormat(language === "en" ? "en-GB" : language, SPAN)
    .formatRange(...days.map((each) => new Date(each)));

function rowOf(student) {
  const { id, days, firstName, lastName } = student;
  const more = student.lessons ? {} : { lessons: "–", minutes: "–" };
  const name = `${lastName}, ${firstName}`;
  const href = `#people/${id}/learning`;
  const row = faceOf(student, copy("groups-row", { ...student, name, href, ...more }));
  const picture = row.querySelector("svg");
  const texts = shown.dates.map((date, n) => {
    const { lessons, minutes } = days.get(date) ?? {};
    const values = { day: day(date, { dateStyle: "full" }), done: doneText(lessons, minutes) };
    const text = say(lessons ? "say_learning_day" : "say_learning_no_lesson", values);
    add(addDay(picture, { x: n * STEP, y: 1 }, minutes), "title", {}, text);
    return lessons ? text : "";
  });
  picture.ariaLabel = texts.filter(Boolean).join("; ") || say("say_groups_no_lesson");
  return row;
}

function showIdle() {
  const { dates, students } = shown;
  const idle = students.filter(({ lessons }) => !lessons);
  const counts = { count: idle.length, all: students.length };
  const text = say(`say_groups_${idle.length ? "idle" : "none_idle"}`, counts);
  const [before, after = ""] = text.split("{names}");
  byId("groups-idle").replaceChildren(before, ...linked(idle, "/learning"), after);
  byId("groups-idle").hidden = !students.length || dates[0] > dayOf();
}

function showWeek() {
  const { id, name, dates, students, teachers } = shown;
  const staff = { name: say("say_role_instructor"), value: listed(teachers) };
  const printed = say("say_groups_printed", { date: date(Date.now()) });
  const [from, to] = [dates[0], dates[6]];
  const weekFrom = (days) => `#groups/${id}/${iso(Date.parse(from) + days * DAY)}`;
  fill(week, {
    ...{ name, who: name, none: !students.length, before: weekFrom(-7) },
    after: to < dayOf() ? weekFrom(7) : "",
    span: span(from, to),
    paper: [printed, staff.value && say("say_list_fact", staff)].filter(Boolean).join(" · "),
    members: `#people/groupId=${id}&sort=name`,
  });
  showIdle();
  week.querySelector(".fold").ariaExpanded = "false";
  for (const form of week.querySelectorAll("form")) form.dataset.id = id;
  const head = table.querySelector("svg");
  head.replaceChildren();
  for (const [n, date] of dates.entries()) {
    add(head, "text", { x: n * STEP + 2, y: 12 }, day(date, { weekday: "narrow" }));
  }
  showRows();
  table.hidden = !students.length;
  document.title = `${name} · ${document.title}`;
  return week.querySelector("h2");
}

function showRows() {
  const { by, way } = order;
  const rows = [...shown.students];
  if (by !== "name") rows.sort((a, b) => a[by] - b[by]); // they come by name
  if (way === "descending") rows.reverse();
  table.tBodies[0].replaceChildren(...rows.map(rowOf));
  for (const button of table.querySelectorAll("th button")) {
    button.parentElement.ariaSort = button.value === by ? way : "none";
  }
}
// A click on a heading sorts by it, a second one the other way round.
table.tHead.addEventListener("click", ({ target: { value: by, parentElement: head } }) => {
  if (!by) return;
  order = { by, way: head.ariaSort === "ascending" ? "descending" : "ascending" };
  showRows();
});
byId("groups-save").addEventListener("click", () => {
  const { name, dates, students } = shown;
  const names = ["lastName", "firstName", "username"];
  const [, , ...sums] = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
  const lines = students.map((student) => [
    ...names.map((field) => student[field]),
    ...dates.map((date) => student.days.get(date)?.minutes ?? 0),
    ...[student.lessons, student.minutes],
  ]);
  saveTable(`${name} ${dates[6]}`, [[...names.map(labelOf), ...dates, ...sums], ...lines]);
});
make.dataset.id = newId();
make.addEventListener("done", async () => {
  make.dataset.id = newId(); // at once: the next name is typed while the list is on its way
  const mine = ++asked;
  const groups = await loadGroups();
  if (mine === asked) await showList(groups);
});
// A second group of one name is asked about.
let again = ""; // the name that was asked about
make.addEventListener("prepare", (event) => {
  const name = event.detail.body.name.trim().toLowerCase();
  const names = [...list.querySelectorAll("tbody a")].map((way) => way.textContent.toLowerCase());
  if (again === name || !names.includes(name)) return;
  event.preventDefault();
  again = name;
  showProblem(make, new Problem("invalid_request", { reasons: { name: ["again"] } }));
});
week.addEventListener("done", () => me.go(location.hash.slice(1)));

async function show(_, who, id = "", last = "") {
  const mine = ++asked;
  me = who;
  const groups = await loadGroups();
  const group = groups.find((each) => each.id === id);
  if (id && !group) throw new Problem("not_found");
  const found = group && (await loadWeek(group, last));
  if (mine !== asked || section.hidden) return; // the user has gone on
  list.hidden = Boolean(group);
  week.hidden = !group;
  fill(section, { manages: manages() });
  shown = found;
  if (group) return showWeek();
  figures = new Map();
  showList(groups); // which is not waited for
}

export const sections = { groups: show };
