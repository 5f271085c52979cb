// Work that is more than the one call of a form, such as an act for each of many.

import { Problem } from "./api.js";
import { setBusy, showProblem } from "./forms.js";
import { say, when } from "./words.js";

/** Do some work of a form, which says what hinders it; return whether nothing did. */
export async function attempt(form, work) {
  try {
    await work();
    return true;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem; // a mistake of ours
    if (problem.status !== 401) showProblem(form, problem); // else the sign-in is shown
    return false;
  }
}

/** Whether it is known that a call has changed nothing. */
export const isRefusal = ({ status }) => [400, 403, 404, 409, 429].includes(status);

/**
 * Do `act` for each of the items until the `signal` stops it; return whether it came to its end. The
 * form says how far it is, and waits where the service asks for that. What is refused goes to
 * `refused(item, problem)`; any other problem ends it. `all` counts what an earlier run has done, too.
 * Without `refused`, that ends it too; so it must be with more than one `atOnce`.
 */
export async function run(form, items, act, { signal, refused, all = items.length, atOnce = 1 }) {
  const [status, rest] = [form.querySelector("[role=status]"), [...items]];
  let done = all - rest.length;
  showProblem(form, null);
  setBusy(form, true);
  const isOver = await attempt(form, async () => {
    while (rest.length && !signal.aborted) {
      status.textContent = say("say_people_of", { done, all });
      try {
        await Promise.all(rest.slice(0, atOnce).map(act));
        done += atOnce;
      } catch (problem) {
        const wait = problem.status === 429 && (problem.retryAfter || 1); // seconds
        if (wait && signal.aborted) return;
        if (wait) {
          status.textContent = say("say_people_pause", { when: when(wait) });
          await new Promise((over) => {
            setTimeout(over, wait * 1000);
            signal.onabort = over; // one for all pauses
          });
          continue;
        }
        if (problem.code === "not_found") problem.key = "error_group_gone";
        if (!refused || !isRefusal(problem)) throw problem;
        await refused(rest[0], problem);
      }
      rest.splice(0, atOnce);
    }
  });
  setBusy(form, false);
  return isOver;
}
