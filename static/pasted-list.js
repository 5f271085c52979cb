// Reads a list of people as spreadsheets copy or save it, and says what is wrong in each line.

import { language, nameOf } from "./words.js";

export const COLUMNS = ["firstName", "lastName", "username", "email"];
const MOST_LINES = 1000;
// How lists in four languages head these columns, as `key` writes it. What is only "name" is the one
// of first and last name that has no other column.
const HEADINGS = Object.entries({
  firstName: "vorname vornamen rufname firstname forename givenname prenom prenoms nombre nombres",
  lastName: "nachname familienname lastname surname familyname nom nomdefamille apellido apellidos",
  username: "username benutzername nomdutilisateur identifiant nombredeusuario usuario",
  email: "email mail emailadresse emailaddress adresseemail courriel correo correoelectronico",
  name: "name",
  group: "group groupe gruppe grupo klasse class classe clase cohort lerngruppe",
}).flatMap(([name, words]) => words.split(" ").map((word) => [word, name]));
const LONGEST = { firstName: 64, lastName: 64, username: 32, email: 254, group: 64 };
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

// Returns the lines of CSV as {number, cells}; the number is that of the line in the text. A quote
// that opens no quoted cell stands for itself. Where tabs separate, semicolons do so too: the key for
// a tab leaves the field.
function linesOf(text) {
  const [head] = text.match(/.*\S.*/) ?? [""];
  const separators = /[\t;]/.test(head) ? "\t;" : ",";
  const cell = new RegExp(
    `(?:"((?:[^"]|"")*)"|([^${separators}\r\n]*))([${separators}]|\r\n|\r|\n|$)`,
    "gy",
  );
  let number = 1;
  const lines = [{ number, cells: [] }];
  for (const [whole, quoted, plain, end] of text.matchAll(cell)) {
    const value = quoted?.replaceAll('""', '"') ?? plain;
    lines.at(-1).cells.push(value.replace(/\s+/g, " ").trim());
    number += whole.split("\n").length - 1;
    if (!/[\t;,]/.test(end)) lines.push({ number, cells: [] });
  }
  return lines.filter(({ cells }) => cells.some(Boolean));
}

const inQuotes = (cell) => (/^"|;/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
/**
 * Return a text that `parse` reads as these people: a line for each, in the usual order. Only headings
 * tell which column is the group.
 */
export function listOf(people, labels) {
  const names = people.some(({ group }) => group) ? [...COLUMNS, "group"] : COLUMNS;
  const rows = names === COLUMNS ? people : [labels, ...people];
  return rows.map((row) => names.map((name) => inQuotes(row[name])).join(";")).join("\n");
}

// Without accents, signs and what follows a bracket: Apellido(s), First Name [Required].
const key = (text) => text.toLowerCase().normalize("NFKD").replace(/[([].*|[^\p{L}]/gu, "");

// Returns the column that each cell of a row of headings names; the second of a kind is none.
function columnsOf(named) {
  const other = ["firstName", "lastName"].filter((name) => !named.includes(name)).at(-1);
  const columns = named.map((name) => (name === "name" ? other : name));
  return columns.map((name, at) => (columns.indexOf(name) === at ? name : undefined));
}

// Returns the columns of rows without headings, in an order of COLUMNS. Numbers, days and classes such
// as 6b are no names, and a day, or what is the same in all rows, is no username.
function guessColumns(rows, order) {
  const columns = [];
  const width = rows.reduce((most, { cells }) => Math.max(most, cells.length), 0);
  for (let at = 0; at < width; at++) {
    const cells = rows.map((row) => row.cells[at]).filter(Boolean);
    const isAll = (pattern) => cells.every((cell) => pattern.test(cell));
    const next = order.find((name) => !columns.includes(name));
    let fits = !isAll(/\d/);
    if (next === "username") fits = !isAll(/^\d+[./-]/) && (!cells[1] || new Set(cells).size > 1);
    else if (next === "email") fits = !isAll(/^[^@]*$/);
    columns.push(fits ? next : undefined);
  }
  return columns.includes(order[1]) ? columns : order;
}

/**
 * Return {people, leftOut}, or {code} for the error of a list that cannot be read. People have the
 * COLUMNS, the name of a `group` where headings say so, the `number` of their line, `reasons` like those of the API for what is wrong, and
 * `isAgain` if others have their name; a username that is missing is made of the names. Headings,
 * which are in HEADINGS or `labels` (by column), hold for the lines below; without any, the last name
 * may come first. `leftOut` are the columns that are not used: their headings or first cells.
 */
export function parse(text, labels, isLastFirst) {
  const [first, last, ...others] = COLUMNS;
  const order = isLastFirst ? [last, first, ...others] : COLUMNS;
  const rows = linesOf(text);
  const known = new Map([...COLUMNS.map((name) => [key(labels[name]), name]), ...HEADINGS]);
  const people = [];
  const leftOut = new Map();
  let [columns, headings] = [null, []];
  for (const [index, { number, cells }] of rows.entries()) {
    const named = cells.map((cell) => known.get(key(cell)));
    // In the first row one is enough: a person of that name would lack the other name.
    if (named.filter(Boolean).length > (index ? 1 : 0)) {
      [columns, headings] = [columnsOf(named), cells];
      continue;
    }
    columns ??= guessColumns(rows, order);
    const person = { number };
    for (const name of [...COLUMNS, "group"]) person[name] = cells[columns.indexOf(name)] ?? "";
    if (person.username.includes("@") && !person.email) {
      Object.assign(person, { username: "", email: person.username });
    }
    people.push(person);
    for (const [at, cell] of cells.entries()) {
      if (cell && !columns[at] && !leftOut.has(at)) leftOut.set(at, headings[at] || `${cell}…`);
    }
  }
  if (!people.length) return { code: "no_lines" };
  if (people.length > MOST_LINES) return { code: "too_many_lines" };
  const taken = new Set(people.map(({ username }) => username.toLowerCase()));
  for (const person of people) {
    person.username ||= suggest(person, taken);
    taken.add(person.username.toLowerCase());
  }
  return { people: check(people), leftOut: [...leftOut.values()] };
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

/** Return the body of the call that makes an account, from a person and the options. */
export function bodyOf(person, options) {
  const body = { ...options };
  for (const name of COLUMNS) body[name] = person[name];
  delete body.groupId; // it is joined afterwards
  if (!body.language) delete body.language;
  if (!body.email) {
    // Nobody can prove such an address, so a service that asks for that would let nobody in.
    Object.assign(body, { email: addressOf(body.username), emailVerified: true });
    if (body.deliver === "mail") body.deliver = body.role === "admin" ? "none" : "link";
  }
  return body;
}

const isAddress = /^[^\s@,;<>"]+@[^\s@,;<>"]+\.[^\s@.,;<>"]+$/;

// A username can be made from the names, so where these are missing they are the one mistake.
const isMissing = (name, { firstName, lastName }) =>
  name === "username" ? firstName && lastName : name.endsWith("Name");

// Returns the people with what is wrong with each, in the form of the API's `reasons`.
function check(people) {
  const all = (name) => people.map((person) => person[name].toLowerCase());
  const seen = { username: all("username"), email: all("email") };
  const fullNames = people.map((person) => nameOf(person).toLowerCase());
  const isTwice = (values, value) => values.indexOf(value) !== values.lastIndexOf(value);
  return people.map((person, index) => {
    const reasons = {};
    for (const name of Object.keys(LONGEST)) {
      const value = person[name];
      if (value.length > LONGEST[name]) reasons[name] = ["too_long"];
      else if (!value && isMissing(name, person)) reasons[name] = ["required"];
      else if (value && name in seen && isTwice(seen[name], value.toLowerCase())) reasons[name] = ["twice"];
    }
    const { username, email } = person;
    if (username && !/^[a-z0-9][\w.-]*$/i.test(username)) reasons.username ??= ["invalid"];
    if (username && username.length < 3) reasons.username ??= ["too_short"];
    if (email && !isAddress.test(email)) reasons.email ??= ["invalid"];
    return { ...person, reasons, isAgain: isTwice(fullNames, fullNames[index]) };
  });
}
