// Run files side by side. The list of questions is there at once; a question's stories are loaded when it is opened.
const main = document.getElementById("main");
const OUTCOMES = ["right", "partly right", "wrong", "failed", "not asked", "declined"];
const STYLES = ["good", "warn", "bad", "bad", "soft", "warn"];
const NOTHING = "nothing: the documents do not say it";
const PAGE = 50;
let runs = [], questions = [], shown = [], page = 0, wanted = 0;

async function start() {
  const data = pageData().served ? await fetched("/runs.json") : pageData();
  runs = data.runs;
  questions = data.questions.map((row, number) => ({ number, id: row[0], text: row[1], golds: row[2], kind: row[3], of: row[4] }));
  for (const one of questions) one.plain = [one.text, one.id, ...one.golds, ...one.of.map((run) => (run ? run[1] : ""))]
    .join("\n").toLowerCase();
  main.append(methods(), filters, list, el("section", { id: "stories", "aria-live": "polite" }));
  fillFilters();
  filter();
  main.dataset.ready = "true";
}

async function fetched(path) {
  const token = tokenOfAddress();
  const reply = await fetch(path, token ? { headers: { Authorization: `Bearer ${token}` } } : {});
  if (reply.ok) return reply.json();
  let why = `the server answered ${reply.status}`;
  try { why = (await reply.json()).error.message; } catch { /* not ours */ }
  throw new Error(why);
}

function methods() {
  const names = ["method", "questions", "EM", "F1", "failed", "LM calls", "retrievals", "tokens"];
  const share = (value) => (value === null ? "" : value.toFixed(3));
  return el("section", { "aria-label": "Methods" }, el("h2", {}, "Methods"), el("div", { class: "scroll" }, el("table", { class: "stacked" },
    el("caption", { class: "for-readers" }, "Scores of each method, and what a question cost"),
    el("thead", {}, el("tr", {}, names.map((name, place) => el("th", { scope: "col", class: place ? "number" : "" }, name)))),
    el("tbody", {}, runs.map((run) => el("tr", {}, el("th", { scope: "row" }, run.label),
      [run.asked, share(run.em), share(run.f1), run.failed, run.calls.toFixed(1), run.retrievals.toFixed(2), Math.round(run.tokens)]
        .map((value, place) => el("td", { class: "number", "data-name": names[place + 1] }, typeof value === "number" ? value.toLocaleString("en") : value))))))));
}

const text = el("input", { id: "text", type: "search" });
const run = el("select", { id: "run" });
const outcome = el("select", { id: "outcome" });
const kind = el("select", { id: "kind" });
const differ = el("input", { id: "differ", type: "checkbox" });
const found = el("p", { role: "status", "aria-live": "polite", id: "found" });
const filters = el("form", { class: "filters", role: "search", "aria-label": "Filter the questions", onsubmit: (event) => event.preventDefault() },
  el("label", {}, "Text", text), el("label", {}, "Method", run), el("label", {}, "Outcome", outcome),
  el("label", {}, "Kind", kind), el("label", { class: "inline" }, differ, "methods differ"));
const before = el("button", { type: "button", onclick: () => turn(-1) }, "Previous");
const after = el("button", { type: "button", onclick: () => turn(1) }, "Next");
const rows = el("tbody", {});
const head = el("tr", {});
const list = el("section", { "aria-label": "Questions" }, el("h2", {}, "Questions"), found,
  el("div", { class: "scroll" }, el("table", { id: "questions", class: "stacked" }, el("thead", {}, head), rows)),
  el("nav", { class: "filters", "aria-label": "Pages" }, before, after));

function fillFilters() {
  const option = (value, words) => el("option", { value }, words);
  run.append(option("", "any"), ...runs.map((one, place) => option(place, one.label)));
  outcome.append(option("", "any"), ...OUTCOMES.map((name, place) => option(place, name)));
  const kinds = [...new Set(questions.map((one) => one.kind))].sort();
  kind.append(option("*", "any"), ...kinds.map((name) => option(name, name || "none")));
  for (const control of [text, run, outcome, kind, differ]) control.addEventListener("input", () => { page = 0; filter(); });
  head.append(...["Question", "Expected", ...runs.map((one) => one.label)].map((name) => el("th", { scope: "col" }, name)));
}

function filter() {
  const needle = text.value.trim().toLowerCase(), wantedOutcome = outcome.value === "" ? null : Number(outcome.value);
  const places = run.value === "" ? runs.map((_, place) => place) : [Number(run.value)];
  const of = (one, place) => (one.of[place] ? one.of[place][0] : 4);
  shown = questions.filter((one) =>
    (!needle || one.plain.includes(needle)) &&
    (kind.value === "*" || one.kind === kind.value) &&
    (wantedOutcome === null || places.some((place) => of(one, place) === wantedOutcome)) &&
    (!differ.checked || new Set(runs.map((_, place) => of(one, place))).size > 1));
  draw();
}

function turn(by) {
  page += by;
  draw();
}

function draw() {
  const from = page * PAGE, part = shown.slice(from, from + PAGE);
  found.textContent = shown.length
    ? `${counted(shown.length, "question")} of ${questions.length.toLocaleString("en")}; ${from + 1} to ${from + part.length}`
    : `no question of ${questions.length.toLocaleString("en")}`;
  before.disabled = page === 0;
  after.disabled = from + PAGE >= shown.length;
  rows.replaceChildren(...part.map((one) => el("tr", {},
    el("td", {}, el("button", { type: "button", class: "plain question", dir: "auto", onclick: () => show(one) }, one.text)),
    el("td", { dir: "auto", "data-name": "Expected", class: one.golds.length ? "" : "soft" }, one.golds.length ? one.golds[0] : NOTHING),
    runs.map((run, place) => {
      const [code, answer] = one.of[place] || [4, ""];
      return el("td", { dir: "auto", "data-name": run.label }, el("span", { class: STYLES[code] }, OUTCOMES[code]), answer ? `: ${answer}` : "");
    }))));
}

async function show(one) {
  const place = document.getElementById("stories"), now = ++wanted;
  place.replaceChildren(el("p", { class: "soft" }, "opening…"));
  let opened;
  try {
    opened = await Promise.all(runs.map((_, number) => (one.of[number] ? storyOf(number, one) : null)));
  } catch (error) {
    if (now === wanted) place.replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
    return;
  }
  if (now !== wanted) return;
  const title = el("h2", { tabindex: "-1", dir: "auto" }, one.text);
  place.replaceChildren(title, el("p", {}, `Expected: ${one.golds.join("; ") || NOTHING}`),
    el("div", { class: "stories" }, opened.map((each, number) => each &&
      el("section", { class: "card", "aria-label": runs[number].label },
        el("h3", {}, runs[number].label, " ", el("span", { class: STYLES[one.of[number][0]] }, OUTCOMES[one.of[number][0]])),
        each.record ? story(each, false) : el("p", { class: "bad" }, each.error || "it has no record")))));
  title.focus();
  title.scrollIntoView({ block: "start" });
}

// In a file of its own the stories stand in blocks, which are unpacked when one of theirs is opened.
const blocks = new Map();

async function storyOf(number, one) {
  if (pageData().served) return fetched(`/story?run=${number}&question=${one.number}`);
  const [block, place] = one.of[number][2];
  if (!blocks.has(block)) blocks.set(block, unpacked(document.getElementById(`block-${block}`).textContent));
  return (await blocks.get(block))[place];
}

async function unpacked(encoded) {
  const bytes = Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

start().catch((error) => main.append(el("p", { class: "bad", role: "alert" }, error.message)));
