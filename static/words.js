// The words of the page, which brings those for scripts in <template id="texts">, a line each.

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

/** Write when something happens, such as "in 5 minutes" or "yesterday", from the seconds to it. */
export function when(seconds) {
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units[3];
  const amount = seconds < 0 ? Math.trunc(seconds / size) : Math.ceil(seconds / size);
  return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(amount, unit);
}

/** Return what has this name in an object; a dot leads into another one. */
export const at = (object, name) => name.split(".").reduce((inner, part) => inner?.[part], object);

/** What `fill` does with an element for each attribute; times.js adds its own. */
export const fillers = {
  "data-text": (element, value) => {
    element.textContent = typeof value === "number" ? number(value) : value;
  },
  "data-src": (element, value) => (element.src = value || "data:,"),
  "data-href": (element, value) => (element.href = value),
  "data-if": (element, value) => (element.hidden = !value),
  "data-unless": (element, value) => (element.hidden = Boolean(value)),
  name: (element, value) => {
    if (element.type === "checkbox") element.checked = value;
    else if (element.type === "radio") element.checked = element.value === value;
    else element.value = value ?? "";
    // A choice that is no longer one stays where it was chosen.
    if (value && !element.value) element.options?.add(new Option(value, value, false, true));
  },
};

/** Fill values into the elements below by their names; what has none is left alone. */
export function fill(root, values) {
  for (const [attribute, act] of Object.entries(fillers)) {
    for (const element of root.querySelectorAll(`[${attribute}]`)) {
      const value = at(values, element.getAttribute(attribute));
      if (value !== undefined) act(element, value);
    }
  }
  return root;
}

/** Return a filled copy of the one element in `<template id>`. */
export function copy(id, values = {}) {
  const template = document.getElementById(id);
  return fill(template.content.cloneNode(true), values).firstElementChild;
}

/** Return the URL of an SVG document that the API sent as text, for an <img>. */
export const pictureOf = (svg) => `data:image/svg+xml,${encodeURIComponent(svg)}`;
