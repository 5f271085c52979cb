// "What happened": the history of an account, in Security and on the page of a person.

import { call } from "./api.js";
import { copy, fill, has, nameOf, say, texts } from "./words.js";

const asked = new Map(); // what was asked for, by its path

function once(path) {
  if (!asked.has(path)) asked.set(path, call("GET", path).catch(() => ({})));
  return asked.get(path);
}

async function groupOf(group) {
  const { groups = [] } = await once("groups");
  return groups.find(({ id }) => id === group)?.name ?? say("say_no_group");
}

function wordOf(name, value) {
  const key = `say_${name}_${value}`;
  return name === "group" ? groupOf(value) : has(key) ? say(key) : value;
}

/** Return what an event says, as texts, and those `details` that it does not say; who sees ids is
 * an admin. */
export async function describe({ type, details, at, by, byId, ipAddress }) {
  const key = `say_event_${type}`;
  const isSaid = (name) => name === "provider" || texts.get(key).includes(`{${name}}`);
  const said = Object.keys(details).filter(isSaid), values = {};
  for (const name of said) values[name] = await wordOf(name, details[name]);
  const button = document.querySelector(`.providers [name="${details.provider}"]`);
  const provider = details.provider ? ` (${button?.value ?? details.provider})` : "";
  const actor = by === "staff" && byId ? await once(`users/${byId}/account`) : {};
  const name = actor.id ? nameOf(actor) : "";
  return {
    event: say(key, values) + provider,
    details: Object.fromEntries(Object.entries(details).filter(([name]) => !isSaid(name))),
    by: by === "user" ? "" : name ? say("say_event_by", { name }) : say(`say_event_by_${by}`),
    name,
    href: byId && (by === "service" ? "admin#keys" : `admin#people/${byId}`),
    at,
    ipAddress,
  };
}

/** Return the latest events of an account. */
export const latest = (id) => call("GET", `users/${id}/activity`, { limit: 20 });

/** Show events of an account in a card, below `old` rows; its form asks for earlier ones. */
export async function showEvents(card, id, { events, next }, old = []) {
  const { dataset } = card.querySelector("form");
  dataset.id = id;
  const rows = (await Promise.all(events.map(describe))).map((text) => copy("happened-event", text));
  if (dataset.id !== id) return; // another account is shown by now
  card.querySelector("ul").replaceChildren(...old, ...rows);
  fill(card, { happened: old.length + rows.length > 0, next: Boolean(next), after: next ?? "" });
}
document.addEventListener("done", async (event) => {
  const { target, detail: { data } } = event;
  if (!target.matches(".earlier")) return;
  event.stopPropagation(); // nothing was done to the account
  const card = target.parentElement;
  const rows = [...card.querySelectorAll("li")];
  await showEvents(card, target.dataset.id, data, rows);
  card.querySelectorAll("li")[rows.length]?.focus();
}, true);
