// Sets the theme before the first paint. "auto" follows the system; a choice is kept in this browser only.
// A classic script on purpose: a module would run after the paint and flash.
(() => {
  "use strict";
  const key = "spillway-theme";
  const order = ["auto", "light", "dark"];
  const read = () => {
    try {
      const v = localStorage.getItem(key);
      return order.includes(v) ? v : "auto";
    } catch {
      return "auto"; // storage is forbidden: the choice lasts as long as the page
    }
  };
  let current = read();
  const apply = () => {
    if (current === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = current;
  };
  apply();
  window.spillwayTheme = {
    get: () => current,
    next() {
      current = order[(order.indexOf(current) + 1) % order.length];
      try {
        localStorage.setItem(key, current);
      } catch {
        // as above
      }
      apply();
      return current;
    },
  };
})();
