// One account: what is known about it, why its user cannot log in, and what can be done about it.

import { Problem, call } from "./api.js";
import { showProblem } from "./forms.js";
import { copy, fill, languageName, moment, number, pictureOf, say } from "./words.js";

const part = document.getElementById("person");
const handout = document.getElementById("person-handout");
const back = document.querySelector("#people-back a");
const news = document.getElementById("people-news");
const tags = [...part.querySelector("[name=language]").options].map(({ value }) => value);
let me = null;
let account = null;
let options = null;
let done = null; // what an act has done: {id, text, made}, until the account is loaded again

// Returns the sentences that say what keeps the user from logging in, or that nothing does.
function state({ isActive, lockedUntil, hasPassword, emailVerified }) {
  const hindrances = [
    !isActive && say("say_people_inactive"),
    lockedUntil && say("say_people_locked", { until: moment(lockedUntil) }),
    !hasPassword && say("say_people_without_password"),
    !emailVerified && options.emailVerificationRequired && say("say_people_unverified"),
  ].filter(Boolean);
  const place = document.getElementById("person-state");
  place.classList.toggle("warn", hindrances.length > 0);
  place.textContent = hindrances.join(" ") || say("say_people_can_log_in");
}

function offer(name, values, text) {
  const items = [...new Set(values)].map((value) => new Option(text(value), value));
  part.querySelector(`select[name=${name}]`).replaceChildren(...items);
}

function refill(form) {
  form.reset();
  fill(form, { ...account, emailVerified: false });
  showProblem(form, null);
}

function render(manages, learned, courses) {
  const { firstName, lastName, role, joinDate, lastLogin, lockedUntil, id } = account;
  const isAdmin = role === "admin";
  offer("language", [...tags, account.language], languageName);
  offer("timezone", [...Intl.supportedValuesOf("timeZone"), "UTC", account.timezone], (zone) => zone);
  fill(part, {
    ...account,
    manages,
    isAdmin,
    mustBeActive: !account.isActive && !isAdmin,
    name: `${firstName} ${lastName}`,
    roleName: say(`say_role_${role}`),
    languageName: languageName(account.language),
    joined: moment(joinDate),
    lastSeen: lastLogin ? moment(lastLogin) : say("say_people_never"),
    locked: lockedUntil ? moment(lockedUntil) : say("say_people_not_locked"),
    learned: learned && {
      courses: say("say_people_of", { done: learned.completedCourses, all: learned.totalCourses }),
      lessons: say("say_people_of", { done: learned.completedLessons, all: learned.totalLessons }),
      hours: number(learned.totalHours),
      streak: learned.currentStreak,
    },
  });
  for (const form of part.querySelectorAll("form")) {
    form.dataset.id = id;
    refill(form);
  }
  state(account);
  for (const button of part.querySelectorAll("[data-not-for-admins]")) button.disabled = isAdmin;
  document.getElementById("person-access").disabled = isAdmin || !account.isActive;
  const items = courses.map(({ name, completedLessons, lessons }) => {
    const item = document.createElement("li");
    item.append(
      Object.assign(document.createElement("bdi"), { textContent: name }),
      `: ${say("say_people_of", { done: completedLessons, all: lessons })}`,
    );
    return item;
  });
  const list = document.getElementById("person-courses");
  list.replaceChildren(...items);
  list.hidden = !items.length;
}

function hand({ link, code, qrCode, expiresAt }) {
  const { firstName, lastName, username } = account;
  const name = `${firstName} ${lastName}`;
  const [page] = link.split("#");
  const about = { name, username, page, link, code, picture: pictureOf(qrCode), until: moment(expiresAt) };
  handout.replaceChildren(copy("person-handed", about));
}

function tell(text) {
  news.textContent = text;
  if (text) news.focus();
}

function closeDialogs() {
  for (const dialog of part.querySelectorAll("dialog[open]")) dialog.close();
}

/** Leave the account; tell in the list what became of it. */
export function hidePerson() {
  closeDialogs();
  part.hidden = true;
  handout.replaceChildren();
  tell(done && !done.id ? done.text : "");
  done = null;
}

/** Load and show an account; `isLate` says whether the user has gone on meanwhile. */
export async function showPerson(who, id, isLate) {
  me = who;
  const manages = me.profile.role === "admin";
  closeDialogs();
  if (account?.id !== id) part.hidden = true;
  const path = `users/${encodeURIComponent(id)}`;
  const [found, rules, learned, learning] = await Promise.all([
    call("GET", `${path}/account`),
    options ?? call("GET", "auth/options"),
    manages && call("GET", `${path}/progress`),
    manages && call("GET", `${path}/courses`),
  ]);
  if (isLate()) return;
  account = found;
  options = rules;
  render(manages, learned, learning ? learning.courses : []);
  part.hidden = false;
  handout.replaceChildren();
  const heading = part.querySelector(".card h2");
  document.title = `${heading.textContent} · ${document.title}`;
  const made = done?.id === id ? done.made : null;
  if (made?.link) hand(made);
  if (done?.id === id) tell(done.text);
  else {
    tell("");
    heading.focus();
  }
  const isOwn = done?.id === id && id === me.profile.id;
  done = null;
  if (isOwn) await me.reload();
}

part.addEventListener("prepare", (event) => {
  const { target: form, detail: { body } } = event;
  news.textContent = "";
  if ("confirmation" in body && body.confirmation.trim() !== account.username) {
    event.preventDefault();
    showProblem(form, new Problem("invalid_request", { reasons: { confirmation: ["differs"] } }));
  }
  delete body.confirmation;
  Object.assign(body, JSON.parse(form.dataset.body ?? "{}"));
  // Only what was changed here: somebody else may have changed the rest.
  for (const name in body) {
    const isAsked = name === "emailVerified" ? body[name] : body[name] !== account[name];
    if (!isAsked) delete body[name];
  }
});
part.addEventListener("done", ({ target: form, detail: { data } }) => {
  const isGone = form.dataset.says === "say_people_deleted";
  const key = data?.link ? "say_people_handed" : form.dataset.says;
  done = { id: isGone ? undefined : account.id, text: say(key, account), made: data };
  me.go(isGone ? back.hash.slice(1) : `people/${account.id}`);
});
part.addEventListener("click", ({ target }) => {
  if ("closes" in target.dataset) refill(target.form);
  if ("prints" in target.dataset) print();
});
// Escape closes a dialog as its button does.
part.addEventListener("cancel", ({ target }) => refill(target.querySelector("form")), true);
