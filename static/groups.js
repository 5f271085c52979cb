// The section "groups": the groups that the user sees, and a week of one. #groups/<id> is the one to
// today, #groups/<id>/2026-11-20 that to this day.

import { Problem, call } from "./api.js";
import { saveTable } from "./files.js";
import { DAY, add, addDay, day, doneText, iso, today } from "./learning.js";
import { labelOf, loadAll } from "./lists.js";
import { copy, fill, say } from "./words.js";

const MOST = 1000; // students whose days the API gives at once
const WIDTH = 22; // from one day of a picture to the next
const section = document.getElementById("groups");
const [list, week] = ["list", "week"].map((name) => document.getElementById(`groups-${name}`));
const [make] = list.getElementsByTagName("form");
const table = week.querySelector("table");
let asked = 0; // what comes after a newer question is dropped
let me;
let news = ""; // what a form has done
let shown = null; // {name, dates, students}: the week, and each student's days by their dates

// A new id, also on plain http, where browsers have no randomUUID.
function newId() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/(.{8})(.{4}).(.{3}).(.{3})/, "$1-$2-4$3-a$4-");
}

function showList(groups) {
  make.dataset.id = newId();
  fill(list, { none: !groups.length });
  const item = ({ id, name, members }) => {
    const count = say("say_groups_members", { count: members });
    return copy("groups-item", { name, count, href: `#groups/${id}` });
  };
  list.querySelector("ul").replaceChildren(...groups.map(item));
}

async function load({ id, name }, last) {
  const end = Date.parse(last) || Date.parse(today());
  const dates = Array.from({ length: 7 }, (_, n) => iso(end - (6 - n) * DAY));
  const query = { groupId: id, role: "student", isActive: true, sort: "name" };
  const [found, { days }] = await Promise.all([
    loadAll(query, MOST),
    call("GET", `groups/${id}/days`, { from: dates[0], to: dates[6] }),
  ]);
  const students = new Map(found.map((student) => [student.id, { ...student, days: new Map() }]));
  for (const one of days) students.get(one.userId)?.days.set(one.date, one);
  return { id, name, dates, students: [...students.values()] };
}

const sum = (days, name) => [...days.values()].reduce((all, one) => all + one[name], 0);

function rowOf({ id, firstName, lastName, days }) {
  const row = copy("groups-row", {
    name: `${firstName} ${lastName}`,
    href: `#people/${id}/learning`,
    lessons: sum(days, "lessons"),
    minutes: sum(days, "minutes"),
  });
  const picture = row.querySelector("svg");
  const texts = shown.dates.map((date, n) => {
    const { lessons, minutes } = days.get(date) ?? {};
    const values = { day: day(date, { dateStyle: "full" }), done: doneText(lessons, minutes) };
    const text = say(lessons ? "say_learning_day" : "say_learning_no_lesson", values);
    add(addDay(picture, { x: n * WIDTH + 4, y: 1 }, minutes), "title", {}, text);
    return lessons ? text : "";
  });
  picture.ariaLabel = texts.filter(Boolean).join("; ") || "0";
  return row;
}

function showWeek({ id, name, dates, students }) {
  const [from, to] = [dates[0], dates[6]];
  const weekFrom = (days) => `#groups/${id}/${iso(Date.parse(to) + days * DAY)}`;
  fill(week, {
    ...{ name, none: !students.length },
    span: `${day(from, { day: "numeric", month: "long" })} – ${day(to)}`,
    before: weekFrom(-7),
    after: to < today() ? weekFrom(7) : "",
    members: `#people/groupId=${id}&sort=name`,
  });
  for (const form of week.querySelectorAll("form")) form.dataset.id = id;
  const head = table.tHead.querySelector("svg");
  head.replaceChildren();
  for (const [n, date] of dates.entries()) {
    add(head, "text", { x: n * WIDTH + 11, y: 12 }, day(date, { weekday: "narrow" }));
  }
  table.tBodies[0].replaceChildren(...students.map(rowOf));
  table.hidden = !students.length;
  const heading = week.querySelector("h2");
  document.title = `${name} · ${document.title}`;
  return heading;
}

function saveWeek() {
  const { name, dates, students } = shown;
  const names = ["lastName", "firstName", "username"];
  const [lessons, minutes] = [...table.querySelectorAll("th")].slice(2);
  const heads = [...names.map(labelOf), ...dates, lessons.textContent, minutes.textContent];
  const lines = students.map((student) => [
    ...names.map((each) => student[each]),
    ...dates.map((date) => student.days.get(date)?.minutes ?? 0),
    ...["lessons", "minutes"].map((each) => sum(student.days, each)),
  ]);
  saveTable(`${name} ${dates[6]}`, [heads, ...lines]);
}

document.getElementById("groups-save").addEventListener("click", saveWeek);
section.addEventListener("done", ({ target: form, detail: { data } }) => {
  news = say(form.dataset.done, { name: data.name ?? shown.name });
  me.go(form.dataset.next ?? location.hash.slice(1));
});

async function show(_, who, id = "", last = "") {
  const mine = ++asked;
  me = who;
  const { groups } = await call("GET", "groups");
  const group = groups.find((each) => each.id === id);
  if (id && !group) throw new Problem("not_found");
  const found = group && (await load(group, last));
  if (mine !== asked) return;
  list.hidden = Boolean(group);
  week.hidden = !group;
  section.querySelector("h1").classList.toggle("visually-hidden", Boolean(group));
  fill(section, { manages: me.profile.role === "admin" });
  const isNew = news !== "";
  section.querySelector(".said").textContent = news;
  news = "";
  if (!group) {
    showList(groups);
    return isNew ? make.elements.name : null;
  }
  shown = found;
  return showWeek(found);
}

export const sections = { groups: show };
