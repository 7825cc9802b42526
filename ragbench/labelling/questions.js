// Writes questions about documents. Texts become text nodes, never markup; places count code points, as Python does.

// As in ragbench.errors; a sign of two units becomes two, so that places within a text stay.
const HIDDEN =
  /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const signOf = (hidden) => (hidden < " " ? String.fromCharCode(0x2400 + hidden.charCodeAt(0)) : "\ufffd".repeat(hidden.length));
/** The text with its control signs, and those that hide text or turn its direction, as signs. */
const visible = (text) => text.replace(HIDDEN, signOf);

function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.map((child) => (typeof child === "string" ? visible(child) : child)));
  return node;
}
const writes = (node) => Boolean(node?.matches?.("input, textarea, select, [contenteditable=true]"));
/** Return true if a key with a modifier edits the text that has the focus: undo, copy, paste, moves. */
const edits = (event) => writes(event.target) && (event.key.length > 1 || "acvxyzZ".includes(event.key));
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** Code points before a place that counts UTF-16 units, and the reverse. */
const toPoints = (text, units) => Array.from(text.slice(0, units)).length;
const toUnits = (text, points) => Array.from(text).slice(0, points).join("").length;

const LOST = "Not connected: run this cell again. Copy what is in the form first; all stored questions are in the file.";

function render({ model, el }) {
  const none = () => ({ query_id: "", text: "", answer: "", answerable: true, evidence: [] });
  let draft = none();
  let sent = null;
  let selecting = false;
  let waiting = 0;
  let lost = false;
  const send = (act, given) => model.send({ act, given });
  const shownDocument = () => model.get("document");

  // --- the document ------------------------------------------------------------------------------------------------
  const search = h("input", { type: "search", placeholder: "words in documents", "aria-label": "Search", oninput: find });
  const choice = h("select", { "aria-label": "Document", onchange: () => send("open", { doc_id: choice.value }) });
  const place = h("span", { class: "soft", role: "status" });
  const help = "Text of the document: arrow keys choose a sentence, with Shift several, Enter marks it";
  const text = h("div", { class: "text", tabindex: 0, role: "group", "aria-label": help, title: help, onpointerdown: () => (selecting = true), onkeydown: onTextKey });
  const chosen = h("span", { class: "soft", role: "status" });
  let sentence = null; // the sentences that are chosen by keyboard: from `anchor` to `head`
  const found = () => model.get("matches");

  function find() {
    clearTimeout(waiting);
    waiting = setTimeout(() => send("search", { words: search.value }), 250);
  }

  function step(by) {
    const ids = found();
    const at = ids.indexOf(shownDocument().doc_id);
    if (ids.length) send("open", { doc_id: ids[(at + by + ids.length) % ids.length] });
  }

  function drawChoice() {
    const counts = new Map();
    for (const one of model.get("questions")) for (const id of new Set(one.evidence.map((span) => span.doc_id))) counts.set(id, (counts.get(id) ?? 0) + 1);
    const ids = found().includes(shownDocument().doc_id) ? found() : [shownDocument().doc_id, ...found()];
    choice.replaceChildren(...ids.map((id) => h("option", { value: id }, counts.has(id) ? `${id} (${counts.get(id)})` : id)));
    choice.value = shownDocument().doc_id;
    const at = found().indexOf(choice.value);
    place.textContent = `${at < 0 ? "–" : at + 1} of ${plural(found().length, "document")}${search.value ? " found" : ""}`;
    progress.textContent = `${plural(model.get("questions").length, "question")}; ${counts.size} of ${plural(model.get("n_documents"), "document")} have one.`;
  }

  function drawText(scroll = false) {
    const { doc_id, text: own } = shownDocument();
    const ranges = [];
    const add = (kind, spans) => spans.filter((span) => span.doc_id === doc_id).forEach((span) => ranges.push([toUnits(own, span.start), toUnits(own, span.end), kind]));
    if (sentence) add("chosen", [{ doc_id, ...chosenSpan() }]);
    add("gold", draft.evidence);
    add("stored", model.get("questions").filter((one) => one.query_id !== draft.query_id).flatMap((one) => one.evidence));
    for (const word of search.value.split(/\s+/).filter(Boolean)) {
      const pattern = new RegExp(word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "gi");
      for (const match of own.matchAll(pattern)) ranges.push([match.index, match.index + word.length, "found"]);
    }
    const bounds = [...new Set([0, own.length, ...ranges.flatMap(([start, end]) => [start, end])])].sort((a, b) => a - b);
    text.replaceChildren(...bounds.slice(1).map((end, i) => {
      const kinds = ranges.filter(([from, to]) => from <= bounds[i] && end <= to).map(([, , kind]) => kind);
      const part = visible(own.slice(bounds[i], end));
      return kinds.length ? h("mark", { class: [...new Set(kinds)].join(" ") }, part) : part;
    }));
    sayChosen();
    if (scroll) {
      text.scrollTop = 0;
      const first = text.querySelector(".gold") ?? text.querySelector(".found");
      if (first) text.scrollTop = first.offsetTop - text.offsetTop - text.clientHeight / 3;
    }
  }

  /** Add what is selected in the text to the evidence, without the blanks around it; what overlaps becomes one. */
  function mark() {
    selecting = false;
    const selection = document.getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return;
    const chosen = selection.getRangeAt(0);
    const [from, to] = [chosen.startContainer, chosen.endContainer].map((node) => text.contains(node));
    if (!from && !to) return;
    const inside = document.createRange();
    inside.selectNodeContents(text);
    if (to) inside.setEnd(chosen.endContainer, chosen.endOffset);
    const before = inside.cloneRange();
    if (from) inside.setStart(chosen.startContainer, chosen.startOffset);
    before.setEnd(inside.startContainer, inside.startOffset);
    const { doc_id, text: own } = shownDocument();
    let start = before.toString().length;
    let end = start + inside.toString().length;
    while (start < end && !own[start].trim()) start += 1;
    while (start < end && !own[end - 1].trim()) end -= 1;
    if (/[\udc00-\udfff]/.test(own[start] ?? "")) start -= 1; // half of a pair
    if (/[\ud800-\udbff]/.test(own[end - 1] ?? "")) end += 1;
    selection.removeAllRanges();
    if (start >= end) return;
    for (const { index, segment, isWordLike } of new Intl.Segmenter(undefined, { granularity: "word" }).segment(own)) {
      const after = index + segment.length;
      if (isWordLike && index < start && start < after) start = index; // whole words
      if (isWordLike && index < end && end < after) end = after;
    }
    add({ start: toPoints(own, start), end: toPoints(own, end) });
  }

  /** Add a piece of the document to the evidence; what overlaps, or has only blanks between, becomes one. */
  function add(span) {
    const { doc_id, text: own } = shownDocument();
    const points = Array.from(own);
    const isBlank = (start, end) => !points.slice(start, end).join("").trim();
    const joined = (one) => one.doc_id === doc_id && isBlank(one.end, span.start) && isBlank(span.end, one.start);
    for (const one of draft.evidence.filter(joined)) {
      span.start = Math.min(span.start, one.start);
      span.end = Math.max(span.end, one.end);
    }
    const quote = points.slice(span.start, span.end).join("");
    draft.evidence = [...draft.evidence.filter((one) => !joined(one)), { doc_id, ...span, quote }];
    drawText();
    drawDraft();
  }

  // --- sentences, by keyboard --------------------------------------------------------------------------------------
  function chosenSpan() {
    const { sentences } = shownDocument();
    const [first, last] = [sentence.anchor, sentence.head].sort((a, b) => a - b);
    return { start: sentences[first][0], end: sentences[last][1] };
  }

  const covering = (span) => draft.evidence.find((one) => one.doc_id === shownDocument().doc_id && one.start <= span.start && span.end <= one.end);

  function onTextKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = shownDocument().sentences.length - 1;
    const head = sentence?.head ?? -1;
    const to = { ArrowDown: head + 1, ArrowUp: head - 1, Home: 0, End: last }[event.key];
    if (to !== undefined) choose(Math.min(Math.max(to, 0), last), event.shiftKey);
    else if (event.key === "Enter" || event.key === " ") toggle();
    else return;
    event.preventDefault();
  }

  function choose(head, isExtended) {
    if (head < 0) return; // a document without a sentence
    sentence = { anchor: isExtended && sentence ? sentence.anchor : head, head };
    drawText();
    const places = [...text.querySelectorAll(".chosen")].map((node) => node.getBoundingClientRect());
    const box = text.getBoundingClientRect();
    if (places[0].top < box.top) text.scrollTop += places[0].top - box.top - 8;
    else if (places.at(-1).bottom > box.bottom) text.scrollTop += places.at(-1).bottom - box.bottom + 8;
  }

  /** Mark the chosen sentences as evidence; take the evidence away that holds them already. */
  function toggle() {
    if (!sentence) return;
    const span = chosenSpan();
    const old = covering(span);
    if (old) drop(old);
    else add(span);
  }

  function drop(span) {
    draft.evidence = draft.evidence.filter((one) => one !== span);
    drawText();
    drawDraft();
  }

  function sayChosen() {
    const count = shownDocument().sentences.length;
    const isMarked = sentence && covering(chosenSpan());
    chosen.textContent = sentence ? `sentence ${sentence.head + 1} of ${count}${isMarked ? ", evidence" : ""}` : "";
  }

  const released = (event) => selecting && event.pointerType !== "touch" && setTimeout(mark);

  // --- the question ------------------------------------------------------------------------------------------------
  const heading = h("h4", {});
  const question = h("textarea", { rows: 2, oninput: () => (draft.text = question.value) });
  const answer = h("textarea", { rows: 2, oninput: () => (draft.answer = answer.value) });
  const unanswerable = h("input", { type: "checkbox", onchange: () => ((draft.answerable = !unanswerable.checked), drawDraft()) });
  const evidence = h("ul", {});
  const quote = h("input", { type: "text", placeholder: "paste a quote of the text, and press Enter", onkeydown: onQuoteKey });
  const remove = h("button", { onclick: askRemove }, "Delete");
  const message = h("p", { class: "message", role: "status" });
  const progress = h("p", { class: "soft", role: "status" });
  const list = h("ol", { class: "list" });

  function drawDraft() {
    heading.textContent = draft.query_id ? visible(`Question ${draft.query_id}`) : "New question";
    question.value = draft.text;
    answer.value = draft.answer;
    unanswerable.checked = !draft.answerable;
    const items = draft.evidence.map((span) =>
      h("li", {}, h("button", { "aria-label": "Remove this evidence", onclick: () => drop(span) }, "✕"),
        h("span", { class: "soft" }, ` ${span.doc_id} `), h("span", { class: "quote" }, span.quote)));
    evidence.replaceChildren(...(items.length ? items : [h("li", { class: "soft" }, draft.answerable ? "Mark it in the text, with the mouse or with the arrow keys and Enter, or paste it here." : "None is needed.")]));
    remove.hidden = !draft.query_id;
    remove.textContent = "Delete";
    for (const row of list.children) row.classList.toggle("current", row.dataset.id === draft.query_id);
  }

  function edit(one) {
    draft = structuredClone(one);
    message.textContent = "";
    const first = draft.evidence[0]?.doc_id;
    drawDraft();
    if (first && first !== shownDocument().doc_id) send("open", { doc_id: first });
    else drawText(true);
  }

  function lose() {
    lost = true;
    message.textContent = LOST;
    message.classList.add("error");
    const isEmpty = !question.value && !answer.value && !draft.evidence.length;
    if (sent && isEmpty) begin(sent); // it was not confirmed
    sent = null;
  }

  function save() {
    if (lost) return lose();
    sent = { ...draft, text: question.value, answer: answer.value };
    send("save", sent);
    begin(none()); // what is marked while the kernel saves belongs to the next question
    message.textContent = "Saving…";
  }

  function begin(next) {
    draft = next;
    drawDraft();
    drawText();
    question.focus();
  }

  function onQuoteKey(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || !quote.value.trim()) return;
    send("quote", { text: quote.value, doc_id: shownDocument().doc_id });
  }

  /** Add a quote that the kernel found, which may be of another document. */
  function addFound(span) {
    quote.value = "";
    message.textContent = "";
    message.classList.remove("error");
    if (span.doc_id === shownDocument().doc_id) return add(span);
    draft.evidence = [...draft.evidence, span];
    drawDraft();
    send("open", { doc_id: span.doc_id });
  }

  function askRemove() {
    if (remove.textContent === "Delete") remove.textContent = "Really delete?";
    else send("remove", { query_id: draft.query_id });
  }

  function drawList() {
    list.replaceChildren(...model.get("questions").map((one) =>
      h("li", { "data-id": one.query_id }, h("button", { onclick: () => edit(one) }, h("span", { class: "soft" }, `${one.query_id} `), one.text))));
  }

  function hear({ saved, removed, marked, error }) {
    if (marked) return addFound(marked);
    message.textContent = visible(error ?? (saved ? `Saved as ${saved}.` : `${removed} is deleted.`));
    message.classList.toggle("error", Boolean(error));
    const isEmpty = !question.value && !answer.value && !draft.evidence.length;
    if (error && sent && isEmpty) begin(sent);
    if (removed && !error) begin(none());
    sent = null;
  }

  // --- all together ------------------------------------------------------------------------------------------------
  const onKey = (event) => {
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    if (hasModifier && event.key === "Enter") {
      event.preventDefault();
      save();
    } else if (hasModifier && !edits(event)) return; // left to JupyterLab
    event.stopPropagation();
    if (event.key === "Escape") leave(event.target);
  };
  const leave = (from) => {
    from.blur();
    root.parentElement?.closest("[tabindex]")?.focus({ preventScroll: true });
  };
  const field = (label, node) => h("label", {}, h("span", { class: "soft" }, label), node);
  const root = h("div", { class: "rb-questions", onkeydown: onKey }, h("div", { class: "columns" },
    h("section", {},
      h("div", { class: "tools" }, search, h("button", { onclick: () => step(-1) }, "← previous"), h("button", { onclick: () => step(1) }, "next →"), choice, place),
      text,
      h("div", { class: "tools" }, h("button", { onpointerdown: (event) => event.preventDefault(), onclick: mark }, "Mark the selection"),
        h("span", { class: "soft" }, h("mark", { class: "gold" }, "evidence"), " of this question, ", h("mark", { class: "stored" }, "of others")), chosen)),
    h("section", {}, heading, field("Question", question), field("Answer (optional)", answer),
      h("div", {}, h("span", { class: "soft" }, "Evidence"), evidence), field("Quote", quote),
      h("label", { class: "line" }, unanswerable, " no document answers it"),
      h("div", { class: "tools" }, h("button", { class: "primary", title: "Ctrl + Enter", onclick: save }, "Save"),
        h("button", { onclick: () => (edit(none()), question.focus()) }, "New"), remove),
      message, h("h4", {}, "Stored"), progress, list)));
  el.append(root);

  const heard = {
    "change:document": () => ((sentence = null), drawChoice(), drawText(true)),
    "change:matches": () => (drawChoice(), drawText(true)),
    "change:questions": () => (drawChoice(), drawList(), drawText(), drawDraft()),
    "msg:custom": hear,
  };
  for (const [name, act] of Object.entries(heard)) model.on(name, act);
  const kernel = model.widget_manager?.kernel; // JupyterLab's
  const followKernel = (_, status) => ["restarting", "autorestarting", "terminating", "dead"].includes(status) && lose();
  kernel?.statusChanged?.connect(followKernel);
  document.addEventListener("pointerup", released);
  drawList();
  drawDraft();
  drawChoice();
  drawText();
  return () => {
    for (const [name, act] of Object.entries(heard)) model.off(name, act);
    document.removeEventListener("pointerup", released);
    kernel?.statusChanged?.disconnect(followKernel);
  };
}

export default { render };
