"use strict";

// The colours that were last chosen, before the page is drawn: a module would run after that.
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "system";
} catch {
  // Storage is blocked.
}
