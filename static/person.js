// One account: what is known about it, why its user cannot log in, and what can be done about it.

import { Problem, call } from "./api.js";
import { showProblem } from "./forms.js";
import { latest, showEvents } from "./happened.js";
import * as learning from "./learning.js";
import { faceOf, hasWayIn, listGroups, saveData } from "./lists.js";
import { slipOf } from "./sheet.js";
import { providerOf } from "./sign-up.js";
import { addressOf, byId, copy, fill, languageName, moment, nameOf, say } from "./words.js";
import { choose, listZones } from "./zones.js";

const part = byId("person");
const handout = byId("person-handout");
const back = document.querySelector("#people-back a");
const news = byId("people-news");
const joining = byId("person-join");
const [languages, zones] = ["language", "timezone"].map((name) =>
  part.querySelector(`[name=${name}]`),
);
listZones(zones, "UTC");
let me = null;
let account = null;
let done = null; // what an act has done: {id, text, made}, until the account is loaded again

// Says whether the user can sign in, and what hinders that.
function showState({ hindrances, lockedUntil, provider, hasPassword }) {
  const place = byId("person-state");
  const until = lockedUntil && moment(lockedUntil);
  const isOut = hindrances?.length > 0;
  const words = [isOut ? "cannot" : "can", ...(hindrances ?? [])];
  if (provider && !hasPassword && !words.includes("no_password")) words.push("provider_signs_in");
  place.classList.toggle("warn", isOut);
  place.textContent = words.map((word) => say(`say_people_${word}`, { until, provider })).join(" ");
  place.hidden = !hindrances;
}

function refill(form) {
  form.reset();
  const others = addressOf(account).noMailbox ? { email: "", deliver: "link" } : {};
  fill(form, { ...account, emailVerified: false, ...others });
  showProblem(form, null);
}

function render(manages) {
  const { username, role, joinDate, lastLogin, lockedUntil, id } = account;
  const isAdmin = role === "admin";
  const { email: address, noMailbox, isOpen: canVouch } = addressOf(account);
  choose(zones, account.timezone);
  choose(languages, account.language);
  for (const option of languages.options) option.text = languageName(option.value);
  fill(part, {
    ...account,
    manages,
    isAdmin,
    hasWayIn: hasWayIn(account),
    hasFactor: account.secondFactor || account.passkeys > 0,
    isReached: !noMailbox,
    address,
    canVouch,
    mustBeActive: !account.isActive && !isAdmin,
    name: nameOf(account),
    who: `${nameOf(account)} (${username})`,
    roleName: say(`say_role_${role}`),
    languageName: languageName(account.language),
    joined: moment(joinDate),
    lastSeen: lastLogin ? moment(lastLogin) : say("say_people_never"),
    locked: lockedUntil && moment(lockedUntil),
    learns: role === "student",
    mayHaveCode: account.isActive && !isAdmin,
    groupNames: account.groups.map((group) => group.name).join(", "),
  });
  faceOf(account, part);
  const chip = (group) => {
    const { id: groupId, name } = group;
    const item = copy("person-group", { groupId, name, manages, href: `#groups/${groupId}` });
    item.querySelector("button").ariaLabel = say("say_people_leave", group);
    return item;
  };
  byId("person-groups").replaceChildren(...account.groups.map(chip));
  const own = new Set(account.groups.map((group) => group.id));
  for (const option of [...joining.elements.groupId]) if (own.has(option.value)) option.remove();
  for (const form of part.querySelectorAll("form")) {
    form.dataset.id = id;
    refill(form);
  }
  showState(account);
  const refused = part.querySelectorAll("[aria-describedby=person-only-there]");
  for (const button of refused) button.disabled = isAdmin;
  byId("person-access").disabled = isAdmin || !account.isActive;
}

function showHandout(made) {
  const group = account.groups.map(({ name }) => name).join(", ");
  const slip = slipOf({ ...made, user: account, group });
  slip.querySelector("[name=link]").id = "person-link";
  handout.replaceChildren(copy("person-handed"), slip);
}

function showNews(text) {
  news.textContent = text;
  if (text) news.focus();
}

function closeDialogs() {
  for (const dialog of part.querySelectorAll("dialog[open]")) dialog.close();
}

/** Leave the account; say in the list what became of it. */
export function hide() {
  closeDialogs();
  part.hidden = true;
  handout.replaceChildren();
  showNews(done && !done.id ? done.text : "");
  done = null;
}

/**
 * Load and show an account; return what gets the focus: its name, or what the `place` says.
 * `isLate` says whether the user has gone on meanwhile.
 */
export async function show(who, id, place, isLate) {
  me = who;
  const manages = me.profile.role === "admin";
  closeDialogs();
  if (account?.id !== id) part.hidden = true;
  const path = `users/${encodeURIComponent(id)}`;
  const [found, learned, events, record] = await Promise.all([
    call("GET", `${path}/account`),
    learning.load(path),
    manages ? latest(id) : { events: [] },
    call("GET", path).catch(() => null), // of a deactivated account there is none
    manages && listGroups(joining.elements.groupId),
  ]);
  const [provider] = await Promise.all([
    found.provider && providerOf(found.provider),
    showEvents(byId("person-happened"), id, events),
  ]);
  if (isLate()) return;
  const picture = record?.avatar.endsWith(part.dataset.noPicture) ? "" : (record?.avatar ?? "");
  account = { ...found, provider: provider ?? found.provider, picture };
  render(manages);
  part.hidden = false;
  const learnt = byId("person-learning");
  learning.render(learnt, learned);
  handout.replaceChildren();
  const heading = part.querySelector("h1");
  document.title = `${heading.textContent} · ${document.title}`;
  const made = done?.id === id ? done.made : null;
  if (made?.link) showHandout(made);
  const isNews = done?.id === id;
  showNews(isNews ? done.text : "");
  done = null;
  if (isNews && id === me.profile.id) await me.reload();
  return isNews ? news : place ? learnt.querySelector("h2") : heading;
}

part.addEventListener("prepare", (event) => {
  const { target: form, detail: { body } } = event;
  news.textContent = "";
  if ("confirmation" in body && body.confirmation.trim() !== account.username) {
    event.preventDefault();
    showProblem(form, new Problem("invalid_request", { reasons: { confirmation: ["differs"] } }));
  }
  delete body.confirmation;
  delete body.groupId; // it is in the path
  Object.assign(body, JSON.parse(form.dataset.body ?? "{}"));
  // Only what was changed here: somebody else may have changed the rest.
  for (const name in body) {
    const isAsked = name === "emailVerified" ? body[name] : body[name] !== account[name];
    if (!isAsked) delete body[name];
  }
});
part.addEventListener("done", (event) => {
  const { target: form, detail: { data } } = event;
  event.preventDefault(); // it is said above the account, which is loaded first
  if (form.id === "person-export") return saveData(account.username, data);
  const isGone = form.dataset.done === "say_people_deleted";
  const key = data?.link ? "say_people_handed" : form.dataset.done;
  done = { id: isGone ? undefined : account.id, text: say(key, account), made: data };
  me.go(isGone ? back.hash.slice(1) : `people/${account.id}`);
});
part.addEventListener("click", ({ target }) => {
  if ("closes" in target.dataset) refill(target.form);
});
// Escape closes a dialog as its button does.
part.addEventListener("cancel", ({ target }) => refill(target.querySelector("form")), true);
