// The question box, and each question's quizzes as they settle.
const main = document.getElementById("main");
const turns = el("div", { id: "turns" });
const state = el("p", { role: "status", "aria-live": "polite", class: "soft", id: "state" });
const question = el("textarea", { id: "question", rows: "2", required: true, autofocus: true });
const kind = el("select", { id: "kind" }, el("option", { value: "short" }, "a short answer"),
  el("option", { value: "yes/no" }, "yes or no"), el("option", { value: "choice" }, "a choice"));
const STYLES = { sentence: "a sentence", report: "a report", list: "a list", table: "a table" };
const choices = el("textarea", { id: "choices", rows: "3" });
const choicesLabel = el("label", { hidden: true }, "Choices, one a line", choices);
const token = el("input", { id: "token", type: "password", autocomplete: "off", value: tokenOfAddress() });
const tokenLabel = el("label", { hidden: true }, "Token of this server", token);
const ask = el("button", { type: "submit", class: "main" }, "Ask");
const stop = el("button", { type: "button", disabled: true }, "Stop");
const afresh = el("button", { type: "button", disabled: true }, "New conversation");
const form = el("form", { "aria-label": "Ask a question" }, el("label", {}, "Question", question), choicesLabel, tokenLabel,
  el("div", { class: "row" }, el("label", {}, "Kind of answer", kind), ask, stop, afresh));
const MOST_TURNS = 10, KEPT = "keqa-conversation", FORMS = { html: "HTML", md: "Markdown" };
const about = el("p", { class: "soft", id: "about", hidden: true });
let running = null, history = [], kept = [];
const { documents, conversations, adds, secured, writes } = pageData();
if (writes) kind.append(...Object.entries(STYLES).map(([value, told]) => el("option", { value }, told)));
const earlier = el("details", { class: "card", id: "earlier", hidden: !conversations }, el("summary", {}, "Conversations"));
const drop = el("p", { class: "soft", id: "drop", hidden: !adds }, "Drop a document here to add it, or ");

main.append(about, form, drop, state, earlier, turns);
kind.addEventListener("change", () => {
  choices.required = kind.value === "choice";
  choicesLabel.hidden = !choices.required;
});
stop.addEventListener("click", () => running && running.abort());
afresh.addEventListener("click", () => {
  begin();
  question.focus();
});

function begin() {
  // What is in work is a question of the conversation before.
  if (running) running.abort();
  history = [];
  keep([]);
  name("");
  turns.replaceChildren();
  document.title = "KEQA";
  afresh.disabled = true;
  state.textContent = "";
}

// What the server gives for a path, from where the page lies: a proxy may have put both below a path of its own. An error
// says why it gives nothing.
async function fetched(path, { headers = {}, ...how } = {}) {
  const sent = token.value ? { ...headers, Authorization: `Bearer ${token.value}` } : headers;
  const reply = await fetch(`.${path}`, { ...how, headers: sent }).catch((error) => {
    throw error.name === "AbortError" ? error : refused("The server cannot be reached: is it still running?");
  });
  tokenLabel.hidden = reply.status !== 401;
  if (reply.ok) return reply;
  if (reply.status === 401) {
    token.focus();
    throw refused(token.value ? "This is not the token of this server." : "This server asks for its token, with which the command that started it was given or which it has printed.", 401);
  }
  const told = await reply.json().catch(() => null);
  throw refused(told && told.error ? told.error.message : `the server answered ${reply.status}`, reply.status);
}

function refused(why, status = 0) {
  return Object.assign(new Error(why), { refused: true, status });
}

async function saved(reply, called) {
  const link = el("a", { href: URL.createObjectURL(await reply.blob()), download: called });
  link.click();
  URL.revokeObjectURL(link.href);
}

// Where the server keeps conversations, the tab knows the name of its own alone.
function name(given) {
  try {
    sessionStorage.setItem(`${KEPT}-name`, given);
  } catch { /* There is no storage: what is kept is found in the list. */ }
  current = given;
  markCurrent();
}
let current = "";

function markCurrent() {
  for (const one of earlier.querySelectorAll("li")) one.firstChild.setAttribute("aria-current", one.id === current);
}

async function list() {
  const found = (await (await fetched(conversations)).json()).conversations;
  const line = (one) => el("li", { id: one.id },
    el("button", { type: "button", class: "plain", dir: "auto", onclick: () => resume(one.id).catch(say) }, one.title || one.id),
    el("span", { class: "soft" }, ` ${new Date(one.changed).toLocaleString()} `),
    ...Object.keys(FORMS).map((form) => el("button", { type: "button", class: "small", "aria-label": `Save ${one.title} as ${FORMS[form]}`,
      onclick: () => save(one.id, form).catch(say) }, FORMS[form])),
    el("button", { type: "button", class: "small", "aria-label": `Delete ${one.title}`, onclick: () => remove(one).catch(say) }, "Delete"));
  earlier.querySelectorAll("ul, p").forEach((one) => one.remove());
  earlier.append(found.length ? el("ul", { class: "plain" }, found.map(line)) : el("p", { class: "soft" }, "None is kept yet."));
  markCurrent();
}

function say(error) {
  state.textContent = error.message;
}

async function resume(id) {
  if (running) throw new Error("A question is in work: stop it first, or wait for its answer.");
  const reply = await fetched(`${conversations}/${id}`).catch((error) => {
    // Somebody may have deleted it.
    if (error.status === 400 && id === current) begin();
    throw error;
  });
  begin();
  name(id);
  const asked = (await reply.json()).turns;
  for (const one of asked) {
    const turn = live(one.question);
    if (one.record) turn.hears({ kind: "Answered", ...one });
    else turn.failed(one.error || BROKEN_OFF);
    turns.prepend(turn.element);
  }
  // What was broken off, as by a reload, can be asked again.
  const last = asked.at(-1);
  if (last && !last.record && !last.error && !question.value) question.value = last.question;
  state.textContent = `Opened, with ${counted(asked.length, "question")}.`;
  afresh.disabled = false;
}

async function save(id, form) {
  await saved(await fetched(`${conversations}/${id}?form=${form}`), `conversation.${form}`);
}

async function remove(one) {
  await fetched(`${conversations}/${one.id}`, { method: "DELETE" });
  if (one.id === current) begin();
  await list();
  earlier.querySelector("summary").focus();
  state.textContent = "Deleted.";
}

if (conversations) earlier.addEventListener("toggle", () => earlier.open && list().catch(say));

// Documents that are dropped on the page, or chosen, are added one after the other.
if (adds) {
  const chosen = el("input", { type: "file", id: "chosen", multiple: true, accept: adds.kinds.join(), class: "for-readers" });
  drop.append(el("label", { for: "chosen", class: "button" }, "choose one"), chosen);
  chosen.addEventListener("change", () => {
    add([...chosen.files]);
    // The same one may be chosen again.
    chosen.value = "";
  });
  document.addEventListener("dragleave", () => drop.classList.remove("over"));
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => {
    // Text is dropped into the question as anywhere.
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    drop.classList.toggle("over", name === "dragover");
    if (name === "drop") add([...event.dataTransfer.files]);
  });
}

async function add(files) {
  const told = [];
  for (const file of files) {
    state.textContent = [...told, `adding ${file.name}…`].join("\n");
    try {
      if (file.size > adds.most) throw new Error(`it is larger than ${adds.most.toLocaleString("en")} bytes.`);
      const path = `${adds.path}?name=${encodeURIComponent(file.name)}`, headers = { "Content-Type": "application/octet-stream" };
      const reply = await fetched(path, { method: "POST", headers, body: await file.arrayBuffer() });
      const { passages } = await reply.json();
      told.push(`Added ${file.name}: ${passages ? counted(passages, "passage") : "as it was indexed before"}. The next question sees it.`);
    } catch (error) {
      told.push(`${file.name} was not added: ${error.name === "Error" ? error.message : "it cannot be read."}`);
    }
  }
  state.textContent = told.join("\n");
}
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
  earlier.open = false;
  turns.prepend(turn.element);
  state.textContent = "asking…";
  try {
    await follow(text, turn, running.signal);
  } catch (error) {
    // What was refused was not asked: it stays in the box, and the reason stands below it.
    if (error.refused) turn.element.remove();
    if (error.refused) say(error);
    else turn.failed(error.name === "AbortError" ? "Stopped." : "the server went away before the answer was there");
  } finally {
    running = null;
    ask.disabled = false;
    stop.disabled = true;
    afresh.disabled = !turns.children.length;
    if (earlier.open) list().catch(() => {});
  }
});

if (documents) documentLink = (source) => {
  if (!source.file) return null;
  const path = source.file.split("/").map(encodeURIComponent).join("/"), page = source.page ? `#page=${source.page}` : "";
  const link = el("a", { href: `.${documents}/${path}${page}`, target: "_blank", rel: "noopener" }, "open the document");
  link.addEventListener("click", (event) => {
    // A link carries no token.
    if (!token.value) return;
    event.preventDefault();
    fetched(`${documents}/${path}`).then(async (reply) => window.open(URL.createObjectURL(await reply.blob()) + page, "_blank")).catch(say);
  });
  return link;
};

async function follow(text, turn, signal) {
  const wanted = kind.value in STYLES ? { style: kind.value } : { answer_type: kind.value };
  const body = { question: text, ...wanted, ...(conversations ? { conversation: current } : { history }) };
  if (kind.value === "choice") body.choices = choices.value.split("\n").map((one) => one.trim()).filter(Boolean);
  const headers = { "Content-Type": "application/json" };
  const reply = await fetched("/ask", { method: "POST", headers, body: JSON.stringify(body), signal });
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
      if (event.kind === "Kept") name(event.conversation);
      else turn.hears(event);
      if (event.kind === "Answered") {
        history = [...history, { question: text, answer: event.record.answer }].slice(-MOST_TURNS);
        // The next question may stand there by now.
        if (question.value.trim() === text) question.value = "";
        if (!conversations) keep([...kept, [text, event]]);
        if (about.hidden) sayAbout().catch(() => {});
      }
    }
  }
  if (!ended) throw new Error("the stream was cut");
}

// What answers; where there is a token, only those who have it are told.
async function sayAbout() {
  about.textContent = (await (await fetched("/about")).json()).about;
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
  const draft = el("section", { class: "card answer draft", "aria-label": "Answer, while it is written", hidden: true });
  const element = el("article", { class: "turn" }, el("h2", { dir: "auto" }, text), draft, list);
  let written = "";
  // Of many tabs, each says what was asked in it.
  document.title = `${text.slice(0, 80)} – KEQA`;
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
    if (event.kind === "AnswerPart") {
      written = written.slice(0, event.at) + event.text;
      draft.hidden = false;
      draft.replaceChildren(el("p", { class: answerStyle(written), dir: "auto" }, written));
      if (state.textContent !== "writing the answer…") state.textContent = "writing the answer…";
      return;
    }
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
      if (event.earlier) line(where, `settled before: ${event.earlier}`, "soft");
      line(where, event.answer === null ? `no answer (${QUIZ_SOURCES[event.source] || event.source})` : `answer: ${event.answer}${mark(event)}`, event.answer === null ? "warn" : "good");
    }
    if (event.kind === "Answered" || (event.kind === "Failed" && event.record)) {
      element.replaceChildren(story(event));
      const { answer, unanswered, guessed, written } = event.record;
      const told = written && written.text ? bare(written.text) : answer;
      state.textContent = told === null ? `No answer: ${event.message || ""}` : told === answer && unanswered ? answer
        : told.length > LONG ? "The answer is there." : `Answer: ${told}${told === answer && guessed ? " (a guess)" : ""}`;
    } else if (event.kind === "Failed") failed(event.message);
  };
  const failed = (why) => {
    for (const waiting of element.querySelectorAll(".waiting")) waiting.remove();
    draft.remove();
    list.append(el("p", { class: "bad", role: "alert" }, why));
    state.textContent = "";
  };
  return { element, hears, failed };
}

let before = "";
try {
  if (conversations) before = sessionStorage.getItem(`${KEPT}-name`);
} catch { /* There is no storage. */ }
if (before && (!secured || token.value)) resume(before).catch(() => {});
else restore();
if (!secured || token.value) sayAbout().catch(() => {});
