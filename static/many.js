// An act for those chosen in the list of people, one after the other. Closing the dialog stops it.

import { call } from "./api.js";
import { explain, setBusy, showProblem } from "./forms.js";
import { chosen, reload } from "./people.js";
import * as sheet from "./sheet.js";
import { copy, fill, say, when } from "./words.js";

const byId = (id) => document.getElementById(id);
const dialog = byId("many");
const form = dialog.querySelector("form");
const filter = byId("people-groupId");
const { groupId } = form.elements;
const [button, status] = ["button", "[role=status]"].map((part) => form.querySelector(part));
let act = "";
let people = []; // those whom it is for
let done = 0;
let failed = []; // the lines that say why
let running = null;

const ACTS = {
  join: ({ id }) => call("PUT", `groups/${groupId.value}/members/${id}`),
  leave: ({ id }) => call("DELETE", `groups/${groupId.value}/members/${id}`),
  deactivate: ({ id }) => call("PATCH", `users/${id}`, { isActive: false }),
  slip: async (user) => {
    const made = await call("POST", `users/${user.id}/access-link`, { deliver: "link" });
    sheet.add({ ...made, user, group: filter.value && filter.selectedOptions[0].text });
  },
};

/** Ask whether the act of a button of the list is meant. */
export function ask(opener) {
  [act, done, running] = [opener.value, 0, null];
  const [isSlip, isDeactivation] = [act === "slip", act === "deactivate"];
  const isFor = ({ hasPassword, isActive }) => !isSlip || (isActive && !hasPassword);
  people = [...chosen.values()].filter(isFor);
  groupId.replaceChildren(new Option(), ...[...filter.cloneNode(true).options].slice(1));
  groupId.value = act === "leave" ? filter.value : "";
  groupId.disabled = isSlip || isDeactivation;
  const whom = say("say_people_chosen", { count: people.length });
  const text = opener.textContent;
  fill(dialog, { text, whom, isSlip, isDeactivation, isGroup: !groupId.disabled });
  Object.assign(button, { textContent: text, disabled: !people.length });
  showProblem(form, null);
  dialog.showModal();
}

async function doFor(user) {
  try {
    await ACTS[act](user);
    chosen.delete(user.id);
    done++;
  } catch (problem) {
    const { status: number, retryAfter } = problem;
    if (number === 429) {
      status.textContent = say("say_people_pause", { when: when(retryAfter || 1) });
      await new Promise((over) => {
        setTimeout(over, (retryAfter || 1) * 1000);
        dialog.addEventListener("close", over, { once: true });
      });
      if (dialog.open) await doFor(user);
    } else if ([403, 404, 409].includes(number)) {
      const name = `${user.firstName} ${user.lastName}`;
      failed.push(copy("learning-line", { name, facts: explain(problem) }));
    } else throw problem;
  }
}

async function run() {
  const all = people.length;
  failed = [];
  showProblem(form, null);
  setBusy(form, true);
  if (act === "slip") sheet.place(byId("people-form"));
  try {
    for (const user of people.filter(({ id }) => chosen.has(id))) {
      if (!dialog.open) break;
      status.textContent = say("say_people_of", { done, all });
      await doFor(user);
    }
    dialog.close();
  } catch (problem) {
    if (!problem.code) throw problem; // a mistake of ours
    if (problem.status !== 401) showProblem(form, problem); // else the sign-in is shown
  } finally {
    setBusy(form, false);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (form.ariaBusy !== "true") running = run();
});
dialog.addEventListener("close", async () => {
  if (!running) return;
  await running;
  await reload();
  const news = byId("people-chosen");
  news.textContent = say("say_people_done", { done, all: people.length });
  byId("people-failures").replaceChildren(...failed);
  (act === "slip" && sheet.hasCodes() ? sheet.heading : news).focus();
});
