// Work that is more than the one call of a form.

import { Problem } from "./api.js";
import { showProblem } from "./forms.js";

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
