// "What happened": the history of an account, in Security and on the page of a person.

import { call } from "./api.js";
import { copy, fill, moment, say } from "./words.js";

const names = new Map(); // of those who did something, by their ids

function nameOf(id) {
  const known = ({ firstName, lastName }) => say("say_event_by", { name: `${firstName} ${lastName}` });
  if (!names.has(id)) names.set(id, call("GET", `users/${id}/account`).then(known, () => ""));
  return names.get(id);
}

function rowOf({ type, details, at, by, byId, ipAddress }) {
  const role = details.role && say(`say_role_${details.role}`);
  const button = document.querySelector(`.providers [name="${details.provider}"]`);
  const provider = details.provider ? ` (${button?.value ?? details.provider})` : "";
  const row = copy("happened-event", {
    event: say(`say_event_${type}`, { role }) + provider,
    by: by === "user" ? "" : say(`say_event_by_${by}`),
    // Who sees ids is an admin.
    href: byId && (by === "service" ? "admin#keys" : `admin#people/${byId}`),
    at: moment(at),
    ipAddress,
  });
  const link = row.querySelector("a");
  if (byId && by === "staff") nameOf(byId).then((name) => (link.textContent = name || link.textContent));
  return row;
}

/** Return the latest events of an account. */
export const latest = (id) => call("GET", `users/${id}/activity`, { limit: 20 });

function append(card, { events, next }) {
  const rows = events.map(rowOf);
  card.querySelector("ul").append(...rows);
  fill(card, { next: Boolean(next), after: next ?? "" });
  return rows;
}

/** Show the latest events of an account in a card, newest first; its form asks for earlier ones. */
export function showEvents(card, id, page) {
  fill(card, { happened: page.events.length > 0 });
  card.querySelector("form").dataset.id = id;
  card.querySelector("ul").replaceChildren();
  append(card, page);
}
document.addEventListener("done", (event) => {
  const { target, detail } = event;
  if (!target.matches(".earlier")) return;
  event.stopPropagation(); // nothing was done to the account
  append(target.parentElement, detail.data)[0].focus();
}, true);
