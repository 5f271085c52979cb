"use strict";

// Swagger UI has dark colours, but follows the reader's choice only when told to.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

SwaggerUIBundle({
  url: "openapi.json",
  domNode: document.getElementById("docs"),
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: true,
  // A token entered here is gone with the tab, and the document goes to nobody for validation.
  persistAuthorization: false,
  validatorUrl: null,
});
