// Labels answers, one at a time. Texts come with their hidden signs shown and become text nodes, never markup.

function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

const PATIENCE_MS = 5000; // before the form says that the kernel does not answer
const NOTE_MS = 400; // after the last key in the note
const MOVES = { "back (b)": "b", "skip (s)": "s", "first unlabelled (u)": "u" };
const LOST = "Not connected: run this cell again. All that was shown as labelled is in the sheet.";
const LATE = "The kernel does not answer: it is busy, or was restarted. If it was restarted, run this cell again.";

const writes = (node) => Boolean(node?.matches?.("input, textarea, select, [contenteditable=true]"));
/** Return true if a key with a modifier edits the text that has the focus: undo, copy, paste, moves. */
const edits = (event) => writes(event.target) && (event.key.length > 1 || "acvxyzZ".includes(event.key));

function render({ model, el }) {
  let item = "";
  let saved = ""; // the note as the sheet has it
  let serial = 0; // of the last message
  let answered = 0; // the last one that the kernel answered
  let lost = false;
  let noting = 0;
  let waiting = 0;

  const progress = h("progress", {});
  const count = h("span", { role: "status" });
  const texts = h("div", {});
  const asked = h("p", { class: "asked" });
  const choices = h("div", { class: "tools" });
  const moves = h("div", { class: "tools" }, ...Object.entries(MOVES).map(([text, key]) => h("button", { onclick: () => send(key) }, text)));
  const note = h("textarea", { rows: 2, placeholder: "note (optional)", "aria-label": "Note", oninput: noted });
  const message = h("p", { class: "message", role: "status" });
  const root = h("div", { class: "rb-label", tabindex: 0, role: "group", "aria-label": "Label answers", onkeydown: hearKey, onclick: take },
    h("div", { class: "tools" }, progress, count), texts, asked, choices, moves, note, message);

  function show(text, isError = false) {
    message.textContent = text;
    message.classList.toggle("error", isError);
  }

  /** Send a key, or the note alone, with the answer that it is about: the one that was on the screen. */
  function send(key = "") {
    if (lost) return show(LOST, true);
    clearTimeout(noting);
    serial += 1;
    show("Saving…");
    clearTimeout(waiting);
    waiting = setTimeout(() => show(LATE, true), PATIENCE_MS);
    saved = note.value;
    try {
      model.send({ serial, key, item, note: note.value });
    } catch {
      lose();
    }
  }

  function noted() {
    clearTimeout(noting);
    noting = setTimeout(send, NOTE_MS);
  }

  function hear({ serial: done, error, message }) {
    answered = Math.max(answered, done);
    if (answered < serial) return;
    clearTimeout(waiting);
    show(error ?? message, Boolean(error));
  }

  function lose() {
    lost = true;
    clearTimeout(waiting);
    root.classList.add("lost");
    show(LOST, true);
  }

  const kernel = model.widget_manager?.kernel; // JupyterLab's; elsewhere a kernel that is gone does not answer
  const followKernel = (_, status) => ["restarting", "autorestarting", "terminating", "dead"].includes(status) && lose();

  function hearKey(event) {
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    const isLine = event.key.length > 1 && event.shiftKey && !writes(event.target); // Shift + Enter runs the cell
    if ((hasModifier && !edits(event)) || isLine) return; // left to JupyterLab
    event.stopPropagation();
    if (event.key === "Escape") return leave(event.target);
    if (event.repeat || hasModifier || event.key.length !== 1 || writes(event.target)) return;
    if (event.key === " ") return; // presses the button that has the focus
    event.preventDefault();
    send(event.key);
  }

  /** Leave the note for the form, and the form for the notebook. */
  function leave(from) {
    if (writes(from)) return root.focus({ preventScroll: true });
    const around = root.parentElement?.closest("[tabindex]");
    root.blur();
    around?.focus({ preventScroll: true });
  }

  function take(event) {
    if (!writes(event.target) && !document.getSelection().toString()) root.focus({ preventScroll: true });
  }

  const part = ([text, isCode]) => (isCode ? h("code", {}, text) : text);
  const block = ([title, parts]) => h("section", {}, h("h4", {}, title), h("div", { class: "text" }, ...parts.map(part)));

  function draw() {
    const shown = model.get("shown");
    progress.max = shown.total;
    progress.value = shown.labelled;
    const state = shown.verdict ? [", labelled: ", h("b", {}, shown.verdict)] : [];
    count.replaceChildren(`${shown.labelled} of ${shown.total} labelled; this is number ${shown.place}`, ...state);
    texts.replaceChildren(...shown.blocks.map(block));
    if (shown.context.length) {
      const summary = h("summary", {}, "Documents that it was written from");
      texts.append(h("details", { open: true }, summary, h("div", { class: "text context" }, ...shown.context.map(part))));
    }
    asked.textContent = shown.asked;
    choices.replaceChildren(...shown.choices.map(([key, name]) =>
      h("button", { "aria-pressed": String(name === shown.verdict), onclick: () => send(key) }, `${name} (${key})`)));
    const isTyped = item === shown.item && note.value !== saved; // more was typed while the kernel saved
    if (!isTyped) note.value = saved = shown.note;
    item = shown.item;
  }

  el.append(root);
  model.on("change:shown", draw);
  model.on("msg:custom", hear);
  kernel?.statusChanged?.connect(followKernel);
  draw();
  // It takes the keys when it first comes into view, also after a reload, but not from someone who writes.
  const watch = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    watch.disconnect();
    if (!writes(document.activeElement)) root.focus({ preventScroll: true });
  });
  watch.observe(root);
  return () => {
    watch.disconnect();
    clearTimeout(noting);
    clearTimeout(waiting);
    model.off("change:shown", draw);
    model.off("msg:custom", hear);
    kernel?.statusChanged?.disconnect(followKernel);
  };
}

export default { render };
