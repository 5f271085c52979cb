// The list of people. What is searched for stands in the URL, #people/search=…&page=2; one account
// is at #people/<id>, and at #people/<id>/learning what this person has learned.

import { call, loadModule, userId } from "./api.js";
import { read, setBusy, showProblem } from "./forms.js";
import { labelOf, listGroups, loadAll, perPage, saveTable } from "./lists.js";
import { attempt } from "./run.js";
import { addressOf, copy, date, fill, say } from "./words.js";

const PAUSE = 400; // milliseconds without a key before a search begins
const MOST_SAVED = 2000; // people in a file
const byId = (id) => document.getElementById(id);
const [list, back, form, acts] = ["list", "back", "form", "acts"].map((id) => byId(`people-${id}`));
const out = byId("person-out"); // in place of somebody out of reach
const all = byId("people-all"); // the box for all on the page
export const chosen = new Map(); // whose boxes are ticked, by their ids
let waiting = 0;
let person = null; // the module, from the first account that is opened
let asked = 0; // an answer that comes after a newer question is dropped
let shown = {}; // the query of the list

const hashOf = (query) => `#people/${new URLSearchParams(query)}`;
const boxes = () => [...list.querySelectorAll("tbody input:enabled")];

function showChosen() {
  const count = chosen.size;
  fill(acts, { some: count > 0, chosen: count ? say("say_people_chosen", { count }) : "" });
  all.checked = count > 0 && count === boxes().length;
}

function rowOf(user) {
  const name = `${user.firstName} ${user.lastName}`;
  const row = copy("people-row", {
    ...user,
    name,
    email: addressOf(user).email,
    href: `#people/${user.id}`,
    roleName: say(`say_role_${user.role}`),
    // Who signs in with a provider needs no password.
    hasWayIn: user.hasPassword || Boolean(user.provider),
    isWell: user.isActive && (user.hasPassword || Boolean(user.provider)),
    lastSeen: user.lastLogin ? date(user.lastLogin) : say("say_people_never"),
    chosen: chosen.has(user.id),
  });
  const box = row.querySelector("input");
  box.ariaLabel = say("say_people_choose", { name });
  box.disabled = user.id === userId(); // nobody shuts themselves out with all others
  box.addEventListener("change", () => {
    if (box.checked) chosen.set(user.id, user);
    else chosen.delete(user.id);
    showChosen();
  });
  return row;
}

// Nobody is chosen then, or of those who are there, the same as before.
async function load(query, keeps = false) {
  const mine = ++asked;
  let text = "";
  shown = query;
  back.firstElementChild.href = hashOf(query);
  showProblem(form, null);
  setBusy(form, true);
  try {
    // "Schmidt, Lea" is a name, too.
    const search = query.search?.replaceAll(",", " ");
    const asking = { ...query, ...(search && { search }), perPage };
    const { users, page, total } = await call("GET", "users", asking);
    if (mine !== asked) return;
    const last = Math.ceil(total / perPage);
    if (page > last && last) return load({ ...query, page: last }, keeps);
    const stays = (id) => keeps && users.some((user) => user.id === id);
    for (const id of chosen.keys()) if (!stays(id)) chosen.delete(id);
    const to = (number) => (number >= 1 && number <= last ? hashOf({ ...query, page: number }) : "");
    fill(list, { previous: to(page - 1), next: to(page + 1) });
    list.querySelector("tbody").replaceChildren(...users.map(rowOf));
    list.querySelector("table").hidden = all.parentElement.hidden = !total;
    list.querySelector(".empty").hidden = total > 0;
    byId("people-failures").replaceChildren();
    showChosen();
    const from = (page - 1) * perPage + 1;
    const numbers = { from, to: from + users.length - 1, count: total };
    text = total ? say("say_people_range", numbers) : say("say_people_none");
  } finally {
    if (mine === asked) setBusy(form, false, text);
  }
}

// Does what the user asks the list for.
const trying = (work) => (event) => attempt(form, () => work(event));

/** Load the list again after an act; who is still chosen stays so. */
export const reload = trying(() => load(shown, true));

// Saves what the filters show, on all pages.
async function saveList() {
  const { page, ...query } = shown;
  fill(acts, { chosen: say("say_wait") });
  const people = await loadAll(query, MOST_SAVED).finally(showChosen);
  const names = ["lastName", "firstName", "username", "email", "externalId"];
  const [, , , ...others] = [...list.querySelectorAll("th")].map((head) => head.textContent);
  const lines = people.map((user) => {
    const states = [...rowOf(user).querySelectorAll(".badge:not([hidden])")];
    return [
      ...names.map((name) => (name === "email" && addressOf(user).noMailbox ? "" : user[name])),
      ...[say(`say_role_${user.role}`), states.map((state) => state.textContent).join(", ")],
      user.lastLogin ?? "",
    ];
  });
  const title = list.querySelector("caption").textContent;
  const [group] = form.elements.groupId.selectedOptions;
  saveTable(group.value ? `${title} ${group.text}` : title, [[...names.map(labelOf), ...others], ...lines]);
}

function search() {
  clearTimeout(waiting);
  if (form.offsetParent === null) return; // the user has gone on
  const entries = Object.entries(read(form)).filter(([, value]) => value.trim());
  const query = Object.fromEntries(entries);
  history.replaceState(null, "", hashOf(query));
  return load(query);
}

async function ask({ target }) {
  if (!target.matches("[value]")) return;
  (await loadModule("many")).ask(target);
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
acts.addEventListener("click", trying(ask));
byId("people-save").addEventListener("click", trying(saveList));

async function show(section, me, rest = "", part = "") {
  clearTimeout(waiting);
  const isPerson = rest !== "" && !rest.includes("=");
  list.hidden = isPerson;
  out.hidden = true;
  back.hidden = !isPerson;
  section.querySelector("h1").hidden = isPerson; // the name takes its place
  const manages = me.profile.role === "admin";
  form.elements.role.closest(".field").hidden = !manages; // teachers see one only
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
  const { groupId } = form.elements;
  if (query.groupId) groupId.add(new Option("", query.groupId)); // until the groups are listed
  fill(form, { search: "", role: "", isActive: "", groupId: "", sort: "", ...query });
  fill(acts, { manages });
  await Promise.all([load(query), listGroups(groupId)]);
}

export const sections = { people: show };
