// Behaviour of the pages: theme, figures, search, filters, sorting, downloads, links that leave the frame, and requests to Airflow.
"use strict";

const root = document.documentElement;
const inFrame = window.parent !== window;

function theme() {
  if (inFrame) {
    const airflow = window.parent.document.documentElement;
    if (airflow.classList.contains("dark")) return "dark";
    if (airflow.classList.contains("light")) return "light";
  }
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

// A colour that begins with "--" is one of the page's; another text that does, the name of a rack, stays as it is.
function coloured(value, isColour = false) {
  if (typeof value === "string") return isColour && value.startsWith("--") ? colour(value) : value;
  if (Array.isArray(value)) return value.map((inner) => coloured(inner, isColour));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner, key.startsWith("color"))]));
  }
  return value;
}

function layoutOf(figure) {
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"), automargin: true };
  const own = coloured(figure.layout);
  return {
    height: figure.height,
    margin: { l: 50, r: 20, t: own.showlegend ? 36 : 10, b: 40 },
    bargap: 0.3,
    paper_bgcolor: colour("--ground"),
    plot_bgcolor: colour("--ground"),
    font: { color: colour("--ink"), family: "system-ui, sans-serif", size: 12 },
    colorway: [1, 2, 3, 4, 5].map((n) => colour(`--series-${n}`)),
    hoverlabel: { bgcolor: colour("--raised"), font: { color: colour("--ink") } },
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
    dragmode: false,
    ...own,
    xaxis: { ...axis, ...(own.xaxis || {}) },
    yaxis: { ...axis, ...(own.yaxis || {}) },
  };
}

function draw() {
  root.dataset.theme = theme();
  const source = document.getElementById("figures");
  if (!source) return;
  for (const [id, figure] of Object.entries(JSON.parse(source.textContent))) {
    const place = document.getElementById(`${id}-plot`);
    window.Plotly.react(place, coloured(figure.traces), layoutOf(figure), { displayModeBar: false, responsive: true });
  }
}

// A frame may not leave itself: Airflow's own window is asked to follow the link.
function leave(event) {
  const link = event.target.closest("a[data-leaves]");
  if (!link || !inFrame || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const outside = window.parent.document.createElement("a");
  outside.href = link.href;
  window.parent.document.body.append(outside);
  outside.click();
  outside.remove();
}

const shownText = new WeakMap();
function textOf(row) {
  if (!shownText.has(row)) shownText.set(row, row.textContent.toLowerCase());
  return shownText.get(row);
}

function filter(id) {
  const table = document.getElementById(id);
  const search = document.querySelector(`[data-search="${id}"]`);
  const words = search ? search.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const chosen = [...document.querySelectorAll(`[data-choose="${id}"]`)]
    .filter((select) => select.value)
    .map((select) => [names.indexOf(select.dataset.column), select.value]);
  let count = 0;
  const rows = table.tBodies[0].rows;
  for (const row of rows) {
    const fits = words.every((word) => textOf(row).includes(word)) &&
      chosen.every(([at, text]) => row.cells[at].textContent.trim().split(", ").includes(text));
    row.hidden = !fits;
    count += fits;
  }
  document.querySelector(`[data-count="${id}"]`).textContent = count < rows.length ? `${count} of ${rows.length} rows` : "";
}

function valueOf(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = Number(text);
  return text !== "" && Number.isFinite(number) ? number : text.toLowerCase();
}

function sort(button) {
  const heading = button.closest("th");
  const table = heading.closest("table");
  const down = heading.getAttribute("aria-sort") !== "descending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const way = down ? -1 : 1;
  const keyed = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[heading.cellIndex]), row]);
  keyed.sort(([a], [b]) => {
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a < b ? -way : a > b ? way : 0;
  });
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}

for (const link of document.querySelectorAll("[data-download]")) {
  const address = new URL(window.location.href);
  address.searchParams.set("csv", link.dataset.download);
  address.hash = "";
  link.href = address;
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button && "sort" in button.dataset) sort(button);
  if (button && button.dataset.save) {
    window.Plotly.downloadImage(`${button.dataset.save}-plot`, { format: "svg", filename: button.dataset.save });
  }
  leave(event);
});
// What a person may do is asked of Airflow's own API, with the cookie of his session: Airflow checks his right and writes down who it was.
let actedAt = 0;
async function act(form) {
  const body = JSON.parse(form.dataset.body);
  for (const blank of form.querySelectorAll("input")) {
    if (blank.value.trim()) body.conf[blank.name] = blank.value.trim();
  }
  const [button, status] = [form.querySelector("button"), form.querySelector("[role=status]")];
  button.disabled = true;
  status.textContent = "asking Airflow";
  try {
    const answer = await fetch(form.dataset.request, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    const told = await answer.json();
    if (!answer.ok) throw new Error(typeof told.detail === "string" ? told.detail : JSON.stringify(told.detail));
    const link = document.createElement("a");
    link.href = told.dag_run_id ? `${form.dataset.seen}/runs/${encodeURIComponent(told.dag_run_id)}` : form.dataset.seen;
    link.dataset.leaves = "";
    link.textContent = told.dag_run_id ? "started: see the run" : "cleared: see the task";
    status.replaceChildren(link);
    form.reset();
  } catch (error) {
    status.textContent = `not done: ${error.message}`;
    button.disabled = false;
  }
  actedAt = Date.now();
}
document.addEventListener("submit", (event) => {
  if (!event.target.dataset.request) return;
  event.preventDefault();
  act(event.target);
});

// A page of what is under way is read again, unless the reader said no, is at work in it, or asked for something a minute ago.
for (const box of document.querySelectorAll("[data-refresh]")) {
  const place = "kafka-maintenance:refresh";
  box.checked = window.localStorage.getItem(place) !== "no";
  box.addEventListener("change", () => window.localStorage.setItem(place, box.checked ? "yes" : "no"));
  const timer = window.setInterval(() => {
    const written = [...document.querySelectorAll("[data-request] input")].some((blank) => blank.value);
    const busy = document.activeElement.matches("input[type=search], select") || window.getSelection().toString() ||
      written || Date.now() - actedAt < 60000;
    if (!box.checked || busy || document.hidden) return;
    window.clearInterval(timer); // one request at a time: the server goes on with one that nobody waits for any more
    window.location.reload();
  }, Number(box.dataset.refresh) * 1000);
}

// What is ticked stays in this browser: nothing is written anywhere else.
function keptSteps(list) {
  const place = `kafka-maintenance:steps:${list.dataset.steps}`;
  return { place, ticked: new Set(JSON.parse(window.localStorage.getItem(place) || "[]")) };
}
for (const list of document.querySelectorAll("[data-steps]")) {
  const { ticked } = keptSteps(list);
  for (const box of list.querySelectorAll("[data-step]")) box.checked = ticked.has(box.dataset.step);
}
document.addEventListener("change", (event) => {
  const { step } = event.target.dataset;
  if (!step) return;
  const { place, ticked } = keptSteps(event.target.closest("[data-steps]"));
  if (event.target.checked) ticked.add(step);
  else ticked.delete(step);
  window.localStorage.setItem(place, JSON.stringify([...ticked]));
});
document.addEventListener("input", (event) => {
  const id = event.target.dataset.search || event.target.dataset.choose;
  if (id) filter(id);
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
if (inFrame) {
  new MutationObserver(draw).observe(window.parent.document.documentElement, { attributeFilter: ["class"] });
}
draw();
