// The section "groups": the groups that the user sees, and a week of one, Monday to Sunday.
// #groups/<id> is this week, #groups/<id>/2026-11-20 that with this day.

import { Problem, call, loadModule } from "./api.js";
import { showProblem } from "./forms.js";
import { DAY, add, addDay, day, doneText, iso, lineOf } from "./learning.js";
import { labelOf, listed, loadAll, newId, saveTable } from "./lists.js";
import { byId, copy, dayOf, fill, nameOf, say } from "./words.js";

const MOST = 1000; // students whose days the API gives at once
const STEP = 22; // from one day of a picture to the next
const section = byId("groups");
const [list, week] = ["list", "week"].map((name) => byId(`groups-${name}`));
const make = list.querySelector("form");
const table = week.querySelector("table");
let me;
let asked = 0; // what comes after a newer question is dropped
let shown; // {name, dates, students}: the week, with the days of each student by their dates
let order = { by: "name", step: 1 }; // of the table

const mondayOf = (time) => time - ((new Date(time).getUTCDay() + 6) % 7) * DAY;

// Returns the active students of a group, by name, and what they did on these days.
async function load(id, bounds) {
  const query = { groupId: id, role: "student", isActive: true, sort: "name" };
  const asked = [loadAll(query, MOST), call("GET", `groups/${id}/days`, bounds)];
  const [students, { days }] = await Promise.all(asked);
  return { students, days };
}

// Returns how many students a group has, and who learned nothing last week and in this one.
async function sumUp({ id, name }) {
  const now = Date.parse(dayOf());
  const monday = iso(mondayOf(now));
  const bounds = { from: iso(mondayOf(now) - 7 * DAY), to: iso(now + DAY) };
  const { students, days } = await load(id, bounds);
  const idle = (isMeant) => {
    const learned = new Set(days.filter(isMeant).map(({ userId }) => userId));
    return students.filter((student) => !learned.has(student.id));
  };
  const weeks = [idle(({ date }) => date < monday), idle(({ date }) => date >= monday)];
  const [idleBefore, idleNow] = weeks.map(({ length }) => length);
  return { name, weeks, students: students.length, idleBefore, idle: idleNow };
}

async function showList(groups) {
  const isTeacher = me.profile.role !== "admin"; // admins have all groups, and one call for them
  const sums = isTeacher ? await Promise.all(groups.map(sumUp)) : [];
  fill(list, { none: !groups.length, any: groups.length > 0, isTeacher });
  const item = ({ id, name, members: count }, at) =>
    copy("groups-item", { name, href: `#groups/${id}`, count, isTeacher, ...sums[at] });
  list.querySelector("tbody").replaceChildren(...groups.map(item));
  for (const [at, details] of list.querySelectorAll("details").entries()) {
    const some = sums.filter(({ weeks }) => weeks[at].length);
    details.hidden = !some.length;
    const lines = some.map(({ name, weeks }) => lineOf(name, listed(weeks[at])));
    details.querySelector("ul").replaceChildren(...lines);
  }
}

async function loadWeek({ id, name }, named) {
  const monday = mondayOf(Date.parse(named) || Date.parse(dayOf()));
  const dates = [0, 1, 2, 3, 4, 5, 6].map((after) => iso(monday + after * DAY));
  const { students: found, days } = await load(id, { from: dates[0], to: dates[6] });
  const students = found.map((student) => {
    const own = days.filter(({ userId }) => userId === student.id);
    const sum = (name) => own.reduce((all, one) => all + one[name], 0);
    const sums = { lessons: sum("lessons"), minutes: sum("minutes") };
    return { ...student, ...sums, days: new Map(own.map((one) => [one.date, one])) };
  });
  return { id, name, dates, students };
}

function rowOf(student) {
  const { id, days } = student;
  const more = student.lessons ? {} : { lessons: "–", minutes: "–" };
  Object.assign(more, { name: nameOf(student), href: `#people/${id}/learning` });
  const row = copy("groups-row", { ...student, ...more });
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

function showWeek() {
  const { id, name, dates, students } = shown;
  const [from, to] = [dates[0], dates[6]];
  const weekFrom = (days) => `#groups/${id}/${iso(Date.parse(from) + days * DAY)}`;
  const idle = students.filter(({ lessons }) => !lessons);
  const counts = { count: idle.length, all: students.length, names: listed(idle) };
  fill(week, {
    ...{ name, who: name, none: !students.length, before: weekFrom(-7), anyIdle: idle.length > 0 },
    idle: students.length ? say(`say_groups_${idle.length ? "idle" : "none_idle"}`, counts) : "",
    span: `${day(from, { day: "numeric", month: "long" })} – ${day(to)}`,
    // Where students are, it may be tomorrow already.
    after: to < iso(Date.parse(dayOf()) + DAY) ? weekFrom(7) : "",
    members: `#people/groupId=${id}&sort=name`,
  });
  for (const form of week.querySelectorAll("form")) form.dataset.id = id;
  const head = table.querySelector("svg");
  head.replaceChildren();
  for (const [n, date] of dates.entries()) {
    add(head, "text", { x: n * STEP + 2, y: 12 }, day(date, { weekday: "narrow" }));
  }
  sortRows();
  table.hidden = !students.length;
  document.title = `${name} · ${document.title}`;
  return week.querySelector("h2");
}

// A click on a heading sorts by it, a second one the other way round.
function sortRows(by = order.by, isClick = false) {
  order = { by, step: isClick && order.by === by ? -order.step : isClick ? 1 : order.step };
  const { students } = shown;
  const place = (student) => (by === "name" ? students.indexOf(student) : student[by]);
  const sorted = [...students].sort((a, b) => (place(a) - place(b)) * order.step);
  table.tBodies[0].replaceChildren(...sorted.map(rowOf));
  for (const button of table.querySelectorAll("th button")) {
    const sort = order.step > 0 ? "ascending" : "descending";
    button.parentElement.ariaSort = button.value === by ? sort : "none";
  }
}
table.tHead.addEventListener("click", ({ target }) => target.value && sortRows(target.value, true));
byId("groups-idle").addEventListener("click", async () => {
  const { chosen } = await loadModule("people");
  for (const student of shown.students) if (!student.lessons) chosen.set(student.id, student);
  me.go(`people/groupId=${shown.id}&sort=name`);
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
  await showList((await call("GET", "groups")).groups);
});
// A second group of one name is asked about.
let again = ""; // the name that was asked about
const plain = (text) => text.trim().toLowerCase();
make.addEventListener("prepare", (event) => {
  const { name } = event.detail.body;
  const names = [...list.querySelectorAll("tbody a")].map((way) => plain(way.textContent));
  if (again === plain(name) || !names.includes(plain(name))) return;
  event.preventDefault();
  again = plain(name);
  showProblem(make, new Problem("invalid_request", { reasons: { name: ["again"] } }));
});
week.addEventListener("done", () => me.go(location.hash.slice(1)));

async function show(_, who, id = "", last = "") {
  const mine = ++asked;
  me = who;
  const { groups } = await call("GET", "groups");
  const group = groups.find((each) => each.id === id);
  if (id && !group) throw new Problem("not_found");
  const found = group && (await loadWeek(group, last));
  if (mine !== asked) return;
  list.hidden = Boolean(group);
  week.hidden = !group;
  fill(section, { manages: me.profile.role === "admin" });
  shown = found;
  return group ? showWeek() : showList(groups);
}

export const sections = { groups: show };
