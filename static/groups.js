// The section "groups": the groups that the user sees, and a week of one. #groups/<id> is the one to
// today, #groups/<id>/2026-11-20 that to this day.

import { Problem, call } from "./api.js";
import { DAY, add, addDay, day, doneText, iso, today } from "./learning.js";
import { labelOf, loadAll, saveTable } from "./lists.js";
import { copy, fill, say } from "./words.js";

const MOST = 1000; // students whose days the API gives at once
const STEP = 22; // from one day of a picture to the next
const section = document.getElementById("groups");
const [list, week] = ["list", "week"].map((name) => document.getElementById(`groups-${name}`));
const make = list.querySelector("form");
const table = week.querySelector("table");
let me;
let asked = 0; // what comes after a newer question is dropped
let shown; // {name, dates, students}: the week, with the days of each student by their dates

// A new id, also on plain http, where browsers have no randomUUID.
function newId() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/(.{8})(.{4}).(.{3}).(.{3})/, "$1-$2-4$3-a$4-");
}

function showList(groups) {
  fill(list, { none: !groups.length });
  const item = ({ id, name, members: count }) =>
    copy("groups-item", { name, href: `#groups/${id}`, count: say("say_groups_members", { count }) });
  list.querySelector("ul").replaceChildren(...groups.map(item));
}

async function loadWeek({ id, name }, last) {
  const named = Date.parse(last);
  const now = named || Date.parse(today());
  const query = { groupId: id, role: "student", isActive: true, sort: "name" };
  const bounds = { from: iso(now - 6 * DAY), to: iso(named || now + DAY) };
  const [found, { days }] = await Promise.all([
    loadAll(query, MOST),
    call("GET", `groups/${id}/days`, bounds),
  ]);
  // Where students are, it may be tomorrow already.
  const end = Math.max(now, Date.parse(days.at(-1)?.date) || 0);
  const dates = [6, 5, 4, 3, 2, 1, 0].map((ago) => iso(end - ago * DAY));
  const students = found.map((student) => {
    const isOwn = ({ userId, date }) => userId === student.id && dates.includes(date);
    const own = days.filter(isOwn);
    const sum = (name) => own.reduce((all, one) => all + one[name], 0);
    const sums = { lessons: sum("lessons"), minutes: sum("minutes") };
    return { ...student, ...sums, days: new Map(own.map((one) => [one.date, one])) };
  });
  return { id, name, dates, students };
}

function rowOf(student) {
  const { id, firstName, lastName, days } = student;
  const name = `${firstName} ${lastName}`;
  const row = copy("groups-row", { ...student, name, href: `#people/${id}/learning` });
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
  const weekFrom = (days) => `#groups/${id}/${iso(Date.parse(to) + days * DAY)}`;
  fill(week, {
    ...{ name, who: name, none: !students.length, before: weekFrom(-7) },
    span: `${day(from, { day: "numeric", month: "long" })} – ${day(to)}`,
    after: to < today() ? weekFrom(7) : "",
    members: `#people/groupId=${id}&sort=name`,
  });
  for (const form of week.querySelectorAll("form")) form.dataset.id = id;
  const head = table.querySelector("svg");
  head.replaceChildren();
  for (const [n, date] of dates.entries()) {
    add(head, "text", { x: n * STEP + 2, y: 12 }, day(date, { weekday: "narrow" }));
  }
  table.tBodies[0].replaceChildren(...students.map(rowOf));
  table.hidden = !students.length;
  document.title = `${name} · ${document.title}`;
  return week.querySelector("h2");
}

document.getElementById("groups-save").addEventListener("click", () => {
  const { name, dates, students } = shown;
  const names = ["lastName", "firstName", "username"];
  const [, , ...sums] = [...table.querySelectorAll("th")].map((head) => head.textContent);
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
  showList((await call("GET", "groups")).groups);
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
