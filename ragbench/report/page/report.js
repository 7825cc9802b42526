// Filters and permalinks of report.html, which without this script is a plain list.
const form = document.getElementById("filters");
const rows = [...document.querySelectorAll(".q")];

function apply() {
  const { text, ...wanted } = Object.fromEntries(new FormData(form));
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    row.words ??= row.textContent.toLowerCase();
    const own = Object.entries(wanted).every(([name, value]) => !value || row.dataset[name].split("\n").includes(value));
    row.hidden = !own || !words.every((word) => row.words.includes(word));
  }
  for (const count of document.querySelectorAll(".count")) {
    const own = [...count.closest("section").querySelectorAll(".q")];
    count.textContent = `${own.filter((row) => !row.hidden).length} of ${own.length} shown`;
  }
}

/** Open the question that the fragment names, whatever the filters hide. */
function follow() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  const row = target.closest(".q");
  if (form && row?.hidden) form.reset(), apply();
  for (let one = target.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
  (row ?? target).scrollIntoView();
}

if (form) {
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
}
addEventListener("hashchange", follow);
follow();
