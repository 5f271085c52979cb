"use strict";

// Swagger UI has dark colours, but does not follow the browser's setting by itself.
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
  // Tokens are forgotten when the tab closes, and no validator gets the document.
  persistAuthorization: false,
  validatorUrl: null,
});
