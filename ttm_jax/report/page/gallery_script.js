// The gallery. One page of cards exists at a time, so the number of groups does not matter.
// Everything that comes from data is set as text, never as markup.
(() => {
  const byId = (id) => document.getElementById(id);
  if (!byId("gallery")) return;

  const read = (id) => JSON.parse(byId(id).textContent);
  const kept = new Map();
  const once = (id) => {
    if (!kept.has(id)) kept.set(id, read(id));
    return kept.get(id);
  };
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

  const controls = Object.fromEntries(
    ["run", "show", "order", "tag", "search", "iteration", "size"].map((id) => [id, byId(id)]));
  const index = read("gallery-index");
  const { WORDS, make, isChanged } = cards;
  let state = null;
  let page = 0;
  let found = [];

  // ---- data ---------------------------------------------------------------------------------
  function open(choice) {
    const [experiment, run] = choice.split("-").map(Number);
    const entry = index[experiment];
    const data = once(`gallery-${experiment}`);
    const chosen = data.runs[run];
    const units = chosen.units ?? data.runs[0].units;
    const T = chosen.iterations;
    let scoreAt = 0, matchAt = 0;
    const scores = new Float32Array(bytes(chosen.scores));
    const matching = new Int16Array(bytes(chosen.matching));
    const margin = new Float32Array(bytes(chosen.margin));
    const right = new Uint8Array(bytes(chosen.right));
    const selected = new Uint8Array(bytes(chosen.selected));
    const every = units.map((unit, u) => {
      const [images, captions] = unit.shape;
      const card = {
        unit, images, captions, place: u,
        scores: scores.subarray(scoreAt, (scoreAt += T * images * captions)),
        matching: matching.subarray(matchAt, (matchAt += T * images)),
        margin: margin.subarray(u * T, (u + 1) * T),
        right: right.subarray(u * T, (u + 1) * T),
        selected: selected.subarray(u * T, (u + 1) * T),
        texts: unit.captions?.map((c) => data.captions[c]) ?? null,
        files: unit.images?.map((picture) => data.files[picture]) ?? [],
      };
      card.changed = isChanged(card, T - 1);
      card.fate = fate(card, T);
      const words = [unit.id, ...unit.tags, ...card.files, ...(card.texts ?? [])];
      card.words = words.join("\n").toLowerCase();
      return card;
    });
    const tiny = scores.length > 0 && scores.every((value) => Math.abs(value) < 0.1);
    const pictures = entry.pool === null ? null : once(`pool-${entry.pool}`);
    state = { T, cards: every, global: data.global, pictures, tiny };
    return state;
  }

  function fate(card, T) {
    const first = card.right[0], last = card.right[T - 1];
    if (first === 2) return card.changed ? "changed" : "same";
    if (first !== last) return last ? "to-right" : "to-wrong";
    return last ? "still-right" : "still-wrong";
  }

  // ---- choosing -----------------------------------------------------------------------------
  function refill(select, options) {
    const before = select.value;
    select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
    if (options.some(([value]) => value === before)) select.value = before;
  }

  function openRun() {
    const { T, cards: every } = open(controls.run.value);
    const count = new Map();
    for (const card of every) count.set(card.fate, (count.get(card.fate) ?? 0) + 1);
    count.set("changed", every.filter((card) => card.changed).length);
    const fates = ["changed", ...Object.keys(WORDS).filter((name) => name !== "changed")]
      .filter((name) => count.has(name));
    refill(controls.show, [["all", `everything (${every.length})`],
      ...fates.map((name) => [name, `${WORDS[name][0]} (${count.get(name)})`])]);
    const tags = [...new Set(every.flatMap((card) => card.unit.tags))].sort();
    refill(controls.tag, [["", "any tag"], ...tags.map((tag) => [tag, tag])]);
    controls.tag.closest("label").hidden = !tags.length;
    controls.iteration.max = T - 1;
    controls.iteration.value = T - 1;
    controls.iteration.disabled = T === 1;
    choose();
  }

  function choose() {
    const words = controls.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const show = controls.show.value, tag = controls.tag.value;
    found = state.cards.filter((card) =>
      (show === "all" || (show === "changed" ? card.changed : card.fate === show)) && (!tag || card.unit.tags.includes(tag))
      && words.every((word) => card.words.includes(word)));
    sortFound();
    page = 0;
    draw();
  }

  function sortFound() {
    const t = Number(controls.iteration.value);
    const end = state.T - 1;
    const by = {
      changed: (a, b) => b.changed - a.changed || a.margin[end] - b.margin[end] || a.place - b.place,
      data: (a, b) => a.place - b.place,
      low: (a, b) => a.margin[t] - b.margin[t] || a.place - b.place,
      high: (a, b) => b.margin[t] - a.margin[t] || a.place - b.place,
    };
    found.sort(by[controls.order.value]);
  }

  // ---- drawing ------------------------------------------------------------------------------
  function draw() {
    const t = Number(controls.iteration.value);
    const size = Number(controls.size.value);
    const pages = Math.max(1, Math.ceil(found.length / size));
    page = Math.min(page, pages - 1);
    byId("cards").replaceChildren(
      ...found.slice(page * size, (page + 1) * size).map((card) => make("li", {}, cards.draw(card, t, state))));
    const unit = state.global ? "images" : "groups";
    byId("count").textContent = `${found.length} of ${state.cards.length} ${unit}`
      + `, page ${page + 1} of ${pages}`;
    byId("iteration-text").textContent = `${t} of ${state.T - 1}`
      + (t === 0 ? ", the unadapted model" : "");
    for (const end of ["", "-2"]) {
      byId(`previous${end}`).disabled = page === 0;
      byId(`next${end}`).disabled = page >= pages - 1;
    }
  }

  // ---- events -------------------------------------------------------------------------------
  function turn(by) {
    const before = page;
    const pages = Math.ceil(found.length / Number(controls.size.value));
    page = Math.max(0, Math.min(page + by, pages - 1));
    if (page === before) return;
    draw();
    byId("gallery").scrollIntoView();
  }
  function setIteration(t) {
    if (t < 0 || t >= state.T) return;
    controls.iteration.value = t;
    if (controls.order.value !== "data") sortFound();
    draw();
  }

  controls.run.addEventListener("change", openRun);
  for (const id of ["show", "tag"]) controls[id].addEventListener("change", choose);
  controls.search.addEventListener("input", choose);
  controls.order.addEventListener("change", choose);
  controls.size.addEventListener("change", () => { page = 0; draw(); });
  controls.iteration.addEventListener("input", () => setIteration(Number(controls.iteration.value)));
  for (const end of ["", "-2"]) {
    byId(`previous${end}`).addEventListener("click", () => turn(-1));
    byId(`next${end}`).addEventListener("click", () => turn(1));
  }
  byId("cards").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-t]");
    if (!button) return;
    const which = [...byId("cards").children].indexOf(button.closest("li"));
    setIteration(Number(button.dataset.t));
    byId("cards").children[which]?.querySelector(`button[data-t="${button.dataset.t}"]`)?.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const t = Number(controls.iteration.value);
    const actions = {
      "/": () => controls.search.focus(), n: () => turn(1), p: () => turn(-1),
      "[": () => setIteration(t - 1), "]": () => setIteration(t + 1),
    };
    if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
  openRun();
})();
