// The list of people. What is searched for stands in the URL, #people/search=…&page=2; one account
// is at #people/<id>, and at #people/<id>/learning what this person has learned.

import { call, loadModule, userId } from "./api.js";
import { attempt, read, setBusy, showProblem } from "./forms.js";
import {
  askedOf, faceOf, filled, labelOf, listGroups, loadAll, loadMemberships, perPage, saveTable, showLocks,
  textOf,
} from "./lists.js";
import { minuteOf } from "./times.js";
import { addressOf, byId, copy, fill, nameOf, say } from "./words.js";

const PAUSE = 400; // milliseconds without a key before a search begins
const MOST_SAVED = 2000; // people in a file
const [list, back, form, acts] = ["list", "back", "form", "acts"].map((id) => byId(`people-${id}`));
const out = byId("person-out"); // in place of somebody out of reach
const all = byId("people-all"); // the box for all on the page
// Whose boxes are ticked, by their ids, whatever the list shows; until they are let go.
export const chosen = new Map();
let onPage = new Set(); // the ids of whom the list shows
let waiting = 0;
let person = null; // the module, from the first account that is opened
let asked = 0; // an answer that comes after a newer question is dropped
let shown = {}; // the query of the list
let place = {}; // where the list was left for a person: its hash, the query, and the height
let me = null;

const manages = () => me.profile.role === "admin";
const hashOf = (query) => `#people/${new URLSearchParams(query)}`;
// The boxes that the one for all stands for: in a list of one group, of those who learn in it.
const boxes = () => {
  const which = shown.groupId && !shown.role ? "[value=student]" : "";
  return [...list.querySelectorAll(`tbody input${which}:enabled`)];
};

/** Whether somebody is not on the page of the list. */
export const isAway = ({ id }) => !onPage.has(id);

/** Say by a text with a count how many these are, and how many of them are not on the page. */
export function countText(key, users, more) {
  const away = users.filter(isAway).length;
  const text = say(key, { count: users.length });
  return [text, away && say("say_people_away", { count: away }), more].filter(Boolean).join(" · ");
}

function showChosen() {
  const some = chosen.size > 0;
  const text = some ? countText("say_people_chosen", [...chosen.values()]) : "";
  fill(acts, { some, only: Boolean(shown.only), chosen: text });
  all.checked = boxes().length > 0 && boxes().every((box) => box.checked);
}

// Shows on the small screen, where filters are folded, how many are set and to what.
function showFilters() {
  const set = [...form.querySelectorAll("select:not([name=sort])")].filter(({ value }) => value);
  const texts = set.map(({ selectedOptions: [option] }) => option.text);
  fill(form, { filters: set.length || "", set: texts.join(" · ") });
}

function rowOf(user) {
  const row = faceOf(user, copy("people-row", {
    ...user,
    name: shown.sort === "name" ? `${user.lastName}, ${user.firstName}` : nameOf(user),
    email: addressOf(user).email,
    href: `#people/${user.id}`,
    roleName: say(`say_role_${user.role}`),
    isUnproven: user.hindrances.includes("email_unverified"),
    lacksPassword: user.hindrances.includes("no_password"),
    chosen: chosen.has(user.id),
  }));
  row.querySelector("a").addEventListener("click", ({ currentTarget: { hash } }) => {
    place = { hash, query: hashOf(shown), top: scrollY };
  });
  const box = row.querySelector("input");
  box.ariaLabel = say("say_people_choose", { name: nameOf(user) });
  box.value = user.role;
  box.disabled = user.id === userId(); // nobody shuts themselves out with all others
  box.addEventListener("change", () => {
    if (box.checked) chosen.set(user.id, user);
    else chosen.delete(user.id);
    showChosen();
  });
  return row;
}

// Who is chosen stays so.
async function load(query) {
  const mine = ++asked;
  if (!chosen.size) delete query.only; // after a reload, or an act
  let text = "";
  shown = query;
  back.firstElementChild.href = hashOf(query);
  showProblem(form, null);
  setBusy(form, true);
  try {
    const some = query.only ? [...chosen.values()] : [];
    const { users, page, total } = some.length
      ? { users: some, page: 1, total: some.length }
      : await call("GET", "users", { ...askedOf(query), perPage });
    if (mine !== asked) return;
    const last = some.length ? 1 : Math.ceil(total / perPage);
    if (page > last && last) return load({ ...query, page: last });
    for (const button of list.querySelectorAll("th button")) {
      const way = button.value === "name" ? "ascending" : "descending";
      button.parentElement.ariaSort = button.value === query.sort ? way : "none";
    }
    onPage = new Set(users.map(({ id }) => id));
    for (const user of users) if (chosen.has(user.id)) chosen.set(user.id, user);
    const to = (number) => (number >= 1 && number <= last ? hashOf({ ...query, page: number }) : "");
    fill(list, { previous: to(page - 1), next: to(page + 1) });
    const rows = users.map(rowOf);
    list.querySelector("tbody").replaceChildren(...rows);
    if (query.search) showLocks(users, rows, me.settings);
    list.querySelector("table").hidden = all.parentElement.hidden = !total;
    const empty = list.querySelector(".empty");
    empty.hidden = total > 0;
    const { groupId, search, role, isActive, field } = query;
    fill(empty, { isGroup: Boolean(groupId && !(search || role || isActive || field)) });
    byId("people-failures").replaceChildren();
    showChosen();
    showFilters();
    const from = (page - 1) * perPage + 1;
    const numbers = { from, to: from + users.length - 1, count: total };
    text = total ? say("say_people_range", numbers) : say("say_people_none");
  } finally {
    if (mine === asked) setBusy(form, false, text);
  }
}

// Does what the user asks the list for.
const trying = (work) => (event) => attempt(form, () => work(event));

/** Load the list again after an act. */
export const reload = trying(() => load(shown));

// Saves what the filters show, on all pages.
async function saveList() {
  const { page, ...query } = shown;
  fill(acts, { chosen: say("say_wait") });
  const [people, memberships] = await Promise.all([
    query.only && chosen.size ? [...chosen.values()] : loadAll(askedOf(query), MOST_SAVED),
    manages() ? loadMemberships() : [],
  ]).finally(showChosen);
  const { groupId, isActive } = form.elements;
  const names = ["lastName", "firstName", "username", "email", "externalId"];
  const [, , , ...others] = [...list.querySelectorAll("thead th")].map((head) => head.textContent);
  const lines = people.map((user) => {
    const states = [...rowOf(user).querySelectorAll(".badge:not([hidden])")];
    const groups = memberships.filter(({ userId: id }) => id === user.id);
    return [
      ...names.map((name) => (name === "email" && addressOf(user).noMailbox ? "" : user[name])),
      say(`say_role_${user.role}`),
      states.map((state) => state.textContent).join(", ") || textOf(isActive, "true"),
      user.lastLogin ? minuteOf(user.lastLogin) : "",
      ...(manages() ? [groups.map((group) => textOf(groupId, group.groupId)).join(", ")] : []),
      ...Object.values(user.customFields).map((value) => value ?? ""),
    ];
  });
  if (manages()) others.push(groupId.labels[0].textContent);
  // As lists of people name them, so that what was changed in the file can be brought back.
  others.push(...Object.keys(people[0]?.customFields ?? {}).map((name) => `fields.${name}`));
  const title = list.querySelector("caption").textContent;
  const name = groupId.value ? `${title} ${groupId.selectedOptions[0].text}` : title;
  saveTable(name, [[...names.map(labelOf), ...others], ...lines]);
}

function search() {
  clearTimeout(waiting);
  if (form.offsetParent === null) return; // the user has gone on
  return open(filled(read(form)));
}

function open(query) {
  history.replaceState(null, "", hashOf(query));
  return load(query);
}

async function ask({ target }) {
  const button = target.closest("button");
  const { only, page, ...rest } = shown;
  if (button?.value === "let-go") {
    chosen.clear();
    all.focus();
    return load(shown);
  }
  if (button?.value === "only") return open(only ? rest : { ...rest, only: "chosen" });
  if (button && !button.ariaExpanded) (await loadModule("many")).ask(button);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  trying(search)();
});
form.addEventListener("input", ({ target }) => {
  clearTimeout(waiting);
  waiting = setTimeout(trying(search), target.type === "search" ? PAUSE : 0);
});
all.addEventListener("change", () => {
  const { checked } = all; // each box changes it
  for (const box of boxes()) if (box.checked !== checked) box.click();
});
for (const part of [acts, byId("people-pick")]) part.addEventListener("click", trying(ask));
// A click on a heading sorts by it, a second one by the newest again.
list.querySelector("thead").addEventListener("click", ({ target: { value } }) => {
  if (!value) return;
  const { sort } = form.elements;
  sort.value = sort.value === value ? "" : value;
  trying(search)();
});
byId("people-save").addEventListener("click", trying(saveList));

async function show(section, who, rest = "", part = "") {
  clearTimeout(waiting);
  const isPerson = rest !== "" && !rest.includes("=");
  list.hidden = isPerson;
  out.hidden = true;
  back.hidden = !isPerson;
  section.querySelector("h1").hidden = isPerson; // the name takes its place
  me = who;
  form.elements.role.closest(".field").hidden = !manages(); // teachers see one only
  if (isPerson) {
    const mine = ++asked;
    person ??= await loadModule("person");
    return person.show(me, rest, part, () => mine !== asked).catch((problem) => {
      out.hidden = problem.code !== "forbidden";
      return out.hidden ? Promise.reject(problem) : out.querySelector("h1");
    });
  }
  person?.hide();
  const query = Object.fromEntries(new URLSearchParams(rest));
  const { groupId, field } = form.elements;
  if (query.groupId) groupId.add(new Option("…", query.groupId)); // until the groups are listed
  fill(form, { search: "", role: "", isActive: "", groupId: "", field: "", sort: "", ...query });
  for (const part of [acts, form, list.querySelector(".empty")]) fill(part, { manages: manages() });
  if (field) field.parentElement.hidden = !field.querySelector("[value]:not([value=''], [hidden])");
  const tellOfField = (it) => (it.reasons?.field ? showProblem(form, it) : Promise.reject(it));
  await Promise.all([load(query).catch(tellOfField), listGroups(groupId)]);
  showFilters();
  const { hash, top, query: left } = place;
  place = {};
  if (left !== hashOf(query)) return;
  scrollTo(0, top);
  return list.querySelector(`[href="${hash}"]`); // of who was opened there
}

export const sections = { people: show };
