// The section "keys": which services have a key, and the end of one.

import { call } from "./api.js";
import { date } from "./times.js";
import { byId, copy, fill, say, when } from "./words.js";

const list = byId("keys-list");
const dialog = byId("act-revoke");

const since = (time) => (time ? when((new Date(time) - Date.now()) / 1000) : say("say_keys_never"));

function rowOf(key) {
  const { name, scopes, createdAt, expiresAt, lastUsedAt } = key;
  const row = copy("keys-row", {
    name,
    scopes: scopes.join(", "),
    created: date(createdAt),
    expires: expiresAt ? date(expiresAt) : say("say_keys_never"),
    used: since(lastUsedAt),
    isOver: expiresAt !== null && new Date(expiresAt) < new Date(),
  });
  const button = row.querySelector("button");
  button.setAttribute("aria-label", say("say_keys_revoke", { name }));
  button.addEventListener("click", () => {
    fill(dialog, { who: name });
    dialog.querySelector("form").dataset.id = key.id;
    dialog.showModal();
  });
  return row;
}

async function show(section) {
  const { keys } = await call("GET", "service-keys");
  list.tBodies[0].replaceChildren(...keys.map(rowOf));
  fill(section, { some: keys.length > 0 });
}

dialog.addEventListener("done", async () => {
  const section = dialog.closest("section");
  await show(section);
  section.querySelector("[role=status]").textContent = say("say_keys_revoked");
  section.querySelector("h2").focus();
});

export const sections = { keys: show };
