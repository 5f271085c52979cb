// The sheet to print: a slip for each account that was just made with a link and a code.

import { copy, moment, pictureOf } from "./words.js";

const sheet = document.getElementById("sheet");
const slips = document.getElementById("slips");

/** Whether codes are on the screen, which cannot be shown again. */
export const hasCodes = () => slips.childElementCount > 0;

/** Add the slip of an account, from the answer of the API. */
export function add({ user, link, code, qrCode, expiresAt }) {
  const { host, pathname } = new URL(link);
  const name = `${user.firstName} ${user.lastName}`;
  const until = moment(expiresAt);
  const about = { name, username: user.username, code, until, place: host + pathname, link };
  slips.append(copy("newcomers-slip", { ...about, picture: pictureOf(qrCode) }));
  sheet.hidden = false;
}

export const show = () => sheet.querySelector("h2").focus();

function clear() {
  slips.replaceChildren();
  sheet.hidden = true;
}

document.getElementById("sheet-print").addEventListener("click", () => print());
const forget = document.getElementById("sheet-forget");
forget.addEventListener("submit", (event) => {
  event.preventDefault();
  clear();
  forget.closest("dialog").close();
  document.querySelector("#newcomers h1").focus();
});
forget.addEventListener("reset", clear); // the frame's, before another user's turn
addEventListener("beforeunload", (event) => slips.childElementCount && event.preventDefault());
