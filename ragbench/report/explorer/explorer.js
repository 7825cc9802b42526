// The explorer of questions, for the HTML file and the widget alike. Texts become text nodes, never markup.

const KINDS = { better: "▲", worse: "▼", tie: "●", none: "○" };
const WORDS = { better: "B better", worse: "B worse", tie: "equal", none: "not scored" };
const PAGE = 100; // rows that are added to the list at a time
const CELLS = 40; // per axis: questions in one cell are drawn as one mark
const [WIDE, HIGH, LEFT, BOTTOM, EDGE] = [460, 400, 76, 50, 14]; // of the plot, in the units of its view box
const TIE = 1e-12; // as in ragbench.statistics

// As in ragbench.errors; a sign of two units becomes two, so that places within a text stay.
const HIDDEN =
  /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const signOf = (hidden) => (hidden < " " ? String.fromCharCode(0x2400 + hidden.charCodeAt(0)) : "\ufffd".repeat(hidden.length));
/** The text with its control signs, and those that hide text or turn its direction, as signs. */
const visible = (text) => text.replace(HIDDEN, signOf);

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  const shown = children.filter((child) => child || child === "0");
  node.append(...shown.map((child) => (typeof child === "string" ? visible(child) : child)));
  return node;
}
const h = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(Math.abs(value) < 100 ? 3 : 0));
const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + number(Math.abs(value));
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** Return true if a key with a modifier edits the text that has the focus: undo, copy, paste, moves. */
const edits = (event) => event.target.matches("input, select") && (event.key.length > 1 || "acvxyzZ".includes(event.key));
/** Leave the explorer for the notebook around it. */
function leave(from) {
  from.blur();
  from.closest(".rb-explorer").parentElement.closest("[tabindex]")?.focus({ preventScroll: true });
}

/** Follow the theme of JupyterLab where there is one, else that of the system. */
function followTheme(root) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = () => {
    const lab = document.body.dataset.jpThemeLight;
    root.dataset.theme = (lab ? lab === "false" : system.matches) ? "dark" : "light";
  };
  set();
  system.addEventListener("change", set);
  const observer = new MutationObserver(set);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  return () => (system.removeEventListener("change", set), observer.disconnect());
}

/**
 * Build the explorer in `root`; `onSelect` hears the ids that are selected. Gives a function that selects by ids. With
 * `linked`, the fragment of the address names the open question, so that it can be shared.
 */
function explore(root, data, onSelect = () => {}, linked = false) {
  const { questions, sides, measures, scores, documents, causes } = data;
  const pair = sides.length === 2;
  const state = { measure: 0, sort: pair ? "worst" : "low", limit: PAGE, at: null, current: -1, selected: new Set() };
  const filters = {}; // name -> (question, index) => boolean
  let haystack = null;
  let kinds = [];
  let values = [];
  let shown = [];

  // --- numbers -----------------------------------------------------------------------------------------------------
  function kindOf(i) {
    const [a, b] = values.map((own) => own[i]);
    if (a === null || b === null) return "none";
    if (!pair || Math.abs(b - a) <= TIE) return "tie";
    return b > a === measures[state.measure].higher ? "better" : "worse";
  }
  const gain = (i) => (values[1][i] - values[0][i]) * (measures[state.measure].higher ? 1 : -1);
  const SORTS = {
    worst: ["B worse first", (i) => gain(i)],
    best: ["B better first", (i) => -gain(i)],
    low: [pair ? "A lowest first" : "lowest value first", (i) => values[0][i]],
    high: [pair ? "A highest first" : "highest value first", (i) => -values[0][i]],
    order: ["order of the test set", () => 0],
  };

  // --- texts: offsets count code points, as Python does ------------------------------------------------------------
  function cut([place, start, end]) {
    const own = documents[place].pieces.findLast(([from]) => from <= start);
    if (!/[\ud800-\udfff]/.test(own[1])) return own[1].slice(start - own[0], end - own[0]);
    own[2] ??= Array.from(own[1]);
    return own[2].slice(start - own[0], end - own[0]).join("");
  }

  /** What of [start, end] the ranges leave uncovered. */
  function uncovered(start, end, ranges) {
    const left = [];
    for (const [from, to] of ranges.sort((one, other) => one[0] - other[0])) {
      if (from > start) left.push([start, Math.min(from, end)]);
      start = Math.max(start, to);
      if (start >= end) return left;
    }
    return [...left, [start, end]];
  }

  /** The text of a place as nodes, with what overlaps the ranges wrapped by `tag`. */
  function highlighted(place, ranges, tag, attributes = {}) {
    const nodes = [];
    let [at, end] = place.slice(1);
    for (const [from, to] of ranges.sort((one, other) => one[0] - other[0])) {
      const [start, stop] = [Math.max(from, at), Math.min(to, end)];
      if (start >= stop) continue;
      if (start > at) nodes.push(cut([place[0], at, start]));
      nodes.push(h(tag, attributes, cut([place[0], start, stop])));
      at = stop;
    }
    return at < end ? [...nodes, cut([place[0], at, end])] : nodes;
  }

  // --- the frame ---------------------------------------------------------------------------------------------------
  const conclusion = h("p", { class: "conclusion" });
  const bar = h("div", { class: "bar", "aria-hidden": "true" });
  const count = h("span", { class: "count", role: "status" });
  const place = h("button", { onclick: () => update({ at: null }) }, "one mark of the plot ✕");
  const plot = h("figure", { class: "plot" });
  const list = h("ol", { class: "list", "aria-label": "Questions", onkeydown: onKey });
  const more = h("button", { onclick: () => update({ limit: state.limit + PAGE }, true) }, `show ${PAGE} more`);
  const back = h("button", { class: "back", onclick: () => list.scrollIntoView() }, "↑ list");
  const detail = h("section", { class: "detail", "aria-label": "The question" });
  const chosen = h("span", { class: "count", role: "status" });
  const save = h("button", { class: "primary", onclick: download }, "Download as test set");
  const select = (label, options, onchange) =>
    h("label", {}, h("span", {}, label), h("select", { onchange: (event) => onchange(event.target.value) }, ...options));
  const option = (value, text) => h("option", { value }, text);

  /** A filter by a text that each question has, or that each side has: its options with their numbers. */
  function choice(name, label, texts, words = (text) => text) {
    const groups = texts.map(([side, of]) => {
      const counts = new Map();
      questions.forEach((one) => of(one) && counts.set(of(one), (counts.get(of(one)) ?? 0) + 1));
      const rows = [...counts].sort().map(([text, n]) => option(JSON.stringify([side, text]), `${words(text)} (${n})`));
      return side === null || !pair ? rows : rows.length ? [h("optgroup", { label: `in ${"AB"[side]}` }, ...rows)] : [];
    });
    return groups.flat().length && select(label, [option("", "all"), ...groups.flat()], (value) => {
      const [side, text] = value ? JSON.parse(value) : [];
      const of = value && texts.find(([own]) => own === side)[1];
      filter(name, value && ((one) => of(one) === text));
    });
  }
  const ofSides = (of) => sides.map((_, side) => [side, (one) => of(one.sides[side])]);
  const passed = (one) => (one.passed === undefined ? "" : one.passed ? "passed" : "did not pass");

  const filter = (name, test) => update((filters[name] = test || null, {}));

  function prepare() {
    haystack ??= questions.map((one) =>
      [one.id, one.text, one.reference, ...one.sides.flatMap((side) => [side.answer, side.why])].join("\n").toLowerCase());
  }

  function search({ target }) {
    prepare();
    const words = target.value.toLowerCase().split(/\s+/).filter(Boolean);
    filter("text", words.length && ((_, i) => words.every((word) => haystack[i].includes(word))));
  }

  const kindOptions = Object.entries(WORDS).map(([kind, word]) => option(kind, `${KINDS[kind]} ${word}`));
  const measureOptions = measures.map((one, i) => option(i, one.name));
  const form = h("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
    h("label", { class: "wide" }, h("span", {}, "Text"), h("input", { type: "search", placeholder: "question, answer or id", onfocus: prepare, oninput: search })),
    pair ? select("Change", [option("", "all"), ...kindOptions], (kind) => filter("kind", kind && ((_, i) => kinds[i] === kind))) : null,
    choice("category", "Category", [[null, (one) => one.category]]),
    choice("cause", "Cause of failure", ofSides((one) => one.cause), (cause) => causes[cause] ?? cause),
    choice("outcome", "Outcome", ofSides((one) => one.outcome)),
    choice("passed", "Thresholds", ofSides(passed)),
    h("button", { type: "reset", onclick: reset }, "Reset filters"));

  function reset() {
    Object.keys(filters).forEach((name) => delete filters[name]);
    update({ at: null });
  }

  // --- the plot ----------------------------------------------------------------------------------------------------
  function drawPlot() {
    const scored = shown.filter((i) => kinds[i] !== "none");
    const order = pair ? [] : [...scored].sort((i, j) => values[0][i] - values[0][j]);
    const ranks = new Map(order.map((i, rank) => [i, order.length > 1 ? rank / (order.length - 1) : 0.5]));
    const all = values.flat().filter((value) => value !== null);
    const low = all.reduce((least, value) => Math.min(least, value), 0);
    const high = all.reduce((most, value) => Math.max(most, value), low + 1);
    const part = (value) => (value - low) / (high - low);
    const across = (fraction) => LEFT + fraction * (WIDE - LEFT - EDGE);
    const up = (fraction) => HIGH - BOTTOM - fraction * (HIGH - BOTTOM - EDGE);
    const cells = new Map();
    for (const i of scored) {
      const [x, y] = pair ? [part(values[0][i]), part(values[1][i])] : [ranks.get(i), part(values[0][i])];
      const key = [Math.round(x * CELLS), Math.round(y * CELLS), kinds[i]].join();
      const { own, ...before } = cells.get(key) ?? { x: 0, y: 0, own: [] };
      own.push(i);
      cells.set(key, { x: before.x + x, y: before.y + y, own, kind: kinds[i] });
    }
    const marks = [...cells.values()].sort((one, other) => other.own.length - one.own.length).map((cell) => {
      const [x, y] = [across(cell.x / cell.own.length), up(cell.y / cell.own.length)];
      const r = Math.min(3.6 + 0.9 * Math.sqrt(cell.own.length - 1), 20);
      const shape = cell.kind === "tie"
        ? s("circle", { cx: x, cy: y, r })
        : s("path", { d: triangle(x, y, r * 1.25, cell.kind === "better" ? -1 : 1) });
      const current = cell.own.includes(state.current) ? " current" : "";
      return build(shape, { class: `mark ${pair ? cell.kind : "one"}${current}`, onclick: () => openCell(cell.own) }, [
        s("title", {}, cell.own.length === 1 ? questions[cell.own[0]].text : plural(cell.own.length, "question")),
      ]);
    });
    const axis = [0, 0.25, 0.5, 0.75, 1].flatMap((tick) => {
      const value = low + tick * (high - low);
      const label = value.toFixed(high - low > 10 ? 0 : 2);
      const rank = Math.round(1 + tick * Math.max(order.length - 1, 0)).toLocaleString("en");
      return [
        s("line", { class: "grid", x1: across(tick), x2: across(tick), y1: up(0), y2: up(1) }),
        s("line", { class: "grid", x1: across(0), x2: across(1), y1: up(tick), y2: up(tick) }),
        s("text", { x: across(tick), y: up(0) + 22, "text-anchor": "middle" }, pair ? label : rank),
        s("text", { x: LEFT - 12, y: up(tick) + 4, "text-anchor": "end" }, label),
      ];
    });
    const { name } = measures[state.measure];
    const short = (text) => (text.length > 44 ? `${text.slice(0, 43)}…` : text);
    const [below, atLeft] = pair ? sides.map((side, i) => `${"AB"[i]}: ${short(side.label)}`) : ["questions, lowest value first", name];
    const middle = (up(0) + up(1)) / 2;
    const picture = s("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${name}, ${plural(scored.length, "question")}; the list below holds the same` },
      ...axis,
      pair ? s("line", { class: "equal", x1: across(0), y1: up(0), x2: across(1), y2: up(1) }) : null,
      s("text", { class: "title", x: across(0.5), y: HIGH - 10, "text-anchor": "middle" }, below),
      s("text", { class: "title", x: 16, y: middle, "text-anchor": "middle", transform: `rotate(-90 16 ${middle})` }, atLeft),
      ...marks);
    const legend = ["better", "worse", "tie"].map((kind) => h("span", { class: kind }, `${KINDS[kind]} ${WORDS[kind]}`));
    plot.replaceChildren(picture,
      h("figcaption", {}, ...(pair ? [`${name}: `, ...legend] : []), h("span", {}, "A larger mark holds more questions; click one to list them.")));
  }
  const triangle = (x, y, r, sign) =>
    `M${x} ${y + sign * r}L${x - r * 0.9} ${y - sign * r * 0.7}L${x + r * 0.9} ${y - sign * r * 0.7}Z`;

  function openCell(own) {
    update({ at: own.length > 1 ? new Set(own) : null });
    open(shown.includes(own[0]) ? shown.find((i) => own.includes(i)) : own[0], true);
  }

  // --- the list ----------------------------------------------------------------------------------------------------
  function drawList() {
    const rows = shown.slice(0, state.limit).map((i) => {
      const one = questions[i];
      const box = h("input", { type: "checkbox", "aria-label": `select ${one.id}`, onchange: (event) => pick([i], event.target.checked) });
      box.checked = state.selected.has(i);
      const numbers = values.map((own) => number(own[i])).join(" → ");
      return h("li", { "data-i": i }, box,
        h("button", { onclick: () => open(i, true) },
          pair ? h("span", { class: kinds[i], role: "img", title: WORDS[kinds[i]], "aria-label": WORDS[kinds[i]] }, KINDS[kinds[i]]) : null,
          h("span", { class: "id" }, one.id), h("span", { class: "text" }, one.text), h("span", { class: "numbers" }, numbers)));
    });
    list.replaceChildren(...rows);
    more.hidden = shown.length <= state.limit;
    count.textContent = `${shown.length.toLocaleString("en")} of ${plural(questions.length, "question")}`;
    place.hidden = state.at === null;
    markRow();
  }

  /** Mark the current row; it alone takes part in the order of the tab key, arrow keys reach the others. */
  function markRow() {
    for (const row of list.children) row.className = Number(row.dataset.i) === state.current ? "current" : "";
    const first = list.querySelector(".current") ?? list.firstChild;
    for (const row of list.children) for (const part of row.children) part.tabIndex = row === first ? 0 : -1;
  }

  function onKey(event) {
    const at = shown.indexOf(state.current);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (to === undefined || !(to in shown)) return;
    event.preventDefault();
    open(shown[to]);
    list.querySelector(`li[data-i="${state.current}"] button`).focus();
  }

  function update(changes, keep = false) {
    Object.assign(state, keep ? {} : { limit: PAGE }, changes);
    const tests = [...Object.values(filters), state.at && ((_, i) => state.at.has(i))].filter(Boolean);
    const key = SORTS[state.sort][1];
    const keys = questions.map((_, i) => (kinds[i] === "none" ? Infinity : key(i))); // what is not scored comes last
    shown = questions.map((_, i) => i).filter((i) => tests.every((test) => test(questions[i], i)));
    shown.sort((i, j) => (keys[i] === keys[j] ? i - j : keys[i] - keys[j]));
    drawList();
    drawPlot();
  }

  function changeMeasure(index) {
    state.measure = Number(index);
    const { name, conclusion: sentence, counts: [better, worse, tie] } = measures[state.measure];
    values = scores[name];
    kinds = questions.map((_, i) => kindOf(i));
    conclusion.textContent = visible(sentence);
    const parts = Object.entries({ worse, tie, better }).filter(([, n]) => n);
    bar.replaceChildren(...parts.map(([kind, n]) => h("span", { class: kind }, `${KINDS[kind]} ${n}`)));
    [...bar.children].forEach((one, i) => (one.style.flexGrow = parts[i][1]));
    update({ at: null });
    if (state.current >= 0) drawDetail();
  }

  // --- the selection -----------------------------------------------------------------------------------------------
  function pick(indices, on = true) {
    indices.forEach((i) => (on ? state.selected.add(i) : state.selected.delete(i)));
    selectionChanged();
    onSelect([...state.selected].sort((i, j) => i - j).map((i) => questions[i].id));
  }

  function selectionChanged() {
    chosen.textContent = `${state.selected.size.toLocaleString("en")} selected`;
    save.disabled = !state.selected.size;
    root.querySelectorAll("[data-i] > input").forEach((box) => (box.checked = state.selected.has(Number(box.parentNode.dataset.i))));
  }

  function download() {
    const lines = [...state.selected].sort((i, j) => i - j).map((i) => questions[i].case);
    const url = URL.createObjectURL(new Blob([data.head, ...lines], { type: "application/jsonl" }));
    h("a", { href: url, download: "selection.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  // --- one question ------------------------------------------------------------------------------------------------
  function open(i, scroll = false) {
    if (linked) history.replaceState(null, "", fragment(questions[i]));
    show(i);
    list.querySelector(".current")?.scrollIntoView({ block: "nearest" });
    if (scroll && detail.offsetTop > list.offsetTop) detail.scrollIntoView({ block: "start" });
  }

  function show(i) {
    state.current = i;
    const at = shown.indexOf(i);
    if (at >= state.limit) update({ limit: Math.ceil((at + 1) / PAGE) * PAGE }, true);
    else drawPlot();
    markRow();
    drawDetail();
  }

  const fragment = (one) => `#q-${encodeURIComponent(one.id)}`;

  function follow() {
    const i = questions.findIndex((one) => fragment(one) === location.hash);
    if (i >= 0) open(i, true);
  }

  function drawDetail() {
    const [i, one] = [state.current, questions[state.current]];
    const at = shown.indexOf(i);
    const step = (text, by) => h("button", { disabled: !(at + by in shown) || at < 0, onclick: () => open(shown[at + by]) }, text);
    const box = h("input", { type: "checkbox", onchange: (event) => pick([i], event.target.checked) });
    box.checked = state.selected.has(i);
    const meta = [one.id, one.category, pair ? `${KINDS[kinds[i]]} ${WORDS[kinds[i]]}` : ""].filter(Boolean).join(" · ");
    detail.replaceChildren(); // which would write null as a text
    build(detail, {}, [
      h("p", { class: "steps" }, back, step("← previous", -1), step("next →", 1), h("label", { "data-i": i }, box, " select")),
      h("h2", {}, one.text), h("p", { class: "soft" }, meta),
      one.reference ? h("div", {}, h("h3", {}, "Reference answer"), h("p", { class: "quote" }, one.reference)) : null,
      h("div", { class: "sides" }, scoreTable(i), evidence(one)),
      h("div", { class: "sides" }, ...sides.map((side, number) => drawSide(one, side, number)))]);
    detail.scrollTop = 0;
  }

  function scoreTable(i) {
    const row = (name) => {
      const own = scores[name].map((side) => side[i]);
      const difference = pair && own.every((value) => value !== null) ? signed(own[1] - own[0]) : "–";
      return h("tr", {}, h("th", { scope: "row", title: measures.find((one) => one.name === name)?.meaning }, name), ...own.map((value) => h("td", {}, number(value))), pair ? h("td", {}, difference) : null);
    };
    const table = (names) => h("table", {}, h("thead", {}, h("tr", {}, ...["measure", ...(pair ? ["A", "B", "B − A"] : ["value"])].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...names.map(row)));
    const main = [...new Set([state.measure, ...measures.keys()])].slice(0, 8).map((at) => measures[at].name);
    const rest = Object.keys(scores).filter((name) => !main.includes(name)).sort();
    const all = h("details", { ontoggle: () => all.children.length < 2 && all.append(table(rest)) },
      h("summary", {}, `other measures (${rest.length})`));
    return h("div", {}, h("h3", {}, "Scores"), table(main), rest.length ? all : null);
  }

  const placed = (side) => (side.contexts ?? []).filter((one) => one.place && !one.unplaced);
  const missing = (side, [place, start, end]) =>
    uncovered(start, end, placed(side).filter((one) => one.place[0] === place).map((one) => one.place.slice(1)));

  /** How much of a piece of evidence a side had before it, in words. */
  function reach(side, span) {
    const left = missing(side, span);
    if (!left.length) return "in the context";
    if ((side.contexts ?? []).some((one) => one.unplaced)) return "not located in the context";
    return left.length === 1 && left[0][0] === span[1] && left[0][1] === span[2] ? "not in the context" : "partly in the context";
  }

  function evidence(one) {
    if (!one.evidence.length) return h("p", { class: "soft" }, "No gold evidence is known for this question.");
    const items = one.evidence.map((span) => {
      const states = one.sides.map((side, i) => `${pair ? `${"AB"[i]}: ` : ""}${reach(side, span)}`).join(", ");
      return h("li", {}, h("span", { class: "soft" }, `${documents[span[0]].id}, characters ${span[1]} to ${span[2]}. ${states}`), h("p", { class: "quote" }, h("mark", {}, cut(span))));
    });
    return h("div", {}, h("h3", {}, "Gold evidence"), h("ul", {}, ...items));
  }

  function drawSide(one, { label, checked }, number) {
    const side = one.sides[number];
    const contexts = (side.contexts ?? []).map((context) => {
      const spans = one.evidence.filter(([place]) => place === context.place?.[0]).map((span) => span.slice(1));
      const text = context.place ? highlighted(context.place, spans, "mark") : [];
      return h("li", {}, h("span", { class: "soft" }, context.id), h("p", { class: "quote" }, ...(text.length ? text : [h("i", {}, "its text is not at hand")])));
    });
    const lost = one.evidence.filter((span) => cut(span) && !["in the context", "not located in the context"].includes(reach(side, span)));
    const status = Object.entries({ Outcome: side.outcome, Error: side.error, Thresholds: passed(side), "Why not": side.reasons?.join("; "),
      "Cause of failure": causes[side.cause] ?? side.cause, Because: side.why, "Cut by the budget": side.cut?.join(", ") });
    return h("section", { class: "side" },
      h("h3", { class: "name" }, pair ? `${"AB"[number]}: ${label}` : label),
      h("dl", {}, ...status.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
      h("h3", {}, "Answer"), h("p", { class: "quote" }, ...answer(side)), claims(side, checked),
      lost.length ? h("h3", {}, "Evidence missing from the contexts") : null,
      ...lost.map((span) => h("p", { class: "quote" }, ...highlighted(span, missing(side, span), "del", { class: "lost" }))),
      h("h3", {}, `Contexts (${contexts.length})`), h("ol", {}, ...contexts));
  }

  /** The answer with its unsupported claims marked where they occur in it word for word. */
  function answer(side) {
    let parts = [side.answer ?? "no answer"];
    for (const [claim] of side.claims ?? []) {
      parts = parts.flatMap((part) => {
        const at = typeof part === "string" && claim ? part.indexOf(claim) : -1;
        return at < 0 ? [part] : [part.slice(0, at), h("span", { class: "doubt" }, claim), part.slice(at + claim.length)];
      });
    }
    return parts;
  }

  function claims(side, checked) {
    const rows = (side.claims ?? []).map(([claim, by]) => h("li", {}, h("span", { class: "doubt" }, claim), h("span", { class: "soft" }, ` (by ${by})`)));
    return rows.length ? h("div", {}, h("h3", {}, "Unsupported claims"), h("ul", {}, ...rows)) : h("p", { class: "soft" }, checked ? "No unsupported claim was found." : "Its claims were not checked one by one.");
  }

  // --- all together ------------------------------------------------------------------------------------------------
  const sorts = Object.entries(SORTS).filter(([name]) => pair || !["worst", "best"].includes(name));
  const title = sides.map((side, i) => h("span", { class: "name" }, pair ? `${"AB"[i]}: ${side.label}` : side.label));
  root.addEventListener("keydown", (event) => {
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    if (!hasModifier || edits(event)) event.stopPropagation(); // others are left to JupyterLab
    if (event.key === "Escape") leave(event.target);
  });
  root.append(
    h("header", {}, h("h1", {}, ...title), ...data.conclusion.map((sentence) => h("p", { class: "decision" }, sentence)), conclusion, bar, ...data.notes.map((note) => h("p", { class: "note" }, note))),
    form,
    h("div", { class: "columns" },
      h("div", { class: "overview" },
        h("div", { class: "filters" }, select("Measure", measureOptions, changeMeasure), select("Sort", sorts.map(([name, [text]]) => option(name, text)), (sort) => update({ sort }))),
        plot,
        h("p", { class: "tools" }, count, place,
          h("button", { onclick: () => pick(shown) }, "Select these"), h("button", { onclick: () => pick([...state.selected], false) }, "Clear"), chosen, save),
        list, more),
      detail));
  changeMeasure(0);
  if (shown.length) show(shown[0]); // what the list begins with; the address names it only when it is chosen
  selectionChanged();
  if (linked) addEventListener("hashchange", follow), follow();
  return (ids) => {
    const wanted = new Set(ids);
    state.selected = new Set(questions.flatMap((one, i) => (wanted.has(one.id) ? [i] : [])));
    selectionChanged();
  };
}

/** The HTML file. */
function start(page) {
  const root = page.getElementById("explorer");
  followTheme(root);
  explore(root, JSON.parse(page.getElementById("data").textContent), undefined, true);
}

/** The widget. */
export default {
  render({ model, el }) {
    const root = el.appendChild(h("div", { class: "rb-explorer" }));
    const stop = followTheme(root);
    const choose = explore(root, JSON.parse(model.get("data")), (ids) => {
      model.set("selected", ids);
      model.save_changes();
    });
    const hear = () => choose(model.get("selected"));
    model.on("change:selected", hear);
    hear();
    return () => (model.off("change:selected", hear), stop());
  },
};
