// What sections of /admin share: whole lists of people, and the groups.

import { Problem, call } from "./api.js";

export const perPage = 100; // the most that the API gives at once

/** Return what a field of an account is called. */
export const labelOf = (name) => document.getElementById(`person-${name}`).labels[0].textContent;

/** List the groups that the user sees in a select, below its first option. */
export async function listGroups(select, value = select.value) {
  const { groups } = await call("GET", "groups");
  select.length = 1;
  for (const { id, name } of groups) select.add(new Option(name, id, false, id === value));
}

/** Return everybody whom a query finds. Throws Problem if these are more than `most`. */
export async function loadAll(query, most) {
  const found = new Map(); // somebody may come twice when others go meanwhile
  for (let page = 1, last = 1; page <= last; page++) {
    const { users, total } = await call("GET", "users", { ...query, page, perPage });
    if (total > most) throw new Problem("too_many_people");
    for (const user of users) found.set(user.id, user);
    last = Math.ceil(total / perPage);
  }
  return [...found.values()];
}
