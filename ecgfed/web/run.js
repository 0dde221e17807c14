"use strict";
/* A run's page: what is wider than its place is scrolled by keyboard, and what is folded away is printed. */
(() => {
  function reachable() {
    for (const box of document.querySelectorAll(".wide")) {
      if (box.scrollWidth > box.clientWidth + 1) box.setAttribute("tabindex", "0");
      else box.removeAttribute("tabindex");
    }
  }
  reachable();
  window.addEventListener("resize", reachable);
  for (const one of document.querySelectorAll("details")) one.addEventListener("toggle", reachable);
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details:not([open])"));
    for (const one of opened) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
})();
