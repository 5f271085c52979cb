// What the latest act for many has changed, until the page is left, and how that is taken back.

import { Problem, call, userId } from "./api.js";
import { isRefusal } from "./run.js";

// What a history says of these acts, and of what somebody else does to the same.
const CHANGES = /^(group_|role_|account_(de)?activated)/;
export const done = new Map(); // by the users: the steps {there, back, after}, latest first
let isNew = true; // this act has changed nothing yet
let before = null; // the id of the latest event of all, from before this act

/** What is changed from now on is another act's. */
export function begin() {
  isNew = true;
  before = null;
}

// A step without `after` has changed something; else an event with a later id says whether it has.
function note(user, step) {
  if (isNew) done.clear();
  isNew = false;
  const others = (done.get(user) ?? []).filter(({ there }) => there[1] !== step.there[1]);
  done.set(user, [step, ...others]);
}

/** Send a call, `there`, which the call `back` takes back. Throws Problem. */
export async function change(user, there, back) {
  before ??= (await call("GET", "activity", { limit: 1 })).events[0]?.id ?? "";
  const [, , body] = there;
  try {
    const { changed } = await call(...there);
    // An account does not say whether it was changed; what the list has shown does.
    if (changed ?? user.isActive !== body?.isActive) note(user, { there, back });
  } catch (problem) {
    if (!isRefusal(problem)) note(user, { there, back, after: before });
    throw problem;
  }
  if (body) Object.assign(user, body);
}

// Returns whether an event is that of a call of ours.
function isOf({ type, byId, details }, [method, path, body]) {
  const told = { PUT: "group_joined", DELETE: "group_left" }[method];
  const state = body?.isActive ? "account_activated" : "account_deactivated";
  return byId === userId() && type === (told ?? state) && path.includes(details.group ?? "");
}

/**
 * Take back what was done to somebody; return whether there was anything: a call whose answer was
 * lost may have changed nothing. Throws Problem if somebody has changed the same since.
 */
export async function takeBack(user) {
  const { events } = await call("GET", `users/${user.id}/activity`, { limit: 100 });
  const isDone = ({ there, after }) =>
    after === undefined || events.some((event) => event.id > after && isOf(event, there));
  const real = done.get(user).filter(isDone);
  const last = events.find(({ type }) => CHANGES.test(type));
  // Of a try that broke off, the latest event may be of what took back a part.
  const isOurs = real.some(({ there, back }) => last && (isOf(last, there) || isOf(last, back)));
  if (real.length && !isOurs) throw new Problem("changed_since", { status: 409 });
  for (const { back: [method, path, body] } of real) {
    await call(method, path, body);
    if (body) Object.assign(user, body);
  }
  done.delete(user);
  return real.length > 0;
}
