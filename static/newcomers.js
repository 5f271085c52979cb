// The section "newcomers": makes the account of one person. class-list.js makes those of many.

import { call } from "./api.js";
import "./class-list.js";
import { attempt, read, setBusy } from "./forms.js";
import { findAll, listGroups } from "./lists.js";
import * as sheet from "./sheet.js";
import { languageName } from "./times.js";
import { byId, fill, language as pageLanguage, nameOf, say } from "./words.js";

const [one, options] = ["newcomer", "options"].map(byId); // the options are of a list, too
const { firstName, lastName, username, email, emailVerified, withoutEmail } = one.elements;
const { role, deliver, language, groupId } = options.elements;
const [, ...languages] = language.options; // the first is the service's own
for (const option of languages) option.text = languageName(option.value);

// Links for admins are made only on the machine, and no list makes admins.
options.addEventListener("change", () => {
  const isAdmin = role.value === "admin";
  byId("options-deliver-link").disabled = isAdmin;
  if (isAdmin && deliver.value === "link") deliver.value = "mail";
  byId("class-list").hidden = isAdmin;
});
withoutEmail.addEventListener("change", ({ target: { checked } }) => {
  for (const control of [email, emailVerified]) {
    control.disabled = control.closest(".field").hidden = checked;
  }
});

// A username as lists get it. NFKD leaves these letters alone, or German writes them in two.
const LETTERS = { ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ð: "d", þ: "th", ı: "i" };
if (pageLanguage === "de") Object.assign(LETTERS, { ä: "ae", ö: "oe", ü: "ue" });
const plain = (name) =>
  name.normalize("NFC").toLowerCase().replace(/./gu, (letter) => LETTERS[letter] ?? letter)
    .normalize("NFKD").replace(/[^a-z0-9\s.-]/g, "").match(/\w+/g)?.join("-") ?? "";
let isNamed = false; // by hand: the username is not made of the names any more
one.addEventListener("input", ({ target }) => {
  if (target === username) isNamed = username.value !== "";
  if (isNamed || (target !== firstName && target !== lastName)) return;
  const names = [firstName.value.trim().split(/\s/)[0], lastName.value];
  username.value = names.map(plain).filter(Boolean).join(".").slice(0, 28).replace(/\W+$/, "");
});

one.addEventListener("prepare", ({ detail }) => {
  const { groupId: _, ...chosen } = read(options);
  if (!chosen.language) delete chosen.language;
  const { withoutEmail: isBare, ...person } = detail.body;
  detail.body = { ...chosen, ...person };
  fill(one, { holder: null });
  if (!isBare) return;
  // It cannot exist, and nobody can prove it. Some dots are for usernames only.
  const name = person.username.toLowerCase().replace(/\.(?=\.|$)/g, "_");
  Object.assign(detail.body, { email: `${name}@no-mail.invalid`, emailVerified: true });
  if (chosen.deliver === "mail") detail.body.deliver = chosen.role === "admin" ? "none" : "link";
});
// Links to who has the username or address already.
one.addEventListener("failed", async ({ detail: { reasons } }) => {
  const taken = [username, email].find(({ name, value }) => value && reasons[name]?.includes("taken"));
  if (!taken) return;
  const [user] = await findAll([taken.value]).catch(() => []);
  if (user) fill(one, { holder: { href: `#people/${user.id}`, name: nameOf(user) } });
});
one.addEventListener("done", async (event) => {
  event.preventDefault();
  const { data } = event.detail;
  for (const field of [firstName, lastName, username, email]) field.value = "";
  isNamed = false;
  setBusy(one, false, say("say_newcomers_one_made", { name: data.user.username }));
  const [{ value: id, text: group }] = groupId.selectedOptions;
  if (id) await attempt(one, () => call("PUT", `groups/${id}/members/${data.user.id}`));
  if (!data.code) return;
  sheet.add({ ...data, group: id && group });
  sheet.heading.focus();
});

function show(section) {
  sheet.place(section.querySelector(".card:not(#sheet)"));
  return listGroups(groupId);
}

export const sections = { newcomers: show };
