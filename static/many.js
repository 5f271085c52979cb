// An act for those chosen in the list of people, one after the other. Closing the dialog stops it.

import { call } from "./api.js";
import { explain, setBusy, showProblem } from "./forms.js";
import { lineOf } from "./learning.js";
import * as sheet from "./sheet.js";
import { fill, say, when } from "./words.js";

const byId = (id) => document.getElementById(id);
const dialog = byId("many");
const form = dialog.querySelector("form");
const { groupId } = form.elements;
const status = form.querySelector("[role=status]");
let act, reload;
let group = ""; // the name of the one that the list is of
let people = []; // those for whom it is not done yet
let others = []; // those chosen whom it is not for
let all = 0;
let failed = []; // the lines that say why
let running = null;

const ACTS = {
  join: ({ id }) => call("PUT", `groups/${groupId.value}/members/${id}`),
  leave: ({ id }) => call("DELETE", `groups/${groupId.value}/members/${id}`),
  deactivate: ({ id }) => call("PATCH", `users/${id}`, { isActive: false }),
  slip: async (user) => {
    const made = await call("POST", `users/${user.id}/access-link`, { deliver: "link" });
    sheet.add({ ...made, user, group });
  },
};

/**
 * Ask whether a button's act is meant for those chosen. `filter` is the control for the group of
 * their list, which `again` loads once more.
 */
export function ask(button, chosen, filter, again) {
  [act, reload, running] = [button.value, again, null];
  const [isSlip, isDeactivation] = [act === "slip", act === "deactivate"];
  const isFor = ({ hasPassword, isActive }) => !isSlip || (isActive && !hasPassword);
  [people, others] = [true, false].map((wanted) => chosen.filter((user) => isFor(user) === wanted));
  all = people.length;
  group = filter.value && filter.selectedOptions[0].text;
  groupId.replaceChildren(new Option(), ...[...filter.cloneNode(true).options].slice(1));
  groupId.value = act === "leave" ? filter.value : "";
  const isGroup = !isSlip && !isDeactivation;
  groupId.disabled = !isGroup;
  const whom = say("say_people_chosen", { count: all });
  fill(dialog, { act: button.textContent, whom, isGroup, isSlip, isDeactivation });
  form.querySelector("button").disabled = !all;
  showProblem(form, null);
  dialog.showModal();
}

// A box of the list that is not ticked stays so, whatever happens next.
const untick = ({ id }) => byId("people-list").querySelector(`input[value="${id}"]`)?.click();

async function doFor(user) {
  try {
    await ACTS[act](user);
    people = people.filter((other) => other !== user);
    untick(user);
  } catch (problem) {
    if (problem.status === 429) {
      await pause(problem.retryAfter || 1);
      if (dialog.open) await doFor(user);
    } else if ([403, 404, 409].includes(problem.status)) {
      failed.push(lineOf(`${user.firstName} ${user.lastName}`, explain(problem)));
    } else throw problem;
  }
}

// Waits, but not longer than the dialog is open.
function pause(seconds) {
  status.textContent = say("say_people_pause", { when: when(seconds) });
  return new Promise((done) => {
    setTimeout(done, seconds * 1000);
    dialog.addEventListener("close", done, { once: true });
  });
}

async function run() {
  failed = [];
  for (const user of others.splice(0)) untick(user);
  showProblem(form, null);
  setBusy(form, true);
  if (act === "slip") sheet.place(byId("people-form"));
  try {
    for (const user of people) {
      if (!dialog.open) break;
      status.textContent = say("say_people_of", { done: all - people.length, all });
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
  const chosen = byId("people-chosen");
  chosen.textContent = say("say_people_done", { done: all - people.length, all });
  byId("people-failures").replaceChildren(...failed);
  (act === "slip" && sheet.hasCodes() ? sheet.heading : chosen).focus();
});
