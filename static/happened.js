// "What happened": the history of an account, in Security and on the page of a person.

import { copy, fill, moment, say } from "./words.js";

const LATEST = 20;

function rowOf({ type, details, at, by, byId, ipAddress }) {
  const role = details.role && say(`say_role_${details.role}`);
  return copy("happened-event", {
    event: say(`say_event_${type}`, { role }),
    by: by === "user" ? "" : say(`say_event_by_${by}`),
    // Who sees ids is an admin.
    href: byId && (by === "service" ? "admin#keys" : `admin#people/${byId}`),
    at: moment(at),
    ipAddress,
  });
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
