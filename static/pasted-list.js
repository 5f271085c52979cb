// Reads a list of people as spreadsheets copy or save it, and says what is wrong in each line.

import { language } from "./words.js";

export const COLUMNS = ["firstName", "lastName", "username", "email"];
const LONGEST = { firstName: 64, lastName: 64, username: 32, email: 254 };
// What normalize("NFKD") leaves alone, and how German writes its umlauts.
const LETTERS = { ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ð: "d", þ: "th", ı: "i" };
const UMLAUTS = { ä: "ae", ö: "oe", ü: "ue" };

/** Return the text of a file: UTF-8, or what spreadsheets on Windows save. */
export async function textOf(file) {
  const bytes = await file.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

// Returns the lines of CSV as lists of cells. A quote that opens no quoted cell stands for itself.
function cells(text) {
  const [head] = text.split(/[\r\n]/, 1);
  const separator = ["\t", ";", ","].find((each) => head.includes(each)) ?? ",";
  const cell = new RegExp(
    `(?:"((?:[^"]|"")*)"|([^${separator}\r\n]*))(${separator}|\r\n|\r|\n|$)`,
    "gy",
  );
  const lines = [[]];
  for (const [, quoted, plain, end] of text.matchAll(cell)) {
    lines.at(-1).push((quoted?.replaceAll('""', '"') ?? plain).replace(/\s+/g, " ").trim());
    if (end !== separator) lines.push([]);
  }
  return lines.filter((line) => line.some(Boolean));
}

const key = (text) => text.toLowerCase().replace(/[^\p{L}]/gu, "");

/**
 * Return {people, unknown}: people have the COLUMNS and `extra`, whether the line has more; unknown
 * are the names of columns that we do not have. A head names at least two columns, as `flask users
 * import` does or as `labels` do (by column); without one they stand in their usual order.
 */
export function parse(text, labels) {
  const lines = cells(text.trim());
  const names = new Map(
    COLUMNS.flatMap((name) => [[key(name), name], [key(labels[name]), name]]),
  );
  let columns = (lines[0] ?? []).map((cell) => names.get(key(cell)));
  let unknown = [];
  if (columns.filter(Boolean).length > 1) {
    unknown = lines.shift().filter((cell, index) => cell && !columns[index]);
  } else {
    columns = COLUMNS;
  }
  const people = lines.map((line) => {
    const person = { extra: line.slice(columns.length).some(Boolean) };
    for (const name of COLUMNS) person[name] = line[columns.indexOf(name)] ?? "";
    if (person.username.includes("@") && !person.email) {
      Object.assign(person, { username: "", email: person.username });
    }
    return person;
  });
  return { people, unknown };
}

const plain = (text) =>
  text
    .normalize("NFC")
    .toLowerCase()
    .replace(/./gu, (letter) => (language === "de" && UMLAUTS[letter]) || LETTERS[letter] || letter)
    .normalize("NFKD")
    .replace(/[^a-z0-9 .-]/g, "")
    .trim()
    .replace(/[ .-]+/g, "-")
    .replace(/^-|-$/g, "");

/** Return a username that is not among the taken ones (in lower case), or "" if none can be made. */
export function suggest({ firstName, lastName, email = "" }, taken = new Set()) {
  if (!firstName.trim() || !lastName.trim()) return "";
  const name = [plain(firstName), plain(lastName)].filter(Boolean).join(".");
  const base = (name || plain(email.split("@")[0])).slice(0, 29);
  if (base.length < 3) return "";
  let number = 1;
  let username = base;
  while (taken.has(username)) username = base + ++number;
  return username;
}

// The address of somebody without one: it cannot exist, and no mail goes there.
const addressOf = (username) =>
  // Dots at the end or side by side are for usernames only.
  `${username.toLowerCase().replace(/\.(?=\.|$)/g, "_")}@no-mail.invalid`;

/** Return the body of the call that makes an account, from a person's fields and the options. */
export function bodyOf({ extra, withoutEmail, ...body }) {
  if (!body.language) delete body.language;
  if (withoutEmail || !body.email) {
    // Nobody can prove such an address, so a service that asks for that would let nobody in.
    Object.assign(body, { email: addressOf(body.username), emailVerified: true });
    if (body.deliver === "mail") body.deliver = body.role === "admin" ? "none" : "link";
  }
  return body;
}

const isAddress = /^[^\s@,;<>"]+@[^\s@,;<>"]+\.[^\s@.,;<>"]+$/;

// A username can be made from the names, so where these are missing they are the one mistake.
const isMissing = (name, { firstName, lastName }) =>
  name === "username" ? firstName && lastName : name !== "email";

/** Return what is wrong with each of the people, in the form of the API's `reasons`. */
export function check(people) {
  const seen = { username: new Map(), email: new Map() };
  for (const name of ["username", "email"]) {
    for (const person of people) {
      const value = person[name].toLowerCase();
      if (value) seen[name].set(value, (seen[name].get(value) ?? 0) + 1);
    }
  }
  return people.map((person) => {
    const reasons = {};
    for (const name of COLUMNS) {
      const value = person[name];
      if (value.length > LONGEST[name]) reasons[name] = ["too_long"];
      else if (!value && isMissing(name, person)) reasons[name] = ["required"];
      else if (seen[name]?.get(value.toLowerCase()) > 1) reasons[name] = ["twice"];
    }
    const { username, email } = person;
    if (username && !/^[a-z0-9][\w.-]*$/i.test(username)) reasons.username ??= ["invalid"];
    if (username && username.length < 3) reasons.username ??= ["too_short"];
    if (email && !isAddress.test(email)) reasons.email ??= ["invalid"];
    return reasons;
  });
}
