// Without this script all examples stand on the page, each direction folded up.
(function () {
  "use strict";
  var root = document.documentElement;
  var select = document.getElementById("direction");
  var sections = Array.prototype.slice.call(document.querySelectorAll("details.direction"));

  function show(direction) {
    sections.forEach(function (section) {
      var chosen = section.dataset.direction === direction;
      section.hidden = direction !== "all" && !chosen;
      section.open = chosen;
    });
    select.value = direction;
  }

  function asked() {
    var found = /^#direction=(.+)$/.exec(location.hash);
    var wanted = found && decodeURIComponent(found[1]);
    var known = sections.some(function (section) { return section.dataset.direction === wanted; });
    return known || wanted === "all" ? wanted : null;
  }

  function follow() {
    var direction = asked();
    if (direction) {
      show(direction);
      document.getElementById("examples").scrollIntoView();
    }
  }

  if (!sections.length) { return; }
  root.classList.add("js");
  select.addEventListener("change", function () {
    // Not location.hash: choosing an example should not move the page or fill the history.
    history.replaceState(null, "", "#direction=" + select.value);
    show(select.value);
  });
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details:not(.screen)").forEach(function (each) {
      each.dataset.open = each.open;
      each.open = true;
    });
  });
  window.addEventListener("afterprint", function () {
    document.querySelectorAll("details[data-open]").forEach(function (each) {
      each.open = each.dataset.open === "true";
    });
  });
  show(asked() || sections[0].dataset.direction);
  follow();
})();
