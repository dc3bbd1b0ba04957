// The rest of the page: a table that sorts, links into folded sections, and links that set the
// gallery.
(() => {
  const byId = (id) => document.getElementById(id);

  // ---- sorting ------------------------------------------------------------------------------
  const table = byId("sortable");
  const sort = byId("sort"), down = byId("sort-down");
  // Numbers in their order, texts in theirs; what has no key comes last either way.
  function compare(a, b) {
    const x = Number(a), y = Number(b);
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
  }
  function sortBy(column, falling) {
    const key = (row) => row.cells[column].dataset.key;
    const rows = [...table.tBodies[0].rows];
    const known = rows.filter((row) => key(row) !== undefined);
    known.sort((a, b) => (falling ? -1 : 1) * compare(key(a), key(b)));
    table.tBodies[0].append(...known, ...rows.filter((row) => key(row) === undefined));
    [...table.tHead.rows[0].cells].forEach((head, c) => {
      if (c === column) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    sort.value = column;
    down.checked = falling;
  }
  if (table) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        // The first click on a number shows the largest, on a name the first of the alphabet.
        sortBy(column, now === null ? column > 0 : now === "ascending");
      });
      head.firstElementChild.replaceChildren(button);
    });
    const choose = () => sortBy(Number(sort.value), down.checked);
    sort.addEventListener("change", choose);
    down.addEventListener("change", choose);
    sort.closest(".sorter").hidden = false;
  }

  // ---- links --------------------------------------------------------------------------------
  function unfold() {
    const target = location.hash ? byId(location.hash.slice(1)) : null;
    if (!target) return;
    if (target.tagName === "DETAILS") {
      target.open = true;
      const charts = target.querySelector("details");
      if (charts) charts.open = true;
    }
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (!link) return;
    for (const name of ["show", "order"]) {
      const wanted = link.dataset[name];
      if (!wanted) continue;
      byId(name).value = wanted;
      byId(name).dispatchEvent(new Event("change"));
    }
    if (link.hash === location.hash) unfold();
  });
})();
