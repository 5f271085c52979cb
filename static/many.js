// An act for those chosen in the list of people, one after the other. Closing the dialog stops it.

import { call } from "./api.js";
import { explain, showProblem } from "./forms.js";
import { chosen, reload } from "./people.js";
import { run } from "./run.js";
import * as sheet from "./sheet.js";
import { copy, fill, say } from "./words.js";

const byId = (id) => document.getElementById(id);
const dialog = byId("many");
const form = dialog.querySelector("form");
const filter = byId("people-groupId");
const { groupId } = form.elements;
let act = "";
let people = []; // those whom it is for

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
  act = opener.value;
  const [isSlip, isDeactivation] = [act === "slip", act === "deactivate"];
  const isFor = ({ hasPassword, provider, isActive }) =>
    !isSlip || (isActive && !hasPassword && !provider);
  people = [...chosen.values()].filter(isFor);
  groupId.replaceChildren(new Option(), ...[...filter.cloneNode(true).options].slice(1));
  groupId.value = act === "leave" ? filter.value : "";
  groupId.disabled = isSlip || isDeactivation;
  const whom = say("say_people_chosen", { count: people.length });
  const text = opener.textContent;
  fill(dialog, { text, whom, isSlip, isDeactivation, isGroup: !groupId.disabled });
  Object.assign(form.querySelector("button"), { textContent: text, disabled: !people.length });
  showProblem(form, null);
  dialog.onclose = null;
  dialog.showModal();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (form.ariaBusy === "true") return;
  const isLeft = ({ id }) => chosen.has(id);
  const [all, stop, failed] = [people.length, new AbortController(), []];
  const doFor = async (user) => {
    await ACTS[act](user);
    chosen.delete(user.id);
  };
  const refused = ({ firstName, lastName }, problem) => {
    const name = `${firstName} ${lastName}`;
    failed.push(copy("learning-line", { name, facts: explain(problem) }));
  };
  if (act === "slip") sheet.place(byId("people-form"));
  const over = run(form, people.filter(isLeft), doFor, { signal: stop.signal, refused, all });
  dialog.onclose = async () => {
    stop.abort();
    await over;
    await reload();
    const news = byId("people-chosen");
    news.textContent = say("say_people_done", { done: all - people.filter(isLeft).length, all });
    byId("people-failures").replaceChildren(...failed);
    (act === "slip" && sheet.hasCodes() ? sheet.heading : news).focus();
  };
  over.then((isOver) => isOver && dialog.close());
});
