// Files that are made in the page.

import { language } from "./words.js";

/** Offer a text for saving as a file. */
export function save(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

// Spreadsheets would take these for formulas. So `flask users import --links` writes them too.
const isFormula = (cell) => /^[=+@-]/.test(cell.slice(0, 1).normalize("NFKC"));
const quoted = (cell) => `"${isFormula(cell) ? "'" : ""}${cell.replaceAll('"', '""')}"`;

/** Offer a table for saving as CSV, which spreadsheets of the page's language read as one. */
export function saveTable(name, rows) {
  const separator = language === "en" ? "," : ";";
  const lines = rows.map((cells) => cells.map((cell) => quoted(String(cell))).join(separator));
  // The mark says that it is UTF-8. A name can hold what no name of a file may.
  const file = name.replace(/[^\p{L}\p{N}.-]+/gu, "-");
  save(`${file}.csv`, `\ufeff${lines.join("\r\n")}\r\n`, "text/csv");
}
