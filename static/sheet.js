// The sheet to print: a slip for each link and code that was just made.

import { client } from "./api.js";
import { date, moment } from "./times.js";
import { byId, copy, fill, nameOf, pictureOf } from "./words.js";

// The first view needs none of it.
const style = { rel: "stylesheet", href: new URL("sheet.css", import.meta.url) };
const pages = document.querySelector("link[rel=stylesheet]"); // an operator's own.css is the last
pages.after(Object.assign(document.createElement("link"), style));
const sheet = byId("sheet");
const slips = byId("slips");
export const heading = sheet.querySelector("h2");

/** Whether codes are on the screen, which cannot be shown again. */
export const hasCodes = () => slips.childElementCount > 0;

/** Put the sheet before an element, where the codes are made. */
export const place = (next) => next.before(sheet);

/** Return the slip of an account, from the answer of the API and the name of a group, if any. */
export function slipOf({ user, group = "", link, code, qrCode, expiresAt }) {
  const { host, pathname: path } = new URL(link);
  return copy("newcomers-slip", {
    ...{ host, path, link, code, group, username: user.username, picture: pictureOf(qrCode) },
    name: nameOf(user),
    day: date(Date.now()),
    until: moment(expiresAt),
    signIn: new URL("account", link).pathname,
  });
}

/** Add a slip, and return it. */
export function add(made) {
  const slip = slipOf(made);
  slips.append(slip);
  fill(sheet, { isShared: !client.ownDevice });
  sheet.hidden = false;
  return slip;
}

/** Take some slips away, or all. */
export function remove(some = [...slips.children]) {
  for (const slip of some) slip.remove();
  sheet.hidden = !hasCodes();
}

const forget = byId("sheet-forget");
forget.addEventListener("submit", (event) => {
  event.preventDefault();
  remove();
  forget.closest("dialog").close();
  sheet.closest("section").querySelector("h1").focus();
});
forget.addEventListener("reset", () => remove()); // the frame's, before another user's turn
addEventListener("beforeunload", (event) => hasCodes() && event.preventDefault());
