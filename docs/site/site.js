// What the theme leaves out for those who use a screen reader.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
