// The list of people. What is searched for stands in the URL, #people/search=…&page=2; one account
// is at #people/<id>.

import { call, loadModule } from "./api.js";
import { read, setBusy, showProblem } from "./forms.js";
import { addressOf, copy, date, fill, say } from "./words.js";

const PAUSE = 400; // milliseconds without a key before a search begins
const list = document.getElementById("people-list");
const back = document.getElementById("people-back");
const form = document.getElementById("people-form");
let waiting = 0;
let person = null; // the module, from the first account that is opened
let asked = 0; // an answer that comes after a newer question is dropped

const hashOf = (query) => `#people/${new URLSearchParams(query)}`;

function rowOf(user) {
  return copy("people-row", {
    ...user,
    email: addressOf(user).email,
    href: `#people/${user.id}`,
    name: `${user.firstName} ${user.lastName}`,
    roleName: say(`say_role_${user.role}`),
    isWell: user.isActive && user.hasPassword,
    lastSeen: user.lastLogin ? date(user.lastLogin) : say("say_people_never"),
  });
}

async function load(query) {
  const mine = ++asked;
  let text = "";
  back.firstElementChild.href = hashOf(query);
  showProblem(form, null);
  setBusy(form, true);
  try {
    const { users, page, perPage, total } = await call("GET", "users", query);
    if (mine !== asked) return;
    const last = Math.ceil(total / perPage);
    if (page > last && last) return load({ ...query, page: last });
    const to = (number) => (number >= 1 && number <= last ? hashOf({ ...query, page: number }) : "");
    fill(list, { previous: to(page - 1), next: to(page + 1) });
    list.querySelector("tbody").replaceChildren(...users.map(rowOf));
    list.querySelector("table").hidden = !total;
    list.querySelector(".empty").hidden = total > 0;
    const from = (page - 1) * perPage + 1;
    const numbers = { from, to: from + users.length - 1, count: total };
    text = total ? say("say_people_range", numbers) : say("say_people_none");
  } finally {
    if (mine === asked) setBusy(form, false, text);
  }
}

async function search() {
  clearTimeout(waiting);
  if (form.offsetParent === null) return; // the user has gone on
  const entries = Object.entries(read(form)).filter(([, value]) => value.trim());
  const query = Object.fromEntries(entries);
  history.replaceState(null, "", hashOf(query));
  try {
    await load(query);
  } catch (problem) {
    if (!problem.code) throw problem; // a mistake of ours
    if (problem.status !== 401) showProblem(form, problem);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
form.addEventListener("input", ({ target }) => {
  clearTimeout(waiting);
  waiting = setTimeout(search, target.type === "search" ? PAUSE : 0);
});

async function show(section, me, rest = "") {
  clearTimeout(waiting);
  const isPerson = rest !== "" && !rest.includes("=");
  list.hidden = isPerson;
  back.hidden = !isPerson;
  section.querySelector("h1").classList.toggle("visually-hidden", isPerson); // the name leads
  form.elements.role.closest(".field").hidden = me.profile.role !== "admin"; // teachers see one only
  if (isPerson) {
    const mine = ++asked;
    person ??= await loadModule("person");
    await person.show(me, rest, () => mine !== asked);
    return;
  }
  person?.hide();
  const query = Object.fromEntries(new URLSearchParams(rest));
  fill(form, { search: "", role: "", isActive: "", ...query });
  await load(query);
}

export const sections = { people: show };
