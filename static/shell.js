// The router: who is signed in, and which section is shown; data-signed-out: to visitors.

import {
  ASKS, Problem, brought, call, inTab, isBrought, loadModule, onChange, resume, stored, userId,
} from "./api.js";
import { explain, showText } from "./forms.js";
import { addressOf, byId, fill, language, say } from "./words.js";

// What a link brings leaves the URL first of all.
if (brought) history.replaceState(history.state, "", location.pathname + location.search);
const sent = /^(request|leave)=/.test(brought) ? `#${brought}` : ""; // by an application

const all = [...document.querySelectorAll("main > section")];
const busy = byId("busy");
const trouble = byId("trouble");
const menu = byId("menu"); // on small screens
const site = document.title;
for (const section of all) section.querySelector("h1").tabIndex = -1; // it gets the focus

// What sections get. links.js and provider.js clear `brought`, applications.js `asked`.
const me = { profile: null, settings: null, reload, go, brought: sent ? null : brought };
me.asked = byId("going") && (sent || inTab(ASKS));
// A page that leads to no provider has nothing to do with the code of one.
if (brought?.has("provider") && !document.querySelector(".providers")) me.brought = null;
// The pages that links open have no section for users.
const isIn = () => userId() !== null && byId("sign-in") !== null;
const goOn = async () => me.asked && (await loadModule("applications")).answer(me);

// Reloads the page once in the user's language; the service may not have it.
function switchLanguage(wanted) {
  const url = new URL(location);
  // What a link brings would be lost; a page for somebody else is in the language of that person.
  if (me.brought || url.searchParams.has("for")) return;
  const isRight = wanted === language || wanted.startsWith(`${language}-`);
  if (!wanted || isRight || url.searchParams.get("language") === wanted) return;
  url.searchParams.set("language", wanted);
  return new Promise(() => location.replace(url));
}

/** Load who is signed in anew: after a change of the profile, the settings or the address. */
async function reload() {
  if (!me.profile) await goOn();
  const [profile, settings, { setZone }] = await Promise.all([
    call("GET", "users/profile"),
    call("GET", "users/settings"),
    loadModule("times"),
  ]);
  Object.assign(me, { profile, settings });
  document.documentElement.dataset.theme = settings.theme;
  stored("theme", settings.theme); // for theme.js
  await switchLanguage(settings.language);
  const timeZone = setZone(settings.timezone) ?? "";
  fill(document.body, { user: profile, timeZone, isOpen: addressOf(profile).isOpen });
  for (const way of document.querySelectorAll("header [data-roles]")) {
    const { roles } = way.dataset;
    way.hidden = roles !== "" && !roles.split(" ").includes(profile.role);
  }
}

// Returns the section that the URL names, if it is open to the user; else that of the role, or the
// first.
function find(id) {
  const isClosed = (section) => document.querySelector(`nav a[hidden][href="#${section.id}"]`);
  const isFor = ({ dataset }) => "signedOut" in dataset !== isIn();
  const open = all.filter((section) => isFor(section) && !isClosed(section));
  const names = [id, { student: "learning", admin: "people" }[me.profile?.role]];
  return names.map((name) => open.find((section) => section.id === name)).find(Boolean) ?? open[0];
}

let asked = 0; // what comes after a newer question is dropped

// Shows the section of the URL. One that was left because its session ended is shown as it was.
async function route({ focus = true, keep = false } = {}) {
  const mine = ++asked;
  const isAlone = await goOn();
  if (mine !== asked) return;
  const [id, ...rest] = location.hash.slice(1).split("/");
  const section = isAlone ? byId("going") : find(id);
  for (const other of all) other.hidden = other !== section;
  // An open dialog blocks the whole page, even from a section that is hidden.
  for (const dialog of document.querySelectorAll("[hidden] dialog[open]")) dialog.close();
  for (const part of document.querySelectorAll(".who, nav, #menu")) part.hidden = isAlone || !isIn();
  menu.ariaExpanded = "false";
  for (const way of document.querySelectorAll("nav a")) {
    way.ariaCurrent = way.hash === `#${section.id}` ? "page" : null;
  }
  document.body.classList.toggle("signed-out", isAlone || !isIn());
  const heading = section.querySelector("h1");
  document.title = `${heading.textContent} · ${site}`;
  if (id === "sign-in" && rest[0] && isIn()) {
    (await loadModule("shared")).askWho(me.profile, rest[0], location.hash);
  }
  trouble.hidden = true;
  busy.textContent = "";
  if (focus) heading.focus();
  const { module } = section.dataset;
  if (!module || (keep && section.dataset.shown)) return;
  const delay = section.dataset.shown ? 400 : 0; // milliseconds
  const late = setTimeout(() => (busy.textContent = say("say_wait")), delay);
  section.ariaBusy = "true";
  try {
    const { sections } = await loadModule(module);
    if (mine !== asked) return;
    const start = await sections[section.id](section, me, ...(section.id === id ? rest : []));
    section.dataset.shown = "yes";
    if (mine === asked) start?.focus();
  } catch (problem) {
    if (mine === asked) complain(problem);
  } finally {
    clearTimeout(late);
    section.ariaBusy = "false";
    if (mine === asked) busy.textContent = "";
  }
}

/** Show a section: go("people/…"). */
function go(hash) {
  if (location.hash.slice(1) === hash) return route();
  location.hash = hash;
}

function complain(problem) {
  if (!(problem instanceof Problem)) throw problem; // a mistake of ours
  if (problem.status === 401) return; // the sign-in is shown
  busy.textContent = "";
  trouble.hidden = false;
  showText(trouble.querySelector("[role=alert]"), explain(problem));
}

const trying = (work) => (event) => work(event).catch(complain);

const begin = trying(async () => {
  // Nobody is signed in on the pages of links, which have no such section.
  const way = sent || (location.hash.startsWith("#sign-in/") ? location.hash : "");
  if (byId("sign-in") && (await resume(way))) await reload();
  if (me.brought?.has("provider")) await (await loadModule("provider")).comeBack(me);
  await route({ focus: false });
});

onChange(
  trying(async (hasBegun) => {
    if (hasBegun) {
      await (await loadModule("shared")).leadOn(me);
      await reload();
    }
    await route({ keep: true });
    byId("ended").textContent = hasBegun ? "" : say("say_session_ended");
    const name = document.querySelector("#sign-in [name=email]");
    if (!hasBegun) name.value ||= me.profile?.username ?? "";
  }),
);
// While the profile is being loaded, a section could not be filled; it is shown after that.
addEventListener("hashchange", trying(async () => {
  if (isBrought(location.hash)) location.reload(); // another link, pasted into this page
  else if (me.profile || !isIn()) await route();
}));
// The fragment names a section, so the link to the content does not go there.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.querySelector("main > :not([hidden]) h1:not([hidden])")?.focus();
});
trouble.querySelector("button").onclick = trying(async () => (me.profile ? route() : begin()));
menu.onclick = () => (menu.ariaExpanded = String(menu.ariaExpanded === "false"));
addEventListener("keydown", ({ key }) => key === "Escape" && (menu.ariaExpanded = "false"));
// The address may have been confirmed meanwhile, in another tab or on a phone.
document.addEventListener("visibilitychange", trying(async () => {
  if (document.hidden || !userId() || !me.profile || !addressOf(me.profile).isOpen) return;
  await reload();
  if (me.profile.emailVerified) await route({ focus: false });
}));
byId("sign-out").addEventListener("click", trying(async () => {
  const { logOut } = await loadModule("shared");
  const issuer = me.profile?.provider;
  await logOut(issuer ? `#signed-out/${encodeURIComponent(issuer)}` : "");
}));
document.addEventListener("submit", (event) => {
  const { target, submitter } = event;
  if (!target.matches(".providers")) return;
  event.preventDefault();
  loadModule("provider").then(({ leave }) => leave(target, submitter.name)).catch(complain);
});
begin();
