// What needs the service's options: sign up, addresses that may, and the names of providers.

import { call } from "./api.js";
import { byId, decoded, fill, language } from "./words.js";

let options = null;
let { timeZone } = Intl.DateTimeFormat().resolvedOptions();

const loadOptions = async () => (options ??= await call("GET", "auth/options"));
/** Return the label of the provider with this issuer, if there is one. */
export const providerOf = async (issuer) =>
  (await loadOptions()).providers.find((each) => each.issuer === issuer)?.label;

const form = document.querySelector("#sign-up form");
let isSent = false; // a link, perhaps to a wrong address

async function signUp() {
  const { registration } = await loadOptions();
  byId("sign-up-open").hidden = registration !== "open";
  byId("sign-up-closed").hidden = registration !== "closed";
  return isSent ? form.elements.email : null;
}

// Names the provider at which a session may go on.
async function signedOut(section, _, issuer) {
  fill(section, { left: (await providerOf(decoded(issuer))) ?? "" });
}

// An address can be right, and its domain is none of those that are accepted.
document.addEventListener("failed", ({ target, detail: { reasons } }) => {
  const field = target.querySelector("[autocomplete=email]");
  const domain = field?.value.toLowerCase().split("@").at(-1);
  const isOf = (each) => (each[0] === "*" ? domain.endsWith(each.slice(1)) : domain === each);
  const { registrationDomains: domains = [] } = options ?? {};
  const isRefused = domains.length && reasons[field?.name]?.includes("invalid");
  if (isRefused && !domains.some(isOf)) reasons[field.name] = ["domain"];
});
form?.addEventListener("prepare", ({ detail }) => {
  const { body, send } = detail;
  Object.assign(body, { language, timezone: timeZone });
  fill(form, { isUnconfirmed: false });
  detail.send = async () => {
    const { email } = await send(body);
    fill(byId("check-mail"), { sentTo: email });
    isSent = options.emailVerificationRequired;
    if (isSent) return;
    const login = { email, password: body.password };
    await call("POST", "auth/login", login).catch(() => (location.hash = `sign-in/${email}`));
  };
});
form?.addEventListener("failed", (event) => {
  const { timezone, username } = event.detail.reasons;
  fill(form, { isUnconfirmed: username?.includes("unconfirmed") ?? false });
  if (!timezone) return;
  event.preventDefault(); // a device without a zone says "Etc/Unknown", or a newer one than we know
  timeZone = undefined;
  event.target.requestSubmit();
});
form?.addEventListener("done", (event) => {
  if (isSent) return;
  event.preventDefault();
  form.reset();
});

export const sections = { "sign-up": signUp, "signed-out": signedOut };
