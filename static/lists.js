// Whole lists of people, and files that are made in the page.

import { Problem, call } from "./api.js";
import { known, written } from "./times.js";
import { byId, fill, language, nameOf } from "./words.js";

export const perPage = 100; // the most that the API gives at once
// What one call takes: people or memberships, slips, and names to look for.
export const AT_ONCE = 1000;
export const SLIPS = 100;
const NAMES = 30;
const FEW = 10; // users of whom each is asked for
export const hasWayIn = ({ hasPassword, provider }) => hasPassword || provider !== "";

// What a call about many leaves behind, by the status: the names of errors that say so.
const ENDS = { 404: "group_gone", 429: "enough_slips", 503: "nothing_done" };
for (const status of [0, 502, 504]) ENDS[status] = "maybe_done"; // no answer of the service

/** Return the `data` of a call about many. Its Problem says whether anything may have been done. */
export const callForMany = (method, path, body, ends = ENDS) =>
  call(method, path, body).catch((problem) => {
    if (problem.status in ends) problem.key = `error_${ends[problem.status]}`;
    throw problem;
  });

/** Return the items in parts of this size. */
export const partsOf = (items, size) =>
  items.flatMap((_, at) => (at % size ? [] : [items.slice(at, at + size)]));

/** Return the names of people as a sentence lists them. */
export const listed = (people) => new Intl.ListFormat(language).format(people.map(nameOf));

/** Return them as links to a part of each person's page. */
export const linked = (people, part = "") =>
  people.flatMap((person, n) => {
    const way = { href: `#people/${person.id}${part}`, textContent: nameOf(person), dir: "auto" };
    return [n ? ", " : "", Object.assign(document.createElement("a"), way)];
  });

/** Return what a field of an account is called; one that the pages do not have: its name. */
export const labelOf = (name) => byId(`person-${name}`)?.labels[0].textContent ?? name;

/** Return a new id, also on plain http, where browsers have no randomUUID. */
export function newId() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/(.{8})(.{4}).(.{3}).(.{3})/, "$1-$2-4$3-a$4-");
}

const { compare } = new Intl.Collator(language, { numeric: true });
/** Return the groups that the user sees, as people count: 5a before 10a. */
export async function loadGroups() {
  const { groups } = await call("GET", "groups");
  return groups.sort((a, b) => compare(a.name, b.name));
}

/** List them in a select, below its first option. */
export async function listGroups(select) {
  const groups = await loadGroups();
  const { value } = select;
  select.length = 1;
  for (const { id, name } of groups) select.add(new Option(name, id, false, id === value));
}

/** Return the values without those that are empty, of a query. */
export const filled = (values) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value?.trim()));

/** Return what the API is asked for by the query of the list of people. */
export const askedOf = ({ isActive, search, only, ...rest }) => ({
  ...rest,
  ...(isActive === "hindered" ? { hindered: true } : isActive && { isActive }),
  ...(search && { search: search.replaceAll(",", " ") }), // "Schmidt, Lea" is a name, too
});

/** Show in the rows of a few users until when a sign-in is locked, which no list tells. */
export function showLocks(users, rows, { timezone }) {
  const format = { timeStyle: "short", timeZone: known(timezone) };
  for (const [at, { id }] of users.length > FEW ? [] : users.entries()) {
    const show = ({ lockedUntil: end }) => end && fill(rows[at], { locked: written(end, format) });
    call("GET", `users/${id}/account`).then(show, () => {});
  }
}

/** Return the text of an option of a select, by its value. */
export const textOf = ({ options }, value) =>
  [...options].find((option) => option.value === value)?.text ?? "";

/** Return all memberships of groups, for admins: [{groupId, userId}]. */
export async function loadMemberships() {
  const found = [];
  for (let after = ""; after !== null; ) {
    const query = { limit: AT_ONCE, ...(after && { after }) };
    const { records, next } = await call("GET", "learning/memberships", query);
    found.push(...records);
    after = next;
  }
  return found;
}

/** Show the initials of a user in the `.face` below an element, in a colour that stays theirs. */
export function faceOf({ id, firstName, lastName }, root) {
  const face = root.querySelector(".face");
  face.textContent = [firstName, lastName].map(([letter]) => letter.toLocaleUpperCase()).join("");
  const sum = [...id].reduce((before, sign) => before + sign.charCodeAt(0), 0);
  face.style.setProperty("--hue", (sum % 6) * 60);
  return root;
}

// On small screens a button shows and hides what comes after it.
document.addEventListener("click", ({ target }) => {
  const fold = target.closest(".fold");
  if (fold) fold.ariaExpanded = String(fold.ariaExpanded === "false");
});

const ORDERS = {
  name: (a, b) => compare(a.lastName, b.lastName) || compare(a.firstName, b.firstName),
  "-joinDate": (a, b) => compare(b.joinDate, a.joinDate),
  "-lastLogin": (a, b) => compare(b.lastLogin ?? "", a.lastLogin ?? ""),
};

/**
 * Return everybody whom a query finds. Throws Problem if these are more than `most`.
 *
 * The pages are read by id, which stays as it is. By numbers of pages, or in an order that can
 * change, somebody would be skipped when others go meanwhile.
 */
export async function loadAll({ sort = "-joinDate", ...query }, most) {
  const found = [];
  let after = "00000000-0000-0000-0000-000000000000"; // comes before all others
  while (after) {
    const { users, total } = await call("GET", "users", { ...query, after, perPage });
    found.push(...users);
    const left = total - users.length;
    if (found.length + left > most) throw new Problem("too_many_people");
    after = left > 0 && users.at(-1)?.id;
  }
  return found.sort(ORDERS[sort]);
}

/** Return everybody who has one of these usernames, numbers or addresses. */
export async function findAll(texts) {
  const parts = partsOf(texts, NAMES).map((part) => part.join(","));
  return (await Promise.all(parts.map((anyOf) => loadAll({ anyOf }, 2 * NAMES)))).flat();
}

/** Offer a text for saving as a file. */
export function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

/** Offer the data of an account for saving. */
export const saveData = (name, data) =>
  save(`${name}.json`, JSON.stringify(data, null, 2), "application/json");

// Spreadsheets would take these for formulas. So `flask users import --links` writes them too.
const isFormula = (sign) => /^[=+@-]/.test(sign.normalize("NFKC"));
// Also behind each separator: a program that splits at another one than ours begins a cell there.
const guarded = (cell) =>
  cell.replace(
    /((?:^|(?<![\s,;"])[^\S\t]*[,;\t"])[\s,;"]*)([^\s,;"])/gu,
    (_, before, sign) => before + (isFormula(sign) ? "'" : "") + sign,
  );
const quoted = (cell) => `"${guarded(cell).replaceAll('"', '""')}"`;

/** Offer a table for saving as CSV, which spreadsheets of the page's language read as one. */
export function saveTable(name, rows) {
  const separator = language === "en" ? "," : ";";
  const lines = rows.map((cells) => cells.map((cell) => quoted(String(cell))).join(separator));
  // The mark says that it is UTF-8. A name can hold what no name of a file may.
  const file = name.replace(/[^\p{L}\p{N}.-]+/gu, "-");
  save(`${file}.csv`, `\ufeff${lines.join("\r\n")}\r\n`, "text/csv");
}
