// The section "newcomers": makes the account of one person. class-list.js makes those of many.

import { holderOf, join } from "./class-list.js";
import { attempt, read, setBusy } from "./forms.js";
import { listGroups } from "./lists.js";
import { bodyOf, COLUMNS, suggest } from "./pasted-list.js";
import * as sheet from "./sheet.js";
import { byId, fill, languageName, say } from "./words.js";

const one = byId("newcomer");
const options = byId("options"); // of both
const { role, deliver, language, groupId } = options.elements;
const [, ...languages] = language.options; // the first is the service's own
for (const option of languages) option.text = languageName(option.value);

// Links for admins are made only on the machine.
options.addEventListener("change", () => {
  const isAdmin = role.value === "admin";
  byId("options-deliver-link").disabled = isAdmin;
  if (isAdmin && deliver.value === "link") deliver.value = "mail";
});
one.elements.withoutEmail.addEventListener("change", ({ target }) => {
  const { email } = one.elements;
  email.disabled = email.closest(".field").hidden = target.checked;
});

let isNamed = false; // by hand: the username is not made of the names any more
one.addEventListener("input", ({ target }) => {
  const { firstName, lastName, username } = one.elements;
  if (target === username) isNamed = username.value !== "";
  if (isNamed || (target !== firstName && target !== lastName)) return;
  username.value = suggest({ firstName: firstName.value, lastName: lastName.value });
});
one.addEventListener("prepare", ({ detail }) => {
  detail.body = bodyOf(detail.body, read(options));
  fill(one, { holder: null });
});
one.addEventListener("failed", async ({ detail: problem }) => {
  fill(one, { holder: await holderOf(problem, bodyOf(read(one), read(options))) });
});
one.addEventListener("done", async (event) => {
  event.preventDefault();
  const { data } = event.detail;
  for (const name of COLUMNS) one.elements[name].value = "";
  isNamed = false;
  setBusy(one, false, say("say_newcomers_one_made", { name: data.user.username }));
  const [{ value: id, text: name }] = groupId.selectedOptions;
  if (id) await attempt(one, () => join(data.user, { id }));
  if (!data.code) return;
  sheet.add({ ...data, group: id && name });
  sheet.heading.focus();
});

function show(section) {
  sheet.place(section.querySelector(".card:not(#sheet)"));
  return listGroups(groupId);
}

export const sections = { newcomers: show };
