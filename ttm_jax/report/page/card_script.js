"use strict";
// One card of the gallery: pictures with what was chosen for them, scores, the fate over the
// iterations. Everything that comes from data is set as text, never as markup.
const cards = (() => {
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
  // Two decimals; scores that are all far below one need digits instead.
  const number = (value) => {
    if (!Number.isFinite(value)) return "∞";
    if (Math.abs(value) >= 1e6) return value.toExponential(2);
    if (run.tiny) return value === 0 ? "0" : value.toPrecision(2);
    return value.toFixed(2).replace(/^-(0\.00)$/, "$1");
  };
  const exactly = (value) => Number(value.toPrecision(6)).toString();

  const WORDS = {
    "to-right": ["became right", "good"], "to-wrong": ["became wrong", "bad"],
    "still-wrong": ["still wrong", "bad"], "still-right": ["right all along", "good"],
    changed: ["changed", "new"], same: ["kept", ""],
  };
  let run = null; // what the card belongs to: T, global, pictures, tiny

  const chosenCaption = (card, t, i) => card.matching[t * card.images + i];

  function isChanged(card, t) {
    return Array.from({ length: card.images }, (_, i) => i)
      .some((i) => chosenCaption(card, t, i) !== chosenCaption(card, 0, i));
  }

  // The true matching was found, but does not count: another one is as good.
  function isTied(card, t) {
    return card.right[t] === 0
      && card.unit.truth.every((caption, i) => chosenCaption(card, t, i) === caption);
  }

  function draw(card, t, itsRun) {
    run = itsRun;
    const [fate, kind] = WORDS[card.fate];
    const word = card.changed && card.fate === "still-wrong" ? `changed, ${fate}` : fate;
    const part = make("article", { class: "card", "aria-label": `${card.unit.id}, ${word}` },
      make("header", {}, make("h3", {}, card.unit.id), make("span", { class: `badge ${kind}` }, word)),
      drawPictures(card, t), ...drawScores(card, t), drawFate(card, t));
    if (card.unit.tags.length) part.append(make("p", { class: "tags" }, card.unit.tags.join(" · ")));
    part.append(drawStates(card, t));
    return part;
  }

  // Every picture with the caption that was chosen for it, and what it was before or should be.
  function drawPictures(card, t) {
    const pool = card.unit.images ? run.pictures : null;
    const columns = { 1: "one", 2: "two", 4: "two" }[card.images] ?? "three";
    return make("div", { class: `pictures ${columns}` }, ...Array.from({ length: card.images },
      (_, i) => make("figure", {}, pool ? drawPicture(card, i, pool) : null,
        drawChoice(card, t, i))));
  }

  function drawPicture(card, i, pool) {
    const caption = card.unit.truth && card.texts ? card.texts[card.unit.truth[i]] : null;
    const alt = caption ?? card.files[i] ?? `picture ${letter(i)} of ${card.unit.id}`;
    const image = make("img", { alt, width: 200, height: 200, loading: "lazy", decoding: "async" });
    image.src = `data:image/jpeg;base64,${pool[card.unit.images[i]]}`;
    return make("div", { class: "frame" }, image,
      card.images > 1 ? make("span", { class: "letter", "aria-hidden": "true" }, letter(i)) : null);
  }

  function drawChoice(card, t, i) {
    const now = chosenCaption(card, t, i), before = chosenCaption(card, 0, i);
    const truth = card.unit.truth?.[i];
    const said = (c) => {
      if (c < 0) return "no caption";
      return card.texts ? textOf(card.texts[c]) : `caption ${c + 1}`;
    };
    const known = card.unit.truth && card.right[t] !== 2;
    const [mark, kind, title] = now !== truth ? ["✗", "bad", "wrong"]
      : isTied(card, t) ? ["=", "bad", "tied: another matching is as good"] : ["✓", "good", "right"];
    const note = (name, c) => make("small", {}, make("b", {}, name), said(c));
    return make("figcaption", {},
      make("p", { class: "choice" },
        known ? make("i", { class: kind, title }, mark) : null,
        card.images > 1 && now >= 0 ? make("i", { class: "place" }, String(now + 1)) : null,
        make("span", {}, said(now))),
      now !== before ? note(known && before === truth ? "before ✓ " : "before ", before) : null,
      known && now !== truth && truth !== before ? note("true ✓ ", truth) : null,
      card.files[i] && card.files[i] !== card.unit.id
        ? make("small", { class: "file" }, card.files[i]) : null);
  }

  // One picture: one line per caption with its score in front. Several: the captions, then the matrix.
  function drawScores(card, t) {
    const cell = scoreCell(card, t);
    if (card.images === 1 && card.texts) return [drawPairs(card, t, cell)];
    return [drawOthers(card, t), drawMatrix(card, t, cell)];
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
      cell.title = exactly(value);
      if (chosen || isTrue) {
        const said = [chosen ? "chosen" : null, isTrue ? "true pair" : null].filter(Boolean);
        cell.title = `${said.join(", ")}: ${exactly(value)}`;
        cell.append(make("span", { class: "hidden" }, ` (${said.join(", ")})`));
      }
      const share = high > low ? (value - low) / (high - low) : 0;
      cell.style.setProperty("--share", `${Math.round(45 * share)}%`);
      return cell;
    };
  }

  const textOf = (text) => text ?? "(token ids only)";

  // Captions that no picture got.
  function drawOthers(card, t) {
    if (!card.texts) return null;
    const taken = new Set(card.matching.subarray(t * card.images, (t + 1) * card.images));
    const others = card.texts.map((text, c) => [text, c]).filter(([, c]) => !taken.has(c));
    if (!others.length) return null;
    return make("ol", { class: "captions" },
      ...others.map(([text, c]) => make("li", { value: c + 1 }, textOf(text))));
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
    const kind = run.global ? "similarity" : "margin";
    const right = ["wrong", "right", null][card.right[t]];
    const parts = [right, `${kind} ${number(card.margin[t])}`];
    if (t < run.T - 1) parts.push(card.selected[t] ? "trained on next" : "not selected");
    return make("p", { class: "fate" }, parts.filter(Boolean).join(" · "));
  }

  function drawStates(card, now) {
    const buttons = Array.from({ length: run.T }, (_, t) => {
      const right = card.right[t];
      const moved = right === 2 && t > 0 && isChanged(card, t);
      const mark = right === 2 ? (moved ? "≠" : "=") : right ? "✓" : "✗";
      const words = ["wrong", "right", moved ? "not as before training" : "as before training"];
      const said = `iteration ${t}: ${words[right]}`
        + (card.selected[t] ? ", selected" : "") + `, ${number(card.margin[t])}`;
      const button = make("button", {
        type: "button", title: said, "aria-label": said, "aria-pressed": String(t === now),
        class: card.selected[t] ? "picked" : null, "data-t": t,
      }, String(t), make("i", { class: right === 2 ? "" : right ? "good" : "bad" }, mark));
      return button;
    });
    return make("div", { class: "states", role: "group", "aria-label": "iterations" }, ...buttons);
  }

  return { WORDS, make, isChanged, draw };
})();
