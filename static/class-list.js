// A list of people: shows what is wrong in it, and makes their accounts one after the other.

import { call, Problem } from "./api.js";
import { read, setBusy, showProblem } from "./forms.js";
import { bodyOf, check, COLUMNS, parse, suggest, textOf } from "./pasted-list.js";
import * as sheet from "./sheet.js";
import { copy, say, when } from "./words.js";

const MOST_LINES = 1000; // accounts that an admin may make in an hour
const LARGEST_FILE = 1_000_000; // bytes
// Milliseconds. A message that goes at once moves the page away under the click that left the field.
const JUDGE_AFTER = 300;
const [paste, make] = ["paste", "make"].map((id) => document.getElementById(id));
const table = document.getElementById("lines");
const summary = document.getElementById("lines-summary");
const rows = table.querySelector("tbody");
const meter = make.querySelector("progress");
const stop = document.getElementById("make-stop");
let lines = []; // of the list: {row, extra, refused, body, isMade}
let run = null; // {isOn, wake} while accounts are made

// Reading and checking

const labels = Object.fromEntries(
  [...table.querySelectorAll("[data-column]")].map((th) => [th.dataset.column, th.textContent]),
);

function addLine({ extra, ...person }, index) {
  const row = copy("newcomers-line", { ...person, number: index + 1 });
  for (const name of COLUMNS) {
    const field = row.querySelector(`[name=${name}]`);
    field.id = `line-${index}-${name}`;
    field.nextElementSibling.id = `${field.id}-error`;
    field.setAttribute("aria-describedby", `${field.id}-error`);
  }
  rows.append(row);
  const line = { row, extra };
  row.querySelector("button").addEventListener("click", () => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    lines = lines.filter((other) => other !== line);
    row.remove();
    judge();
    (next?.querySelector("button:not([hidden])") ?? table.querySelector("h3")).focus();
  });
  row.addEventListener("change", () => {
    Object.assign(line, { refused: null, extra: false });
    setTimeout(judge, JUDGE_AFTER);
  });
  return line;
}

const waiting = () => lines.filter((line) => !line.isMade);

// Shows what is wrong in each line, and returns the first such line.
function judge() {
  const open = waiting().filter((line) => !line.body);
  const taken = new Set(open.map(({ row }) => read(row).username.toLowerCase()));
  for (const { row } of open) {
    const field = row.querySelector("[name=username]");
    field.value ||= suggest(read(row), taken);
    taken.add(field.value.toLowerCase());
  }
  const people = open.map(({ row }) => read(row));
  const found = check(people).map((reasons, index) => {
    const line = open[index];
    const mistake = new Problem(line.extra ? "too_many_columns" : "invalid_request", { reasons });
    const isRight = !line.extra && !Object.keys(reasons).length;
    const problem = isRight ? line.refused : mistake;
    showProblem(line.row, problem, false);
    return problem ? line : null;
  });
  const wrong = found.filter(Boolean);
  const count = waiting().length;
  const bare = people.filter(({ email }) => !email).length;
  summary.textContent = Object.entries({ lines: count, wrong: wrong.length, bare })
    .map(([what, count]) => (count ? say(`say_newcomers_${what}`, { count }) : ""))
    .join(" ");
  make.hidden = !count;
  make.querySelector("button").textContent = say("say_newcomers_make", { count });
  return wrong[0];
}

function showLines(isShown) {
  table.hidden = !isShown;
  paste.hidden = isShown;
  (isShown ? table.querySelector("h3") : paste.elements.list).focus();
}

paste.addEventListener("submit", (event) => {
  event.preventDefault();
  const { people, unknown } = parse(paste.elements.list.value, labels);
  const code = unknown.length ? "unknown_columns" : people.length ? "too_many_lines" : "no_lines";
  const isRight = !unknown.length && people.length && people.length <= MOST_LINES;
  showProblem(paste, isRight ? null : new Problem(code));
  if (!isRight) return;
  rows.replaceChildren();
  lines = people.map(addLine);
  judge();
  meter.hidden = true;
  setBusy(make, false);
  showLines(true);
});

async function take(file) {
  if (!file) return;
  if (file.size > LARGEST_FILE) return showProblem(paste, new Problem("too_large"));
  paste.elements.list.value = await textOf(file);
  paste.elements.file.value = "";
  paste.requestSubmit();
}
paste.elements.file.addEventListener("change", ({ target }) => take(target.files[0]));
paste.addEventListener("dragover", (event) => event.preventDefault());
paste.addEventListener("drop", (event) => {
  const [file] = event.dataTransfer.files;
  if (!file) return; // a text, which goes into the field
  event.preventDefault();
  take(file);
});
document.getElementById("make-back").addEventListener("click", () => showLines(false));

// Making the accounts

function lock(line, isLocked) {
  for (const name of COLUMNS) line.row.querySelector(`[name=${name}]`).readOnly = isLocked;
  line.row.querySelector("button").hidden = isLocked;
}

// Makes the account of a line. While its `body` is kept, nobody knows whether the account is there.
async function makeLine(line, options) {
  let mayBeThere = Boolean(line.body);
  line.body ??= bodyOf({ ...read(line.row), ...options });
  lock(line, true);
  let data;
  try {
    if (mayBeThere) data = await findMade(line.body);
    mayBeThere = Boolean(data);
    data ??= await call("POST", "users", line.body);
  } catch (problem) {
    const isRefused = problem.status && problem.status < 500 && !mayBeThere;
    if (isRefused) line.body = null;
    if (isRefused) lock(line, false);
    throw problem;
  }
  line.isMade = true;
  line.body = null;
  showProblem(line.row, null, false);
  line.row.querySelector(".badge").hidden = false;
  if (data.code) sheet.add(data);
}

// Returns what the lost answer of a call that made an account said, or would have said.
async function findMade({ username, email, deliver }) {
  const { users } = await call("GET", "users", { username });
  const user = users.find((each) => each.email === email.toLowerCase() && !each.hasPassword);
  if (!user) return null;
  const link = deliver === "link";
  return { user, ...(link && (await call("POST", `users/${user.id}/access-link`, { deliver }))) };
}

// Waits as long as the service asks for; resolves at once when it is stopped.
const pause = (seconds) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    run.wake = () => resolve(clearTimeout(timer));
  });

async function makeAll() {
  const options = read(make);
  const mine = (run = { isOn: true });
  const status = make.querySelector("[role=status]");
  for (const line of waiting()) {
    while (mine.isOn && !line.isMade && !line.refused) {
      status.textContent = say("say_newcomers_progress", { made: meter.value, all: meter.max });
      try {
        await makeLine(line, options);
        meter.value += 1;
      } catch (problem) {
        if (problem.status === 429) {
          const again = when(problem.retryAfter);
          status.textContent = say("say_newcomers_pause", { when: again });
          await pause(problem.retryAfter || 60);
        } else if ([400, 409].includes(problem.status)) {
          const { username, ...others } = problem.reasons;
          const isBare = username && line.row.querySelector("[name=email]").value === "";
          if (isBare) problem.reasons = { username }; // its address is made of it
          line.refused = problem;
        } else {
          throw problem;
        }
      }
    }
  }
}

make.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (run) return;
  const wrong = judge();
  showProblem(make, wrong ? new Problem("lines_wrong") : null);
  if (wrong) return wrong.row.querySelector("[aria-invalid=true], button").focus();
  const before = waiting().length;
  Object.assign(meter, { hidden: false, max: before, value: 0 });
  stop.hidden = false;
  setBusy(make, true);
  try {
    await makeAll();
  } catch (problem) {
    if (!problem.code) throw problem; // a mistake of ours
    if (problem.status !== 401) showProblem(make, problem); // else the sign-in is shown
  } finally {
    run = null;
    stop.hidden = true;
    const made = before - waiting().length;
    setBusy(make, false);
    paste.elements.list.value = waiting()
      .map(({ row }) => COLUMNS.map((name) => row.querySelector(`[name=${name}]`).value).join("\t"))
      .join("\n");
    const first = judge();
    if (made) summary.prepend(say("say_newcomers_made", { made, all: before }), " ");
    if (first) first.row.querySelector("[aria-invalid=true], button").focus();
    else if (!waiting().length) sheet.hasCodes() ? sheet.show() : table.querySelector("h3").focus();
  }
});
stop.addEventListener("click", () => {
  run.isOn = false;
  run.wake?.();
});

addEventListener("beforeunload", (event) => run && event.preventDefault());
// The frame empties all forms before another user's turn.
paste.addEventListener("reset", () => {
  if (run) run.isOn = false;
  run = null;
  lines = [];
  rows.replaceChildren();
});
