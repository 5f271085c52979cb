// The section "settings": the look, the language, the time zone, messages and privacy.

import { Problem } from "./api.js";
import { showProblem } from "./forms.js";
import { fill, languageName } from "./words.js";

const section = document.getElementById("settings");
const theme = document.getElementById("settings-theme");
const [languages, zones] = ["language", "timezone"].map((name) =>
  document.getElementById(`settings-${name}`),
);
let me;

// Adds a value that the list does not have, such as one that another client has stored.
function offer(list, value) {
  if (![...list.options].some((option) => option.value === value)) list.add(new Option(value, value));
}

// In groups, so that typing the first letters of a city finds it.
function listZones() {
  for (const zone of Intl.supportedValuesOf("timeZone")) {
    const [area, ...city] = zone.split("/");
    if (zones.lastElementChild?.label !== area) {
      zones.append(Object.assign(document.createElement("optgroup"), { label: area }));
    }
    zones.lastElementChild.append(new Option((city.join(", ") || zone).replaceAll("_", " "), zone));
  }
}

function show(_, user) {
  me = user;
  if (section.dataset.shown) return; // something may be chosen and not saved
  listZones();
  offer(zones, "UTC");
  offer(zones, me.settings.timezone);
  offer(languages, me.settings.language);
  for (const option of languages.options) {
    Object.assign(option, { text: languageName(option.value), lang: option.value });
  }
  fill(section, me.settings);
}

// Only what was changed is sent: another device may have changed the rest.
section.addEventListener("prepare", ({ detail: { body } }) => {
  for (const [name, value] of Object.entries(body)) {
    if (value === me.settings[name]) delete body[name];
  }
});
section.addEventListener("done", ({ target, detail: { data } }) => {
  if (target === theme && data.theme !== theme.elements.theme.value) return theme.requestSubmit();
  me.reload().catch((problem) => {
    if (!(problem instanceof Problem)) throw problem;
    showProblem(target, problem);
  });
});
theme.addEventListener("change", () => {
  document.documentElement.dataset.theme = theme.elements.theme.value;
  theme.requestSubmit(); // once more by "done" if it is at work
});
document.getElementById("settings-here").addEventListener("click", () => {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  offer(zones, timeZone);
  zones.value = timeZone;
  zones.focus();
});

export const sections = { settings: show };
