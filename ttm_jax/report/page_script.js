"use strict";
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
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  const letter = (index) => {
    let name = "";
    for (let n = index + 1; n > 0; n = Math.floor((n - 1) / 26)) {
      name = String.fromCharCode(65 + ((n - 1) % 26)) + name;
    }
    return name;
  };
  const number = (value) => (Number.isFinite(value) ? Number(value.toPrecision(4)).toString() : "∞");

  const controls = Object.fromEntries(
    ["run", "show", "order", "tag", "search", "iteration", "size"].map((id) => [id, byId(id)]));
  const index = read("gallery-index");
  const WORDS = {
    "to-right": ["flipped to right", "good"], "to-wrong": ["flipped to wrong", "bad"],
    "still-wrong": ["still wrong", "bad"], "still-right": ["right all along", "good"],
    changed: ["matching changed", ""], same: ["matching kept", ""],
  };
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
    const cards = units.map((unit, u) => {
      const [images, captions] = unit.shape;
      const card = {
        unit, images, captions, place: u,
        scores: scores.subarray(scoreAt, (scoreAt += T * images * captions)),
        matching: matching.subarray(matchAt, (matchAt += T * images)),
        margin: margin.subarray(u * T, (u + 1) * T),
        right: right.subarray(u * T, (u + 1) * T),
        selected: selected.subarray(u * T, (u + 1) * T),
        texts: unit.captions?.map((c) => data.captions[c]) ?? null,
      };
      card.fate = fate(card, T);
      card.words = [unit.id, ...unit.tags, ...(card.texts ?? [])].join("\n").toLowerCase();
      return card;
    });
    state = { T, cards, global: data.global, pool: entry.pool };
    return state;
  }

  function fate(card, T) {
    const first = card.right[0], last = card.right[T - 1];
    if (first === 2) {
      const n = card.images;
      const old = card.matching.subarray(0, n), now = card.matching.subarray((T - 1) * n);
      return old.every((caption, i) => caption === now[i]) ? "same" : "changed";
    }
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
    const { T, cards } = open(controls.run.value);
    const count = new Map();
    for (const card of cards) count.set(card.fate, (count.get(card.fate) ?? 0) + 1);
    const fates = Object.keys(WORDS).filter((name) => count.has(name));
    refill(controls.show, [["all", `everything (${cards.length})`],
      ...fates.map((name) => [name, `${WORDS[name][0]} (${count.get(name)})`])]);
    const tags = [...new Set(cards.flatMap((card) => card.unit.tags))].sort();
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
      (show === "all" || card.fate === show) && (!tag || card.unit.tags.includes(tag))
      && words.every((word) => card.words.includes(word)));
    sortFound();
    page = 0;
    draw();
  }

  function sortFound() {
    const t = Number(controls.iteration.value);
    const by = {
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
      ...found.slice(page * size, (page + 1) * size).map((card) => make("li", {}, drawCard(card, t))));
    const unit = state.global ? "images" : "groups";
    byId("count").textContent = `${found.length} of ${state.cards.length} ${unit}`
      + `, page ${page + 1} of ${pages}`;
    byId("iteration-text").textContent = t === 0 ? "0, the model as it came" : String(t);
    for (const end of ["", "-2"]) {
      byId(`previous${end}`).disabled = page === 0;
      byId(`next${end}`).disabled = page >= pages - 1;
    }
  }

  function drawCard(card, t) {
    const [word, kind] = WORDS[card.fate];
    const part = make("article", { class: "card", "aria-label": `${card.unit.id}, ${word}` },
      make("header", {}, make("h3", {}, card.unit.id), make("span", { class: `badge ${kind}` }, word)),
      drawPictures(card), ...drawScores(card, t), drawFate(card, t));
    if (card.unit.tags.length) part.append(make("p", { class: "tags" }, card.unit.tags.join(" · ")));
    part.append(drawStates(card, t));
    return part;
  }

  function drawPictures(card) {
    if (!card.unit.images || state.pool === null) return null;
    const pool = once(`pool-${state.pool}`);
    return make("div", { class: "pictures" }, ...card.unit.images.map((picture, i) => {
      const caption = card.unit.truth && card.texts ? card.texts[card.unit.truth[i]] : null;
      const alt = caption ?? `picture ${letter(i)} of ${card.unit.id}`;
      const image = make("img", { alt, width: 116, height: 116, loading: "lazy", decoding: "async" });
      image.src = `data:image/jpeg;base64,${pool[picture]}`;
      return make("figure", {}, image, card.images > 1 ? make("figcaption", {}, letter(i)) : null);
    }));
  }

  // One picture: a line a caption, its score in front. Several: the captions, then the matrix.
  function drawScores(card, t) {
    const cell = scoreCell(card, t);
    if (card.images === 1 && card.texts) return [drawPairs(card, t, cell)];
    return [drawCaptions(card), drawMatrix(card, t, cell)];
  }

  function scoreCell(card, t) {
    const { images, captions } = card;
    const at = card.scores.subarray(t * images * captions, (t + 1) * images * captions);
    const low = at.reduce((a, b) => Math.min(a, b), Infinity);
    const high = at.reduce((a, b) => Math.max(a, b), -Infinity);
    return (i, c) => {
      const value = at[i * captions + c];
      const chosen = card.matching[t * images + i] === c;
      const isTrue = card.unit.truth?.[i] === c;
      const cell = make("td", { class: `score ${chosen ? "chosen" : ""} ${isTrue ? "true" : ""}` },
        number(value));
      if (chosen || isTrue) {
        const said = [chosen ? "chosen" : null, isTrue ? "true pair" : null].filter(Boolean);
        cell.title = said.join(", ");
        cell.append(make("span", { class: "hidden" }, ` (${said.join(", ")})`));
      }
      const share = high > low ? (value - low) / (high - low) : 0;
      cell.style.setProperty("--share", `${Math.round(45 * share)}%`);
      return cell;
    };
  }

  const textOf = (text) => text ?? "(token ids only)";

  function drawCaptions(card) {
    if (!card.texts) return null;
    return make("ol", { class: "captions" }, ...card.texts.map((t) => make("li", {}, textOf(t))));
  }

  function tableName(card, t) {
    return make("caption", { class: "hidden" }, `scores of ${card.unit.id} at iteration ${t}`);
  }

  function drawPairs(card, t, cell) {
    const rows = card.texts.map((text, c) => make("tr", {},
      cell(0, c), make("td", { class: "caption" }, textOf(text))));
    return make("div", { class: "matrix pairs" },
      make("table", {}, tableName(card, t), make("tbody", {}, ...rows)));
  }

  function drawMatrix(card, t, cell) {
    const { images, captions } = card;
    const columns = Array.from({ length: captions }, (_, c) => c);
    const head = make("tr", {},
      make("th", { scope: "col" }, make("span", { class: "hidden" }, "picture")),
      ...columns.map((c) => make("th", { scope: "col" }, String(c + 1))));
    const rows = Array.from({ length: images }, (_, i) => make("tr", {},
      make("th", { scope: "row" }, letter(i)), ...columns.map((c) => cell(i, c))));
    return make("div", { class: "matrix" }, make("table", {}, tableName(card, t),
      make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  function drawFate(card, t) {
    const kind = state.global ? "similarity" : "margin";
    const right = ["wrong", "right", null][card.right[t]];
    const parts = [`iteration ${t}`, right, `${kind} ${number(card.margin[t])}`];
    if (t < state.T - 1) parts.push(card.selected[t] ? "trained on next" : "not selected");
    return make("p", { class: "fate" }, parts.filter(Boolean).join(" · "));
  }

  function drawStates(card, now) {
    const buttons = Array.from({ length: state.T }, (_, t) => {
      const right = card.right[t];
      const mark = right === 2 ? "·" : right ? "✓" : "✗";
      const said = `iteration ${t}: ${["wrong", "right", "unknown"][right]}`
        + (card.selected[t] ? ", selected" : "") + `, ${number(card.margin[t])}`;
      const button = make("button", {
        type: "button", title: said, "aria-label": said, "aria-pressed": String(t === now),
        class: card.selected[t] ? "picked" : null, "data-t": t,
      }, String(t), make("i", { class: right === 2 ? "" : right ? "good" : "bad" }, mark));
      return button;
    });
    return make("div", { class: "states", role: "group", "aria-label": "iterations" }, ...buttons);
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
    const cards = [...byId("cards").children];
    const which = cards.indexOf(button.closest("li"));
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
