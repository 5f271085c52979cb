// What is kept of a person, to print: #people/<id>/kept, all of the export in words.

import { Problem, call } from "./api.js";
import { describe } from "./happened.js";
import { saveData } from "./lists.js";
import { customOf, known, languageName, moment } from "./times.js";
import { fill, language, nameOf, number } from "./words.js";

const TIME = /^\d{4}-\d\d-\d\dT.*Z$/;
let words; // of what an export has, by the names there
let zone; // of the person

// Returns a page of ours. This is what brings the words, so that /admin is light without them.
const load = (url) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.onloadend = () =>
      request.status === 200 ? resolve(request.response) : reject(new Problem("no_response"));
    request.open("GET", url);
    request.responseType = "document";
    request.send();
  });

function make(tag, className, ...children) {
  const made = Object.assign(document.createElement(tag), { className });
  made.append(...children);
  return made;
}

/** Return the word for a name, or the name itself of what is newer than the words. */
const word = (name) => words.get(name) ?? name.replace("custom_", "");

function text(name, value) {
  if (value === null || value === "") return word("none");
  if (typeof value === "boolean") return word(value ? "yes" : "no");
  if (typeof value === "number") return number(value);
  if (TIME.test(value)) return moment(value, zone);
  if (name === "fields") return value.split(" ").map((each) => word(`custom_${each}`)).join(", ");
  return name === "language" ? languageName(value) : words.get(`${name}_${value}`) ?? value;
}

function facts(values) {
  const fact = ([name, value]) =>
    make("div", "", make("dt", "", `${word(name)} `), make("dd", "", shown(name, value)));
  return make("dl", "facts", ...Object.entries(values).map(fact));
}

// Returns what stands for a value: an element, a text, facts, or a block for each item of a list.
function shown(name, value) {
  if (value instanceof Element) return value;
  if (value === null || typeof value !== "object") return text(name, value);
  if (!Array.isArray(value)) return facts(value);
  const items = value.map((item) => make("li", "", shown(name, item)));
  return items.length ? make("ul", "plain-list", ...items) : word("none");
}

async function happened(event) {
  const { type, by, byId, details, ...more } = event;
  const texts = await describe(event);
  const said = `${texts.event} ${texts.by || word(`by_${by}`)}`;
  return make("div", "", said, facts({ ...more, ...(byId && { byId }), ...texts.details }));
}

/** Show it in a place; return its heading. */
export async function show(place, id, isLate) {
  const asked = [call("GET", `users/${id}/export`), load(`privacy?language=${language}`)];
  const [data, page] = await Promise.all(asked);
  const { exportedAt, account: { customFields, ...account }, avatar, events, ...rest } = data;
  const own = Object.entries(customOf({ customFields }));
  Object.assign(account, Object.fromEntries(own.map(([name, text]) => [`custom_${name}`, text])));
  const lines = page.getElementById("kept-words").content.textContent.trim().split("\n");
  words = new Map(lines.map((line) => line.slice("say_kept_".length).split(/ (.*)/)));
  zone = known(rest.settings.timezone);
  const history = await Promise.all(events.map(happened));
  if (isLate()) return;
  const paper = document.importNode(page.getElementById("kept").content, true).firstElementChild;
  const title = word("title").replace("{name}", () => nameOf(account));
  const at = { url: new URL("privacy", location).href, zone: rest.settings.timezone };
  fill(paper, { ...at, title, day: moment(exportedAt, zone), back: `admin#people/${id}` });
  const image = make("img", "avatar");
  image.alt = avatar?.mediaType;
  if (avatar) image.src = `data:${avatar.mediaType};base64,${avatar.data}`;
  const all = { account, avatar: avatar && image, ...rest, events: history };
  for (const [name, value] of Object.entries(all)) {
    paper.append(make("section", "room", make("h2", "", word(name)), shown(name, value)));
  }
  paper.querySelector("[value=save]").onclick = () => saveData(account.username, data);
  place.replaceChildren(paper);
  document.title = `${title} · ${document.title}`;
  return paper.querySelector("h1");
}
