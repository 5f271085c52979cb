// What somebody has learned: figures, a picture of the days, courses; and the section "learning".

import { call } from "./api.js";
import { explain } from "./forms.js";
import { date, dayOf, known, moment, written } from "./times.js";
import { byId, copy, fill, number, say } from "./words.js";

export const DAY = 86_400_000; // milliseconds
const STEP = 17; // from one day of the picture to the next
const SIZE = 14;
const LEFT = 36; // of the names of the weekdays
const TOP = 20; // of the names of the months
const STEPS = [15, 30, 60]; // minutes from which a day has a stronger colour
const MOVES = { ArrowLeft: -7, ArrowRight: 7, ArrowUp: -1, ArrowDown: 1 };

let zone; // of the user, in which the days begin
let path; // of the user's records

// Writes a day of the API, such as 2026-11-20, whatever the zone.
export const day = (value, options = { dateStyle: "long" }) =>
  written(value, { ...options, timeZone: "UTC" });
/** Write a time in milliseconds as such a day. */
export const iso = (time) => new Date(time).toISOString().slice(0, 10);
const part = (name) => byId(`learning-${name}`);
export const time = (minutes) =>
  [[Math.floor(minutes / 60), "hour"], [minutes % 60, "minute"]]
    .filter(([value, unit]) => value || (minutes < 60 && unit === "minute"))
    .map(([value, unit]) => number(value, { style: "unit", unit }).replace(" ", "\u00a0"))
    .join(" ");
export const doneText = (lessons = 0, minutes = 0) =>
  `${say("say_learning_lessons", { count: lessons })} · ${time(minutes)}`;
export const lineOf = (name, facts) => copy("learning-line", { name, facts });

// The picture: a column for each week, as on a wall calendar; the days of the API by their dates.

let days = new Map();
let cells = [];
let chosen = -1; // which of the cells is described below the picture

/** Add an element to a picture. */
export function add(svg, name, attributes, text = "") {
  const element = document.createElementNS(svg.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  svg.append(element);
  return element;
}

/** Add the cell of a day, whose colour says how much was done. */
export function addDay(svg, place, minutes, look = "") {
  const step = minutes === undefined ? 0 : 1 + STEPS.filter((least) => minutes >= least).length;
  const box = { width: SIZE, height: SIZE, rx: 3, class: `step-${step}${look}` };
  return add(svg, "rect", { ...place, ...box });
}

function draw(now) {
  const svg = part("days").querySelector("svg");
  svg.replaceChildren();
  const last = Date.parse(now); // a date alone is taken for UTC, in which no day is shorter
  const weekday = (new Date(last).getUTCDay() + 6) % 7; // Monday is 0
  const monday = last - (52 * 7 + weekday) * DAY;
  const nameOf = (row) => iso(monday + row * DAY);
  for (const row of [0, 2, 4]) {
    add(svg, "text", { x: 0, y: TOP + row * STEP + 11 }, day(nameOf(row), { weekday: "short" }));
  }
  cells = [];
  const end = 52 * 7 + weekday;
  for (let n = Math.max(0, end - 365); n <= end; n++) {
    const name = nameOf(n);
    const place = { x: LEFT + Math.floor(n / 7) * STEP, y: TOP + (n % 7) * STEP };
    const isFirst = name.endsWith("-01");
    if (isFirst) add(svg, "text", { x: place.x, y: 12 }, day(name, { month: "short" }));
    const cell = addDay(svg, place, days.get(name)?.minutes, n === end ? " today" : "");
    cell.dataset.date = name;
    cells.push(cell);
  }
  choose(cells.length - 1);
  part("days").scrollLeft = part("days").scrollWidth;
}

function choose(index) {
  if (!cells[index]) return;
  cells[chosen]?.classList.remove("chosen");
  chosen = index;
  cells[index].classList.add("chosen");
  const name = cells[index].dataset.date;
  const { lessons, minutes } = days.get(name) ?? {};
  const values = { day: day(name, { dateStyle: "full" }), done: doneText(lessons, minutes) };
  part("day").textContent = say(lessons ? "say_learning_day" : "say_learning_no_lesson", values);
}

part("days").addEventListener("keydown", (event) => {
  if (!(event.key in MOVES) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  choose(chosen + MOVES[event.key]);
  cells[chosen].scrollIntoView({ block: "nearest", inline: "nearest" });
});
part("days").addEventListener("pointerover", ({ target }) => choose(cells.indexOf(target)));

function yearText(list, { currentStreak }, now) {
  if (!list.length) return say("say_learning_no_year");
  const sum = (name) => list.reduce((all, one) => all + one[name], 0);
  const values = { count: list.length, done: doneText(sum("lessons"), sum("minutes")) };
  const text = say("say_learning_year", values);
  const goesOn = currentStreak && !days.has(now) && path === "users"; // the own
  return goesOn ? `${text} ${say("say_learning_go_on")}` : text;
}

// The facts that are there, one after the other: each a key of a text and a time of the API.
const dated = (...facts) =>
  facts.filter(([, at]) => at).map(([key, at]) => say(`say_learning_${key}`, { date: date(at, zone) }));

function courseItem(course) {
  const { id, name, lessons, completedLessons, minutes, completedAt, lastActivityAt } = course;
  const facts = [
    say("say_learning_of", { done: completedLessons, count: lessons }),
    time(minutes),
    ...dated(completedAt ? ["completed", completedAt] : ["last", lastActivityAt]),
  ];
  const item = copy("learning-course", { ...course, facts: facts.join(" · ") });
  const bar = item.querySelector("progress");
  Object.assign(bar, { max: lessons, value: completedLessons, ariaLabel: name });
  const more = item.querySelector("details");
  more.addEventListener("toggle", () => more.open && openCourse(more, id));
  return item;
}

async function openCourse(more, id) {
  const status = more.querySelector("[role=status]");
  status.textContent = say("say_wait");
  try {
    const { completed } = await call("GET", `${path}/courses/${encodeURIComponent(id)}`);
    const facts = (lesson) => `${moment(lesson.completedAt, zone)} · ${time(lesson.minutes)}`;
    const lines = completed.map((lesson) => lineOf(lesson.name || lesson.id, facts(lesson)));
    more.querySelector(".lines").replaceChildren(...lines);
    status.textContent = "";
  } catch (problem) {
    if (!problem.code) throw problem; // a mistake of ours
    status.textContent = explain(problem);
  }
}

function showCertificate(item, certificate) {
  const { issuedAt, expiresAt, revokedAt } = certificate;
  const facts = dated(["issued", issuedAt], ["until", expiresAt], ["revoked", revokedAt]);
  const isOver = expiresAt !== null && Date.parse(expiresAt) <= Date.now();
  return fill(item, {
    ...certificate,
    isValid: !revokedAt && !isOver,
    isExpired: !revokedAt && isOver,
    facts: facts.join(" · "),
    copyText: say("say_learning_copy"), // it may say "Copied."
  });
}

function certificateItem(certificate) {
  const item = showCertificate(copy("learning-certificate"), certificate);
  const form = item.querySelector("form");
  const { shared, verifyUrl } = form.elements;
  form.dataset.id = certificate.id;
  verifyUrl.id = item.querySelector("button").dataset.copies = `learning-link-${certificate.id}`;
  let isToPrint = false; // as soon as it is shared
  const print = () => {
    isToPrint = false;
    const paper = open(`certificates/${verifyUrl.value.split("/").at(-1)}`);
    paper?.addEventListener("load", () => paper.print()); // else the browser wants another click
  };
  shared.addEventListener("change", () => form.requestSubmit());
  item.querySelector(".print").addEventListener("click", () => {
    if (verifyUrl.value) return print();
    isToPrint = shared.checked = true;
    form.requestSubmit();
  });
  form.addEventListener("prepare", (event) => {
    if (shared.checked) return;
    event.preventDefault(); // the link would be dead for good: ask first
    shared.checked = true;
    stopping = item;
    fill(stop, { who: certificate.courseName }).querySelector("form").dataset.id = certificate.id;
    stop.showModal();
  });
  form.addEventListener("failed", () => (isToPrint = shared.checked = false));
  form.addEventListener("done", ({ detail }) => showCertificate(item, detail.data));
  form.addEventListener("done", () => isToPrint && print());
  return item;
}

let stopping = null; // the certificate that the dialog is about
const stop = byId("act-stop"); // on /account
stop?.addEventListener("done", ({ detail }) => {
  showCertificate(stopping, detail.data);
  stopping.querySelector("[role=status]").textContent = say("say_learning_unshared");
});

/** Load what a user has learned; `at` is the path of the user's records. */
export async function load(at) {
  const names = ["progress", "progress/days", "courses"];
  const answers = await Promise.all(names.map((name) => call("GET", `${at}/${name}`)));
  return { at, ...Object.assign({}, ...answers) };
}

/** Show it in the markup of learning.html below an element, with `more` values filled in there. */
export function render(root, { at, timezone, days: list, courses, ...progress }, more = {}) {
  path = at;
  zone = known(timezone);
  const now = dayOf(zone);
  days = new Map(list.map((one) => [one.date, one]));
  fill(root, {
    ...progress,
    time: time(courses.reduce((sum, { minutes }) => sum + minutes, 0)),
    any: courses.length,
    streak: say("say_learning_streak", { count: progress.currentStreak }),
    ofLessons: say("say_learning_of_lessons", { count: progress.totalLessons }),
    ofCourses: say("say_learning_of_courses", { count: progress.totalCourses }),
    sum: yearText(list, progress, now),
    timezone,
    courses,
    ...more,
  });
  draw(now);
  const dayLine = (one) => lineOf(day(one.date), doneText(one.lessons, one.minutes));
  part("list").querySelector("ul").replaceChildren(...list.map(dayLine).reverse());
  part("courses").replaceChildren(...courses.map(courseItem));
}

async function show(section) {
  const own = [load("users"), call("GET", "users/certificates")];
  const [learned, { certificates }] = await Promise.all(own);
  const { achievements, courses } = learned;
  const any = courses.length + certificates.length + achievements.length;
  render(section, learned, { any, achievements, certificates, settings: "#settings" });
  part("certificates").replaceChildren(...certificates.map(certificateItem));
  const earned = ({ name, earnedAt }) => lineOf(name, date(earnedAt, zone));
  part("achievements").replaceChildren(...achievements.map(earned));
}

export const sections = { learning: show };
