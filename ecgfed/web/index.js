"use strict";
/* The list of a folder's reports: a heading sorts the rows by its column, and then the other way round. */
(() => {
  const table = document.getElementById("index");
  if (!table) return;
  const body = table.tBodies[0];
  const headings = Array.from(table.tHead.rows[0].cells);

  /** Compare two values of a column, as numbers where both are; empty ones come last either way. */
  function compare(a, b, sign) {
    if (a === "" || b === "") return (a === "") - (b === "");
    const numbers = [Number(a), Number(b)];
    if (numbers.every(Number.isFinite)) return sign * (numbers[0] - numbers[1]);
    return sign * a.localeCompare(b, EcgLanguage.language(), { numeric: true });
  }

  function sort(column) {
    const heading = headings[column];
    const direction = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of headings) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction);
    const value = (row) => row.cells[column].dataset.value;
    const sign = direction === "ascending" ? 1 : -1;
    body.append(...Array.from(body.rows).sort((a, b) => compare(value(a), value(b), sign)));
  }

  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => sort(column)));
})();
