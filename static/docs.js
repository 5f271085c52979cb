"use strict";

// Swagger UI has dark colours, but does not follow the browser or the user by itself.
const page = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
function follow() {
  const { theme } = page.dataset; // from theme.js
  page.classList.toggle("dark-mode", theme === "dark" || (theme !== "light" && dark.matches));
}
dark.addEventListener("change", follow);
follow();

const nothing = () => () => null;
const FRAME = {
  wrapComponents: {
    // What the page itself says: the name, the description, the one server.
    InfoContainer: nothing,
    ServersContainer: nothing,
    // A link inside of a button.
    DeepLink: () => ({ text }) => text,
    // A field without a name.
    TextArea: (Original, { React }) => (props) =>
      React.createElement(Original, { "aria-label": "Body", ...props }),
  },
};

addEventListener("DOMContentLoaded", () =>
  SwaggerUIBundle({
    url: "openapi.json",
    domNode: document.getElementById("docs"),
    plugins: [FRAME],
    deepLinking: true,
    displayRequestDuration: true,
    filter: true,
    tryItOutEnabled: true,
    // All calls, their schemas and their colours at once would take a phone many seconds.
    docExpansion: "none",
    defaultModelsExpandDepth: -1,
    syntaxHighlight: false,
    // Tokens are forgotten when the tab closes, and no validator gets the document.
    persistAuthorization: false,
    validatorUrl: null,
  }),
);
