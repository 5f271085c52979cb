// The section "newcomers": makes the account of one person. class-list.js makes those of many.

import "./class-list.js";
import { setBusy } from "./forms.js";
import { bodyOf, COLUMNS, suggest } from "./pasted-list.js";
import * as sheet from "./sheet.js";
import { languageName, say } from "./words.js";

const one = document.getElementById("newcomer");

// Only ways that there are for the role and the address can be chosen.
function offer(form) {
  const { role, withoutEmail, email, deliver } = form.elements;
  if (withoutEmail) {
    email.disabled = email.closest(".field").hidden = withoutEmail.checked;
    form.elements.emailVerified.closest(".field").hidden = withoutEmail.checked;
  }
  for (const way of deliver) {
    const isWithoutAdmins = way.value === "link" && role.value === "admin";
    way.disabled = isWithoutAdmins || (way.value === "mail" && Boolean(withoutEmail?.checked));
  }
  const ways = [...deliver].toSorted((a, b) => b.checked - a.checked);
  ways.find((way) => !way.disabled).checked = true;
}
for (const form of [one, document.getElementById("make")]) {
  form.addEventListener("change", () => offer(form));
  offer(form);
  const [, ...languages] = form.elements.language.options; // the first is the service's own
  for (const option of languages) option.text = languageName(option.value);
}

one.addEventListener("input", ({ target }) => {
  const { firstName, lastName, username } = one.elements;
  if (target === username) username.dataset.typed = username.value;
  if (target !== firstName && target !== lastName) return;
  if (username.dataset.typed) return;
  username.value = suggest({ firstName: firstName.value, lastName: lastName.value });
});
one.addEventListener("prepare", ({ detail }) => {
  const body = bodyOf(detail.body);
  for (const name of Object.keys(detail.body)) delete detail.body[name];
  Object.assign(detail.body, body);
});
one.addEventListener("done", (event) => {
  event.preventDefault();
  const { data } = event.detail;
  for (const name of COLUMNS) one.elements[name].value = "";
  delete one.elements.username.dataset.typed;
  setBusy(one, false, say("say_newcomers_one_made", { name: data.user.username }));
  if (!data.code) return;
  sheet.add(data);
  sheet.show();
});

export const sections = { newcomers: () => {} };
