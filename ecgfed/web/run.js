"use strict";
/* A run's page: overflowing tables can be scrolled by keyboard, and closed details are printed. */
(() => {
  function reachable() {
    for (const box of document.querySelectorAll(".wide")) {
      if (box.scrollWidth > box.clientWidth + 1) box.setAttribute("tabindex", "0");
      else box.removeAttribute("tabindex");
    }
  }
  reachable();
  window.addEventListener("resize", reachable);
  for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", reachable);
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details:not([open])"));
    for (const details of opened) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
})();
