// The section "profile": what users say about themselves, their picture, and what others see of it.

import { call } from "./api.js";
import { attempt, keepChanges, setBusy, showProblem } from "./forms.js";
import { customOf, date } from "./times.js";
import { byId, fill, nameOf, say } from "./words.js";

const [section, form, pictureForm] = ["profile", "profile-form", "picture-form"].map(byId);
const file = pictureForm.elements.avatar;
const canvas = section.querySelector("canvas");
let me, record, filled; // what the form began with
let isTyped = false; // and not saved yet
let drawn; // the preview, once it stands

function countBio() {
  const left = 500 - [...form.elements.bio.value].length; // characters, as the API counts them
  byId("profile-bio-hint").textContent = left < 100 ? say("say_profile_left", { count: left }) : "";
}

// Shows what is stored: everywhere but in the form, where something may be typed already.
function present() {
  const { avatar, ...profile } = me.profile;
  const picture = avatar.split("/").pop();
  const shown = {
    ...profile,
    ...me.settings.privacy,
    name: nameOf(profile),
    // Without the host, which need not be the one at which the page was opened.
    picture: `avatars/${picture}`,
    hasPicture: picture !== section.dataset.noPicture,
    role: say(`say_role_${profile.role}`),
    since: date(profile.joinDate),
    custom: customOf(profile),
  };
  fill(section, { custom: shown.custom });
  fill(byId("profile-picture"), shown);
  shown.role = say(`say_role_${record.role}`); // also while it waits for a second factor
  fill(byId("profile-others"), { ...shown, learnt: say("say_profile_learnt", record.progress) });
}

async function show(_, user) {
  me = user;
  if (!section.dataset.shown) fill(form, (filled = me.profile)); // once: later may be typed
  fill(section, { mayChangeAccount: me.profile.mayChangeAccount });
  for (const name of ["firstName", "lastName", "location", "website"]) {
    const field = form.elements[name];
    field.disabled = field.closest(".field").hidden = !me.profile.mayChangeAccount;
  }
  countBio();
  record = await call("GET", `users/${me.profile.id}`);
  present();
}

form.addEventListener("input", () => {
  isTyped = true;
  countBio();
});
form.addEventListener("reset", () => (isTyped = false)); // the frame's, for another user
addEventListener("beforeunload", (event) => isTyped && event.preventDefault());
form.addEventListener("prepare", ({ detail: { body } }) => keepChanges(body, filled));
form.addEventListener("done", ({ detail: { data } }) => {
  isTyped = false;
  me.profile = filled = data;
  fill(form, data);
  countBio();
  present();
});

// Draws the chosen picture as the service will cut it; one that the browser cannot read is not
// shown, and the API says what is wrong with it.
async function preview() {
  showProblem(pictureForm, null);
  canvas.hidden = true;
  const [chosen] = file.files;
  const picture = chosen && (await createImageBitmap(chosen).catch(() => null));
  if (!picture || chosen !== file.files[0]) return;
  const { width, height } = picture;
  const side = Math.min(width, height);
  const size = Math.min(side, 512); // pixels
  Object.assign(canvas, { width: size, height: size }); // which empties it, too
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.drawImage(picture, (width - side) / 2, (height - side) / 2, side, side, 0, 0, size, size);
  picture.close();
  canvas.hidden = false;
}

async function change(method, body) {
  if (pictureForm.ariaBusy === "true") return;
  const bar = pictureForm.querySelector("progress");
  let done = "";
  showProblem(pictureForm, null);
  setBusy(pictureForm, true);
  bar.hidden = false;
  await attempt(pictureForm, async () => {
    me.profile.avatar = (await call(method, "users/avatar", await body?.())).avatar;
    pictureForm.reset();
    canvas.hidden = true;
    present();
    done = say(body ? "say_saved" : "say_profile_picture_removed");
  });
  bar.hidden = true;
  setBusy(pictureForm, false, done);
}

// What the browser can show goes as it is shown: small enough for any limit, and in a moment.
async function upload() {
  await drawn;
  const small = canvas.hidden ? null : await new Promise((done) => canvas.toBlob(done));
  const body = new FormData();
  body.append("avatar", small ?? file.files[0]);
  return body;
}

file.addEventListener("change", () => (drawn = preview()));
pictureForm.addEventListener("submit", (event) => {
  event.preventDefault();
  change("POST", upload);
});
pictureForm.querySelector(".danger").addEventListener("click", () => change("DELETE"));
// Anywhere: a picture that misses its place would open in the browser instead of the page.
for (const way of ["dragover", "drop", "paste"]) {
  document.addEventListener(way, (event) => {
    const { files, types } = event.dataTransfer ?? event.clipboardData;
    const isText = types.includes("text/plain"); // office programs add a picture of it
    if (section.hidden || isText || !types.includes("Files")) return;
    event.preventDefault();
    if (!files.length) return; // it is still on its way
    file.files = files;
    pictureForm.scrollIntoView({ block: "nearest" });
    drawn = preview();
  });
}

export const sections = { profile: show };
