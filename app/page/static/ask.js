// The question box, and each question's quizzes as they settle.
const main = document.getElementById("main");
const turns = el("div", { id: "turns" });
const state = el("p", { role: "status", "aria-live": "polite", class: "soft", id: "state" });
const question = el("textarea", { id: "question", rows: "2", required: true, autofocus: true });
const kind = el("select", { id: "kind" }, el("option", { value: "short" }, "a short answer"),
  el("option", { value: "yes/no" }, "yes or no"), el("option", { value: "choice" }, "a choice"));
const choices = el("textarea", { id: "choices", rows: "3" });
const choicesLabel = el("label", { hidden: true }, "Choices, one a line", choices);
const token = el("input", { id: "token", type: "password", autocomplete: "off", value: tokenOfAddress() });
const tokenLabel = el("label", { hidden: true }, "Token of this server", token);
const ask = el("button", { type: "submit", class: "main" }, "Ask");
const stop = el("button", { type: "button", disabled: true }, "Stop");
const afresh = el("button", { type: "button", disabled: true }, "New conversation");
const form = el("form", { "aria-label": "Ask a question" }, el("label", {}, "Question", question), choicesLabel, tokenLabel,
  el("div", { class: "row" }, el("label", {}, "Kind of answer", kind), ask, stop, afresh));
const MOST_TURNS = 10, KEPT = "keqa-conversation";
const about = el("p", { class: "soft", id: "about", hidden: true });
let running = null, history = [], kept = [];

main.append(about, form, state, turns);
kind.addEventListener("change", () => { choicesLabel.hidden = kind.value !== "choice"; });
stop.addEventListener("click", () => running && running.abort());
afresh.addEventListener("click", () => {
  history = [];
  keep([]);
  turns.replaceChildren();
  afresh.disabled = true;
  state.textContent = "";
  question.focus();
});
question.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    form.requestSubmit();
  }
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (running || !question.value.trim()) return;
  const text = question.value.trim(), turn = live(text);
  running = new AbortController();
  ask.disabled = true;
  stop.disabled = false;
  turns.prepend(turn.element);
  state.textContent = "asking…";
  try {
    await follow(text, turn, running.signal);
  } catch (error) {
    turn.failed(error.name === "AbortError" ? "Stopped." : error.message);
  } finally {
    running = null;
    ask.disabled = false;
    stop.disabled = true;
    afresh.disabled = !turns.children.length;
  }
});

const documents = pageData().documents;
if (documents) documentLink = (source) => {
  if (!source.file) return null;
  const path = source.file.split("/").map(encodeURIComponent).join("/"), page = source.page ? `#page=${source.page}` : "";
  const link = el("a", { href: `${documents}/${path}${page}`, target: "_blank", rel: "noopener" }, "open the document");
  link.addEventListener("click", async (event) => {
    // A link carries no token.
    if (!token.value) return;
    event.preventDefault();
    const reply = await fetch(`${documents}/${path}`, { headers: { Authorization: `Bearer ${token.value}` } });
    if (reply.ok) window.open(URL.createObjectURL(await reply.blob()) + page, "_blank");
    else state.textContent = `the document cannot be opened: the server answered ${reply.status}`;
  });
  return link;
};

async function follow(text, turn, signal) {
  const body = { question: text, answer_type: kind.value, history };
  if (kind.value === "choice") body.choices = choices.value.split("\n").map((one) => one.trim()).filter(Boolean);
  const headers = { "Content-Type": "application/json" };
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  const reply = await fetch("/ask", { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!reply.ok) {
    if (reply.status === 401) {
      tokenLabel.hidden = false;
      token.focus();
    }
    let why = `the server answered ${reply.status}`;
    try { why = (await reply.json()).error.message; } catch { /* not ours */ }
    throw new Error(why);
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", ended = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      const line = rest.slice(0, end);
      if (!line.startsWith("data: ")) continue;
      const event = JSON.parse(line.slice(6));
      ended = ended || event.kind === "Answered" || event.kind === "Failed";
      turn.hears(event);
      if (event.kind === "Answered") {
        history = [...history, { question: text, answer: event.record.answer }].slice(-MOST_TURNS);
        question.value = "";
        keep([...kept, [text, event]]);
        if (about.hidden) sayAbout().catch(() => {});
      }
    }
  }
  if (!ended) throw new Error("the server went away before the answer was there");
}

// What answers; where there is a token, only those who have it are told.
async function sayAbout() {
  const headers = token.value ? { Authorization: `Bearer ${token.value}` } : {};
  const reply = await fetch("/about", { headers });
  if (reply.ok) about.textContent = (await reply.json()).about;
  about.hidden = !about.textContent;
}

// The conversation stays in this tab over a reload, and ends with the tab; the token is not kept.
function keep(answered) {
  kept = answered.slice(-MOST_TURNS);
  for (;;) {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(kept));
      return;
    } catch { /* There is no room, or no storage at all. */ }
    if (!kept.length) return;
    kept = kept.slice(1);
  }
}

function restore() {
  try {
    for (const [text, event] of JSON.parse(sessionStorage.getItem(KEPT) || "[]")) {
      const turn = live(text);
      turn.hears(event);
      turns.prepend(turn.element);
      kept.push([text, event]);
      history.push({ question: text, answer: event.record.answer });
    }
  } catch { /* What is there is no conversation of this page. */ }
  state.textContent = "";
  afresh.disabled = !turns.children.length;
}

// A question in work: a card for each quiz, which its events fill.
function live(text) {
  const cards = new Map(), list = el("div", {});
  const element = el("article", { class: "turn" }, el("h2", { dir: "auto" }, text), list);
  const card = (index, title) => {
    const name = index ? `Quiz ${index}` : "The question itself";
    if (!cards.has(index)) {
      const made = el("section", { class: "card quiz", "aria-label": name });
      made.append(el("h3", { dir: "auto" }, `${name}: ${title}`));
      cards.set(index, made);
      list.append(made);
    }
    return cards.get(index);
  };
  const line = (where, words, style) => where.append(el("p", { class: style || "", dir: "auto" }, words));
  // The server holds a risk, and has not yet decided whether it answers.
  const mark = (event) => event.provisional ? " (provisional: the answer may yet be withheld)" : "";
  const hears = (event) => {
    if (event.said) state.textContent = event.said;
    if (event.kind === "QuizFound") line(card(event.index, event.text), "…", "soft waiting");
    if (event.kind === "Rewritten") list.prepend(el("p", { class: "soft", dir: "auto" }, `Asked as: ${event.text}`));
    if (event.kind === "QuizExamined") {
      const share = event.consistency === null ? "" : `, ${Math.round(100 * event.consistency)}% of its answers agree`;
      line(card(event.index, event.text), event.known ? `known: ${event.answer}${share}${mark(event)}` : `not known${share}`,
        event.known ? "good" : "warn");
    }
    if (event.kind === "Searching") line(card(event.index || 0, event.query), `searching: ${event.query}`, "soft");
    if (event.kind === "PassagesKept") {
      line(card(event.index, event.text), `kept ${event.kept.length} of ${event.found} passages`, "soft");
    }
    if (event.kind === "QuizAnswered") {
      const where = card(event.index, event.text);
      const waiting = where.querySelector(".waiting");
      if (waiting) waiting.remove();
      line(where, event.answer === null ? `no answer (${QUIZ_SOURCES[event.source] || event.source})` : `answer: ${event.answer}${mark(event)}`, event.answer === null ? "warn" : "good");
    }
    if (event.kind === "Answered" || (event.kind === "Failed" && event.record)) {
      element.replaceChildren(story(event));
      const { answer, unanswered, guessed } = event.record;
      state.textContent = answer === null ? `No answer: ${event.message || ""}` : unanswered ? answer
        : `Answer: ${answer}${guessed ? " (a guess)" : ""}`;
    } else if (event.kind === "Failed") failed(event.message);
  };
  const failed = (why) => {
    for (const waiting of element.querySelectorAll(".waiting")) waiting.remove();
    list.append(el("p", { class: "bad", role: "alert" }, why));
    state.textContent = "";
  };
  return { element, hears, failed };
}

restore();
if (!pageData().secured) sayAbout().catch(() => {});
