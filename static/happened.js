// "What happened": the history of an account, in Security and on the page of a person.

import { call } from "./api.js";
import { copy, fill, moment, say } from "./words.js";

const LATEST = 20;
const names = new Map(); // of those who did something, by their ids

function nameOf(id) {
  const known = ({ firstName, lastName }) => say("say_event_by", { name: `${firstName} ${lastName}` });
  if (!names.has(id)) names.set(id, call("GET", `users/${id}/account`).then(known, () => ""));
  return names.get(id);
}

function rowOf({ type, details, at, by, byId, ipAddress }) {
  const role = details.role && say(`say_role_${details.role}`);
  const row = copy("happened-event", {
    event: say(`say_event_${type}`, { role }),
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

/** Show the events of an account, newest first, in a card: the latest, and a button for the rest. */
export function showEvents(card, events) {
  const [list, more] = [card.querySelector("ul"), card.querySelector("button")];
  fill(card, { happened: events.length > 0 });
  list.replaceChildren(...events.slice(0, LATEST).map(rowOf));
  more.hidden = events.length <= LATEST;
  more.onclick = () => {
    const rest = events.slice(LATEST).map(rowOf);
    list.append(...rest);
    more.hidden = true;
    rest[0].focus();
  };
}
