// The section "settings": the look, the language, the time zone, messages and privacy.

import { attempt } from "./forms.js";
import { languageName } from "./times.js";
import { addressOf, byId, fill } from "./words.js";
import { choose, chooseHere, listZones } from "./zones.js";

const section = byId("settings");
const theme = byId("settings-theme");
const [languages, zones] = ["settings-language", "settings-timezone"].map(byId);
const again = new Set(); // forms that were changed while they were at work
let me;

function show(_, user) {
  me = user;
  if (section.dataset.shown) return; // something may be chosen and not saved
  listZones(zones, me.settings.timezone);
  choose(languages, me.settings.language);
  for (const option of languages.options) {
    Object.assign(option, { text: languageName(option.value), lang: option.value });
  }
  fill(section, { ...me.settings, noMailbox: addressOf(me.profile).noMailbox });
}

// Only what was changed is sent: another device may have changed the rest.
section.addEventListener("prepare", ({ detail: { body } }) => {
  for (const [name, value] of Object.entries(body)) {
    if (value === me.settings[name]) delete body[name];
  }
});
section.addEventListener("done", ({ target, detail: { data } }) => {
  me.settings = data;
  if (again.delete(target)) return target.requestSubmit();
  attempt(target, me.reload);
});
// What is one choice is saved at once; a form has a button.
section.addEventListener("change", ({ target: { form } }) => {
  if (form === theme) document.documentElement.dataset.theme = theme.elements.theme.value;
  if (!form.matches(".once")) return;
  if (form.ariaBusy === "true") again.add(form);
  else form.requestSubmit();
});
section.addEventListener("failed", ({ target }) => {
  again.delete(target);
  if (target.querySelector("[role=switch]")) fill(target, me.settings);
});
byId("settings-here").addEventListener("click", () => {
  chooseHere(zones);
  zones.focus();
});

export const sections = { settings: show };
