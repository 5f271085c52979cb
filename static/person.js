// One account: what is known about it, why its user cannot log in, and what can be done about it.
// Its parts are at #people/<id>, …/learning, …/access and …/history; …/kept is a page to print.

import { Problem, call, loadModule } from "./api.js";
import { keepChanges, showProblem } from "./forms.js";
import { latest, showEvents } from "./happened.js";
import * as learning from "./learning.js";
import { faceOf, hasWayIn, listGroups, textOf } from "./lists.js";
import { slipOf } from "./sheet.js";
import { providerOf } from "./sign-up.js";
import { customOf, languageName, moment } from "./times.js";
import { addressOf, byId, copy, fill, language, nameOf, say } from "./words.js";
import { choose, listZones } from "./zones.js";

const PARTS = ["overview", "learning", "access", "history"];
const part = byId("person");
const handout = byId("person-handout");
const back = document.querySelector("#people-back a");
const news = byId("people-news");
const menu = byId("person-menu");
const kept = byId("person-kept");
const chips = byId("person-groups"); // the last ones are to undo, and for another group
const joined = byId("person-groupId"); // the groups to add the person to
const [languages, zones] = ["language", "timezone"].map((name) => byId(`person-${name}`));
listZones(zones, "UTC");
let me = null;
let account = null;
let done = null; // what an act has done: {id, text, made, left}, until the account is loaded again

// Says whether the user can sign in, and what hinders that.
function showState({ hindrances, lockedUntil, provider, hasPassword }) {
  const place = byId("person-state");
  const until = lockedUntil && moment(lockedUntil);
  const isOut = hindrances?.length > 0;
  const words = [isOut ? "cannot" : "can", ...(hindrances ?? [])];
  if (provider && !hasPassword && !words.includes("no_password")) words.push("provider_signs_in");
  place.className = isOut ? "note warn" : "quiet";
  place.textContent = words.map((word) => say(`say_people_${word}`, { until, provider })).join(" ");
  place.hidden = !hindrances;
}

// Returns which one act is the next: the first of these that is needed, else a new code.
function todoOf({ role, isActive, lockedUntil, hindrances }, manages) {
  const needed = {
    activate: manages && !isActive,
    unlock: manages && lockedUntil !== null,
    vouch: manages && isActive && hindrances?.includes("email_unverified"),
    code: isActive && role !== "admin",
  };
  const first = Object.keys(needed).find((act) => needed[act]);
  return Object.fromEntries(Object.keys(needed).map((act) => [act, act === first]));
}

const groupNames = () => account.groups.map(({ name }) => name).join(", ");

function refill(form) {
  form.reset();
  const others = addressOf(account).noMailbox ? { email: "", deliver: "link" } : {};
  fill(form, { ...account, emailVerified: false, ...others });
  showProblem(form, null);
}

function render(manages, taken, left) {
  const { username, role, joinDate, lastLogin, id } = account;
  const at = `#people/${id}`;
  // The copy is in the person's language, if need be in a page of its own.
  const isOther = !`${account.language}-`.startsWith(`${language}-`);
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
    joined: moment(joinDate),
    lastSeen: lastLogin ? moment(lastLogin) : say("say_people_never"),
    learns: role === "student",
    todo: todoOf(account, manages),
    hasChoice: isAdmin || !account.isActive || !noMailbox || hasWayIn(account),
    kept: `${isOther ? `admin?language=${account.language}&for=person` : ""}${at}/kept`,
    ways: Object.fromEntries(PARTS.map((name, n) => [name, n ? `${at}/${name}` : at])),
    groupNames: groupNames(),
    custom: customOf(account),
    ...{ taken, groupId: left },
  });
  faceOf(account, part);
  const chip = (group) => {
    const { id: groupId, name } = group;
    const item = copy("person-group", { groupId, name, manages, href: `#groups/${groupId}` });
    item.querySelector("button").ariaLabel = say("say_people_leave", group);
    return item;
  };
  for (const old of chips.querySelectorAll("li:not(.no-print)")) old.remove();
  chips.prepend(...account.groups.map(chip));
  for (const option of joined.options) {
    option.disabled = account.groups.some((group) => group.id === option.value);
  }
  for (const form of part.querySelectorAll("form")) {
    form.dataset.id = id;
    refill(form);
  }
  showState(account);
  const refused = part.querySelectorAll("[aria-describedby=person-only-there]");
  for (const button of refused) button.disabled = isAdmin;
  byId("person-access-choice").disabled = isAdmin || !account.isActive;
  byId("person-add").open = menu.open = false;
  menu.querySelector("a").target = isOther ? "_blank" : "";
}

// Shows one of the parts; paper has all. Returns its heading: that of the first is the name.
function showPart(place) {
  const isThere = PARTS.includes(place) && !byId(`person-${place}`).hidden;
  const chosen = isThere ? place : PARTS[0];
  for (const [n, way] of [...byId("person-ways").children].entries()) {
    way.ariaCurrent = PARTS[n] === chosen ? "page" : null;
    byId(`person-${PARTS[n]}`).classList.toggle("shown", PARTS[n] === chosen);
  }
  const heading = byId(`person-${chosen}`).querySelector("h2") ?? part.querySelector("h1");
  heading.tabIndex = -1;
  return heading;
}

function closeDialogs() {
  for (const dialog of part.querySelectorAll("dialog[open]")) dialog.close();
}

/** Leave the account; say in the list what became of it. */
export function hide() {
  closeDialogs();
  part.hidden = true;
  kept.replaceChildren();
  handout.replaceChildren();
  news.textContent = done && !done.id ? done.text : "";
  if (news.textContent) news.focus();
  if (!done?.id) done = null;
}

/**
 * Load and show an account; return what gets the focus: the heading of the part at this `place`.
 * `isLate` says whether the user has gone on meanwhile.
 */
export async function show(who, id, place, isLate) {
  me = who;
  const manages = me.profile.role === "admin";
  closeDialogs();
  kept.replaceChildren();
  part.hidden ||= account?.id !== id || place === "kept";
  if (place === "kept") return (await loadModule("kept")).show(kept, id, isLate);
  const path = `users/${encodeURIComponent(id)}`;
  const [found, learned, events, record] = await Promise.all([
    call("GET", `${path}/account`),
    learning.load(path),
    manages ? latest(id) : { events: [] },
    call("GET", path).catch(() => null), // of a deactivated account there is none
    manages && listGroups(joined),
  ]);
  const provider = found.provider && (await providerOf(found.provider));
  if (isLate()) return;
  await showEvents(byId("person-history"), id, events);
  if (isLate()) return;
  const picture = record?.avatar.endsWith(part.dataset.noPicture) ? "" : (record?.avatar ?? "");
  account = { ...found, provider: provider ?? found.provider, picture };
  const { text = "", made, left } = done?.id === id ? done : {};
  if (done?.id === id) done = null;
  render(manages, left ? text : "", left);
  part.hidden = false;
  learning.render(byId("person-learning"), learned);
  handout.replaceChildren();
  const heading = showPart(place);
  document.title = `${nameOf(account)} · ${document.title}`;
  if (made?.link) {
    const slip = slipOf({ ...made, user: account, group: groupNames() });
    slip.querySelector("[name=link]").id = "person-link";
    handout.append(copy("person-handed"), slip);
  }
  news.textContent = left ? "" : text;
  if (text && id === me.profile.id) await me.reload();
  if (left) return byId("person-undo");
  return text ? news : heading;
}

part.addEventListener("prepare", (event) => {
  const { target: form, detail, detail: { body } } = event;
  detail.who = account; // another one may be shown when it is done
  news.textContent = "";
  if ("confirmation" in body && body.confirmation.trim() !== account.username) {
    event.preventDefault();
    showProblem(form, new Problem("invalid_request", { reasons: { confirmation: ["differs"] } }));
  }
  delete body.confirmation;
  delete body.groupId; // it is in the path
  Object.assign(body, JSON.parse(form.dataset.body ?? "{}"));
  keepChanges(body, { ...account, emailVerified: false }); // only true can be said
});
part.addEventListener("done", (event) => {
  const { target: form, detail: { data, who } } = event;
  event.preventDefault(); // it is said above the account, which is loaded first
  const isGone = form.dataset.done === "say_people_deleted";
  const key = data?.link ? "say_people_handed" : form.dataset.done;
  const groupId = form.elements.groupId?.value;
  const left = key === "say_people_left" && groupId;
  const text = say(key, { ...who, group: textOf(joined, groupId) });
  done = { id: isGone ? undefined : who.id, text, made: data, left };
  me.go(isGone ? back.hash.slice(1) : location.hash.slice(1));
});
part.addEventListener("click", ({ target }) => {
  if ("closes" in target.dataset) refill(target.form);
});
// Escape closes a dialog as its button does.
part.addEventListener("cancel", ({ target }) => refill(target.querySelector("form")), true);
// The menu closes when something is chosen, by Escape, and when the focus or a click goes elsewhere.
// It has the focus before a dialog opens, which gives it back.
function closeMenu() {
  menu.open = false;
  menu.firstElementChild.focus();
}
menu.addEventListener("click", ({ target }) => target.closest("button, a") && closeMenu());
menu.addEventListener("keydown", ({ key }) => key === "Escape" && closeMenu());
for (const moved of ["click", "focusin"]) {
  document.addEventListener(moved, ({ target }) => (menu.open &&= menu.contains(target)));
}
