// What the theme leaves out for those who use a screen reader or the keyboard alone: names of landmarks, and focus for
// what scrolls. The theme adds some of its elements late, so it is looked at again whenever the page has changed.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");

const SCROLLS = ["pre > code", ".md-typeset__scrollwrap", ".md-typeset p:has(> img)"].map((one) => `${one}:not([tabindex])`).join();

function mend() {
  for (const nav of document.querySelectorAll("nav.md-nav[aria-labelledby]:not([aria-label])")) {
    const title = nav.querySelector(":scope > .md-nav__title"); // sections with a page of their own lack the label
    if (title) nav.setAttribute("aria-label", `Pages of ${title.textContent.trim()}`);
    nav.removeAttribute("aria-labelledby");
  }
  document.querySelectorAll("nav.md-code__nav:not([aria-label])").forEach((nav) => {
    const place = [...document.querySelectorAll("pre")].indexOf(nav.closest("pre") ?? nav.parentElement.querySelector("pre"));
    nav.setAttribute("aria-label", `Code block ${place + 1}`);
  });
  for (const wide of document.querySelectorAll(SCROLLS))
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
}

mend();
addEventListener("load", mend);
addEventListener("resize", mend);
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
