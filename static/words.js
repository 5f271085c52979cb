// The words of the page in its language. The document brings them in <template id="texts">, a line
// each: all words of templates/<tag>/*.txt whose names begin with say_, error_ or field_.

export const byId = (id) => document.getElementById(id);
export const language = document.documentElement.lang;
const lines = document.getElementById("texts").content.textContent.trim().split("\n");
export const texts = new Map(lines.map((line) => line.split(/ (.*)/)));
const plurals = new Intl.PluralRules(language);

/** Decode a part of a URL; with bad escapes it stays as it is. */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const has = (key) => texts.has(key);

/**
 * Return the text of a key, with `{name}` replaced by the value of that name; numbers are written
 * as the language does. With `count` among the values, the key may have forms: `<key>_one`,
 * `<key>_other`, as Intl.PluralRules names them.
 */
export function say(key, values = {}) {
  const form = texts.get(`${key}_${plurals.select(values.count ?? 0)}`);
  const text = texts.get(key) ?? form ?? texts.get(`${key}_other`);
  if (text === undefined) throw new Error(`No text ${key}`);
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name] ?? whole;
    return typeof value === "number" ? number(value) : value;
  });
}

export const number = (value, options) => new Intl.NumberFormat(language, options).format(value);

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

const capital = (text, tag = language) => text[0].toLocaleUpperCase(tag) + text.slice(1);

/** Write a time as people say it: Today 09:31, Yesterday 09:31, Tue 24 Nov, 24 Nov 2025. */
export function near(value) {
  const [now, then] = [dayOf(), dayOf(zone, value)];
  const days = (Date.parse(then) - Date.parse(now)) / 86_400_000;
  if (days === 0 || days === -1) {
    const name = new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(days, "day");
    return `${capital(name)} ${written(value, { timeStyle: "short", timeZone: zone })}`;
  }
  const more = then.slice(0, 4) === now.slice(0, 4) ? { weekday: "short" } : { year: "numeric" };
  return written(value, { day: "numeric", month: "short", ...more, timeZone: zone });
}

/** Return what a person is called. */
export const nameOf = ({ firstName, lastName }) => `${firstName} ${lastName}`;

/** Return what is shown of an e-mail address: none under `.invalid`, which no mail reaches. */
export function addressOf({ email, emailVerified }) {
  const isReal = !email.endsWith(".invalid");
  return {
    email: isReal ? email : say("say_no_address"),
    isConfirmed: isReal && emailVerified,
    isOpen: isReal && !emailVerified,
    noMailbox: !isReal,
  };
}

/** Return the name of a language in itself, for those who cannot read the page's. */
export function languageName(tag) {
  try {
    return capital(new Intl.DisplayNames(tag, { type: "language" }).of(tag), tag);
  } catch {
    return tag; // one that the browser does not know
  }
}

/** Write when something happens, such as "in 5 minutes" or "yesterday", from the seconds to it. */
export function when(seconds) {
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units[3];
  const amount = seconds < 0 ? Math.trunc(seconds / size) : Math.ceil(seconds / size);
  return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(amount, unit);
}

/**
 * Fill values into the elements below: by `data-text` as text, `data-time` as a time that people
 * say, with all of it as the title, `data-src` and `data-href` as URL, `data-if` and `data-unless`
 * (hidden by it), and into form controls by their names. A dot in a name leads into an object.
 * Names that the values do not have are left alone.
 */
export function fill(root, values) {
  const each = (attribute, act) => {
    for (const element of root.querySelectorAll(`[${attribute}]`)) {
      const path = element.getAttribute(attribute).split(".");
      const value = path.reduce((object, name) => object?.[name], values);
      if (value !== undefined) act(element, value);
    }
  };
  each("data-text", (element, value) => {
    element.textContent = typeof value === "number" ? number(value) : value;
  });
  each("data-time", (element, value) => {
    if (value) Object.assign(element, { dateTime: value, title: moment(value) });
    element.textContent = value ? near(value) : "";
  });
  each("data-src", (element, value) => (element.src = value || "data:,"));
  each("data-href", (element, value) => (element.href = value));
  each("data-if", (element, value) => (element.hidden = !value));
  each("data-unless", (element, value) => (element.hidden = Boolean(value)));
  each("name", (element, value) => {
    if (element.type === "checkbox") element.checked = value;
    else if (element.type === "radio") element.checked = element.value === value;
    else element.value = value;
  });
  return root;
}

/** Return a filled copy of the one element in `<template id>`. */
export function copy(id, values = {}) {
  const template = document.getElementById(id);
  return fill(template.content.cloneNode(true), values).firstElementChild;
}

/** Return the URL of an SVG document that the API sent as text, for an <img>. */
export const pictureOf = (svg) => `data:image/svg+xml,${encodeURIComponent(svg)}`;
