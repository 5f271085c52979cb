// What needs the service's options: sign up, addresses that may, and the names of providers.

import { call } from "./api.js";
import { byId, decoded, fill, language } from "./words.js";

let options = null;
let { timeZone } = Intl.DateTimeFormat().resolvedOptions();

const loadOptions = async () => (options ??= await call("GET", "auth/options"));
/** Return the label of the provider with this issuer, if there is one. */
export const providerOf = async (issuer) =>
  (await loadOptions()).providers.find((each) => each.issuer === issuer)?.label;

async function signUp() {
  const { registration } = await loadOptions();
  byId("sign-up-open").hidden = registration !== "open";
  byId("sign-up-closed").hidden = registration !== "closed";
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
byId("sign-up")?.addEventListener("prepare", ({ detail: { body } }) => {
  Object.assign(body, { language, timezone: timeZone });
});
byId("sign-up")?.addEventListener("failed", (event) => {
  if (!event.detail.reasons.timezone) return;
  event.preventDefault(); // a device without a zone says "Etc/Unknown", or a newer one than we know
  timeZone = undefined;
  event.target.requestSubmit();
});
byId("sign-up")?.addEventListener("done", (event) => {
  if (options.emailVerificationRequired) return;
  event.preventDefault();
  event.target.reset(); // the password is not needed any more
  const { email, password } = event.detail.body;
  call("POST", "auth/login", { email, password }).catch(() => (location.hash = "sign-in"));
});

export const sections = { "sign-up": signUp, "signed-out": signedOut };
