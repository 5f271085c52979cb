// Times in the zone of who is signed in, and the names of languages: what visitors do not need.

import { fillers, language, say } from "./words.js";

/** Write a time as `options` of Intl say, in the form of the certificates and e-mails. */
export function written(value, options) {
  const text = new Intl.DateTimeFormat(language === "en" ? "en-GB" : language, options)
    .format(new Date(value));
  return language === "fr" ? text.replace(/\b1 (?=\D)/, "1er ") : text;
}

/** Return the name of a zone, or nothing if it is one that an older browser does not know. */
export function known(timeZone) {
  try {
    return new Intl.DateTimeFormat("en", { timeZone }) && timeZone;
  } catch {}
}
let zone; // of who is signed in; until then the device's
/** Set the zone of all times, and return it. */
export const setZone = (timeZone) => (zone = known(timeZone));
/** Write a time of the API as a date: 20 November 2026. */
export const date = (value, timeZone = zone) => written(value, { dateStyle: "long", timeZone });
/** Write a time of the API as date and time: 20 November 2026 at 09:31. */
export const moment = (value, timeZone = zone) =>
  written(value, { dateStyle: "long", timeStyle: "short", timeZone });
/** Return the day of a time in a zone, by default of now, in the form of the API. */
export const dayOf = (timeZone = zone, value = Date.now()) =>
  // The one language that writes a date as the API does.
  new Intl.DateTimeFormat("en-CA", { dateStyle: "short", timeZone }).format(new Date(value));

/** Write a time as spreadsheets read it, 2026-11-20 09:31, and the Swedish write it. */
export const minuteOf = (value) =>
  new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "short", timeZone: zone })
    .format(new Date(value));

const capital = (text, tag = language) => text[0].toLocaleUpperCase(tag) + text.slice(1);

// Writes a time as people say it: Today 09:31, Yesterday 09:31, Tue 24 Nov, 24 Nov 2025.
function near(value) {
  const [now, then] = [dayOf(), dayOf(zone, value)];
  const days = (Date.parse(then) - Date.parse(now)) / 86_400_000;
  if (days === 0 || days === -1) {
    const name = new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(days, "day");
    return `${capital(name)} ${written(value, { timeStyle: "short", timeZone: zone })}`;
  }
  const more = then.slice(0, 4) === now.slice(0, 4) ? { weekday: "short" } : { year: "numeric" };
  return written(value, { day: "numeric", month: "short", ...more, timeZone: zone });
}
// With all of it as the title.
fillers["data-time"] = (element, value) => {
  element.title = value ? moment(value) : "";
  element.textContent = value ? near(value) : "";
};

/** Return the custom fields of a user as texts, and nothing else; what is not set is empty. */
export function customOf({ customFields }) {
  const textOf = ([name, value]) => {
    if (typeof value === "boolean") return [name, say(value ? "say_yes" : "say_no")];
    const isDay = document.querySelector(`.day[data-text="custom.${name}"]`);
    const isRight = isDay && !isNaN(Date.parse(value)); // not a text of before
    return [name, isRight ? date(value, "UTC") : String(value ?? "")];
  };
  return { __proto__: null, ...Object.fromEntries(Object.entries(customFields).map(textOf)) };
}

/** Return the name of a language in itself, for those who cannot read the page's. */
export function languageName(tag) {
  try {
    return capital(new Intl.DisplayNames(tag, { type: "language" }).of(tag), tag);
  } catch {
    return tag; // one that the browser does not know
  }
}
