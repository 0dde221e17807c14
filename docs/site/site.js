// Accessibility fixes of the theme: names of landmarks, and keyboard focus for elements that scroll. The theme adds some
// elements late, so the fixes run again after every change of the page.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");

const SCROLLS = ["pre > code", ".md-typeset__scrollwrap", ".md-typeset p:has(> img)"].map((selector) => `${selector}:not([tabindex])`).join();

function fixAccessibility() {
  for (const nav of document.querySelectorAll("nav.md-nav[aria-labelledby]:not([aria-label])")) {
    const title = nav.querySelector(":scope > .md-nav__title"); // sections with a page of their own lack the label
    if (title) nav.setAttribute("aria-label", `Pages of ${title.textContent.trim()}`);
    nav.removeAttribute("aria-labelledby");
  }
  document.querySelectorAll("nav.md-code__nav:not([aria-label])").forEach((nav) => {
    const index = [...document.querySelectorAll("pre")].indexOf(nav.closest("pre") ?? nav.parentElement.querySelector("pre"));
    nav.setAttribute("aria-label", `Code block ${index + 1}`);
  });
  for (const wide of document.querySelectorAll(SCROLLS))
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
}

fixAccessibility();
addEventListener("load", fixAccessibility);
addEventListener("resize", fixAccessibility);
new MutationObserver(fixAccessibility).observe(document.body, { childList: true, subtree: true });
