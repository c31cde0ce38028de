// Text from outside becomes text nodes only: nothing here reads HTML.
function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return made;
}

const QUIZ_SOURCES = {
  memory: "from memory",
  passages: "from the passages kept",
  closed_book: "closed book: nothing retrieved helped",
  largest_cluster: "the most frequent of its own answers: nothing retrieved helped",
  unanswered: "not in the documents",
  blocked: "not asked: a quiz it refers to has no answer",
  skipped: "not asked",
  failed: "failed",
};
const ANSWER_SOURCES = {
  memory: "from memory",
  passages: "from passages",
  closed_book: "closed book",
  largest_cluster: "the most frequent of its own answers",
  summary: "summed up from the quizzes",
  fallback: "from the question itself, with retrieval, after its quizzes",
  unanswered: "not in the documents",
  withheld: "withheld: its own answer is too probably wrong for the risk",
  failed: "failed",
};

const KINDS = {
  "nothing found": "Nothing was found",
  "nothing supports an answer": "Nothing that was read carries an answer",
  "sources contradict each other": "The sources contradict each other",
};

const WAYS = { draft: "memory alone", reading: "one search and its reading", quizzes: "its quizzes" };

function counted(number, thing) {
  return `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
}

// The story of one question: `data` has its record, its sources, and where these disagree.
function story(data, withQuestion = true) {
  const { record } = data, places = new Map();
  const whole = record.settled_by && record.settled_by !== "quizzes" && !record.fallback;
  const labelled = (quiz) => (whole ? "The question itself" : `Quiz ${quiz.index}`);
  const quizzes = (record.quizzes || []).map((quiz) => quizCard(quiz, labelled(quiz), places, data));
  if (record.whole) quizzes.unshift(quizCard(record.whole, "The question itself", places, data));
  if (record.fallback) quizzes.push(quizCard(record.fallback, "The question itself", places, data));
  const { style, passages: written } = record.written || { passages: [] };
  const read = record.passages && record.passages.length ? record.passages : style === "list" ? written : [];
  const own = [read.length && passageList(read, places, data, null)];
  // What a text cites need not be what its quizzes were answered from.
  const besides = written.filter((one) => one.kept && !places.has(placeKey(one.passage_id, one.title, one.text)));
  if (besides.length) own.push(passageList(besides, places, data, null, "What the text cites besides:"));
  return el("article", { class: "story" },
    withQuestion && el("h2", { dir: "auto" }, record.question),
    record.standalone && el("p", { class: "soft", dir: "auto" }, `Asked as: ${record.standalone}`),
    answerCard(record, data, places),
    quizzes, own.filter(Boolean).map((one) => el("section", { class: "card" }, one)), notes(record.degradations || []), costs(record.cost));
}

const BROKEN_OFF = "It was broken off before its answer was there.";

// What is too long to be a headline.
const LONG = 160;

function answerStyle(text) {
  return text && text.length > LONG ? "answer-text long" : "answer-text";
}

function answerCard(record, data, places) {
  const sources = data.sources || [];
  const card = el("section", { class: "card answer", "aria-label": "Answer" });
  if (record.failure) {
    card.append(el("p", { class: "bad" }, `No answer: ${record.failure.stage} failed (${record.failure.cause})`),
      el("p", {}, record.failure.message));
  } else if (record.written && record.written.text) {
    card.append(...writtenAnswer(record, sources, places));
  } else if (record.unanswered) {
    card.classList.add("finding");
    card.append(el("p", { class: "answer-text", dir: "auto" }, record.unanswered.message), ...lookedAt(record.unanswered));
  } else {
    const guess = record.guessed && el("span", { class: "guess" }, " (a guess)");
    card.append(el("p", { class: answerStyle(record.answer), dir: "auto" }, record.answer || "", guess),
      el("p", { class: "soft" }, ANSWER_SOURCES[record.answer_source] || record.answer_source));
  }
  if (typeof record.withheld === "string") card.append(el("p", { class: "soft", dir: "auto" }, `Withheld: ${record.withheld}`));
  if (typeof record.confidence === "number") card.append(el("p", { class: "soft" }, `Confidence: ${record.confidence.toFixed(2)}`));
  const chances = Object.entries(record.chances || {}).map(([way, chance]) => `${way} ${chance.toFixed(2)}`).join(", ");
  if (record.settled_by && (chances || record.settled_by !== "quizzes")) {
    card.append(el("p", { class: "soft" }, `Settled by ${WAYS[record.settled_by]}${chances && ` (probably right: ${chances})`}`));
  }
  if (record.explanation) card.append(el("p", { dir: "auto" }, record.explanation));
  if (sources.length) {
    const named = new Map();
    for (const source of sources) named.set(source.title, (named.get(source.title) || 0) + 1);
    const line = (source) => sourceLine(source, places, named.get(source.title) > 1);
    card.append(el("h3", {}, "Sources"), el("ol", {}, sources.map((source) => el("li", {}, line(source)))));
  }
  for (const one of data.disagreements || []) card.append(el("p", { class: "warn disagreement", dir: "auto" }, one));
  // Whoever wants it sees the guess, and nobody takes it for an answer.
  if (record.unanswered && record.unanswered.guess) {
    card.append(el("details", { class: "missing" }, el("summary", { class: "soft" }, "What it would have guessed"),
      el("p", { dir: "auto" }, record.unanswered.guess, el("span", { class: "guess" }, " (a guess)"))));
  }
  return card;
}

function bare(text) {
  return text.replaceAll(/\s*\[\d+\]/g, "");
}

// A text, list or table whose citations lead to their passages. Of Markdown, bold type and code are shown as such; HTML is text.
function writtenAnswer({ written, answer, guessed }, sources, places) {
  const cited = (text) => text.split(/(\[\d+\]|\*\*[^*\n]+\*\*|`[^`\n]+`)/).map((part) => {
    if (/^\*\*./.test(part)) return el("strong", {}, cited(part.slice(2, -2)));
    if (/^`./.test(part)) return el("code", {}, part.slice(1, -1));
    const number = /^\[\d+\]$/.test(part) ? Number(part.slice(1, -1)) : 0, source = sources[number - 1];
    const place = source && places.get(placeKey(source.id, source.title, source.text));
    return place ? el("button", { type: "button", class: "plain cited", title: source.title || source.id,
      "aria-label": `Source ${number}`, onclick: (event) => open(place, event.currentTarget) }, part) : part;
  });
  const row = (cells, kind) => el("tr", {}, cells.map((cell) => el(kind, { dir: "auto" }, cited(cell))));
  const given = written.statements.filter((one) => one.given), left = written.statements.filter((one) => !one.given);
  const parts = [];
  if (written.style === "list") {
    parts.push(el("ul", { class: "written" }, written.text.split("\n").map((line) => el("li", { dir: "auto" }, cited(line.slice(2))))),
      el("p", { class: "soft" }, `${counted(given.length, "item")} in ${counted(written.looked_at, "passage")} looked at` +
        (written.more ? "; there may be more, as no further passage was looked at" : "")));
  } else if (written.table.length) {
    const [head, ...rows] = written.table;
    parts.push(el("div", { class: "scroll" }, el("table", { class: "written" }, el("thead", {}, row(head, "th")),
      el("tbody", {}, rows.map((cells) => row(cells, "td"))))));
  } else parts.push(el("p", { class: "written", dir: "auto" }, cited(written.text)));
  const plain = given.map((one) => bare(one.text)).join(written.style === "list" || written.table.length ? "; " : " ");
  if (answer && answer !== plain) {
    parts.push(el("p", { class: "soft", dir: "auto" }, `In short: ${answer}`, guessed && el("span", { class: "guess" }, " (a guess)")));
  }
  if (left.length) {
    parts.push(el("details", { class: "missing" }, el("summary", { class: "soft" }, `Left out, as no passage carries it, or it says nothing new (${left.length})`),
      el("ul", {}, left.map((one) => el("li", { dir: "auto" }, `${one.text} (${one.why})`)))));
  }
  return parts;
}

// What was looked at in vain, and what is known of the rest.
function lookedAt(unanswered) {
  const named = (one) => (one.quiz ? `Quiz ${one.quiz}: ${one.asked}` : one.asked);
  const list = (words, lines) => lines && lines.length
    ? el("div", {}, el("p", { class: "soft" }, words), el("ul", {}, lines.map((line) => el("li", { dir: "auto" }, line))))
    : null;
  const missing = unanswered.missing.map((one) => el("section", { class: "missing" },
    el("h3", { dir: "auto" }, named(one)),
    el("p", { dir: "auto" }, el("strong", {}, KINDS[one.kind] || one.kind), one.why ? ` (${one.why})` : ""),
    one.searched.join() === one.asked ? null : list("Searched for", one.searched),
    list("The sources say", one.answers), list("Read", one.read)));
  const known = unanswered.found.map((one) => el("p", { dir: "auto" }, `${named(one)} `,
    el("strong", { class: "good" }, one.answer), el("span", { class: "soft" }, ` (${QUIZ_SOURCES[one.source] || one.source})`)));
  return [...missing, known.length ? el("section", { class: "missing" }, el("h3", {}, "What is known"), known) : ""];
}

// The button opens the passage in the story. Sources of one title are distinguished by where they stand.
function sourceLine(source, places, withId) {
  const place = places.get(placeKey(source.id, source.title, source.text));
  const name = source.title || source.id, line = [];
  line.push(place
    ? el("button", { type: "button", class: "plain source", dir: "auto", onclick: (event) => open(place, event.currentTarget) }, name)
    : el("span", { dir: "auto" }, name));
  const where = whereabouts(source) || (withId && source.title ? source.id : "");
  if (where) line.push(el("span", { class: "soft", dir: "auto" }, ` ${where}`));
  const link = documentLink(source);
  if (link) line.push(" ", link);
  if (source.quizzes && source.quizzes.length) {
    line.push(el("span", { class: "soft" }, ` (quiz ${source.quizzes.join(", ")})`));
  }
  return line;
}

// Of a page whose server gives out documents: leads to a source's file, at its page.
let documentLink = () => null;

function whereabouts(source) {
  const at = source.place || source, part = /\.pptx$/i.test(at.file || "") ? "slide" : "page";
  return [at.file, at.page ? `${part} ${at.page}` : "", at.heading, at.date].filter(Boolean).join(", ");
}

function placeKey(id, title, text) {
  return JSON.stringify([id, title, text]);
}

function open(place, from) {
  for (let at = place; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  // Passages of one title look alike, and a click leaves no visible focus.
  for (const before of document.querySelectorAll(".opened")) {
    before.classList.remove("opened");
    before.lastElementChild.remove();
  }
  place.classList.add("opened");
  place.append(el("button", { type: "button", class: "small", onclick: () => {
    from.scrollIntoView({ block: "center" });
    from.focus({ preventScroll: true });
  } }, "Back to the answer"));
  place.scrollIntoView({ block: "center" });
  place.querySelector("summary").focus({ preventScroll: true });
}

function quizCard(quiz, label, places, data) {
  const card = el("section", { class: "card quiz", "aria-label": label },
    el("h3", { dir: "auto" }, `${label}: ${quiz.text}`));
  if (quiz.resolved && quiz.resolved !== quiz.text) card.append(el("p", { class: "soft", dir: "auto" }, `→ ${quiz.resolved}`));
  if (quiz.earlier) card.append(el("p", { class: "soft", dir: "auto" }, `Settled before, and not asked again: ${quiz.earlier}`));
  if (quiz.drafted) card.append(el("p", { dir: "auto" }, `Drafted with the quizzes: “${quiz.samples[0].text}”`));
  else if (quiz.samples && quiz.samples.length) card.append(draws(quiz));
  else if (quiz.stopped) card.append(el("p", { class: "soft", dir: "auto" }, quiz.stopped));
  if (quiz.known !== null && quiz.known !== undefined) card.append(gate(quiz));
  if (quiz.passages && quiz.passages.length) card.append(passageList(quiz.passages, places, data, quiz));
  else if (quiz.retrieved) card.append(el("p", {}, "Searched: nothing found"));
  for (const [title, lines] of [["Triples", quiz.triples], ["Evidence", quiz.evidence]]) {
    if (lines && lines.length) {
      card.append(el("details", {}, el("summary", {}, `${title} (${lines.length})`),
        el("ul", {}, lines.map((line) => el("li", { dir: "auto" }, line)))));
    }
  }
  if (quiz.weighed) {
    const { kept, memory, evidence, memory_right, evidence_right } = quiz.weighed;
    const line = `${kept}: memory “${memory}” (probably right: ${memory_right.toFixed(2)}), evidence “${evidence}” (${evidence_right.toFixed(2)})`;
    card.append(el("p", { dir: "auto" }, line));
  }
  const how = QUIZ_SOURCES[quiz.source] || quiz.source;
  if (quiz.support) {
    const drawn = quiz.supported === false && quiz.guess ? `“${quiz.guess}”: ` : "", line = `${drawn}${quiz.support}`;
    card.append(drawn
      ? el("details", {}, el("summary", { class: "soft" }, "What the passages do not support"), el("p", { dir: "auto" }, line))
      : el("p", { class: "soft", dir: "auto" }, `Checked: ${line}`));
  }
  card.append(quiz.answer === null || quiz.answer === undefined
    ? el("p", { class: "warn" }, `No answer (${how})`)
    : el("p", {}, el("strong", { class: "good", dir: "auto" }, quiz.answer), el("span", { class: "soft" }, ` (${how})`)));
  return card;
}

function draws(quiz) {
  const most = Math.max(quiz.tries, quiz.samples.length), rows = [];
  const row = (name, size, kind) => {
    const bar = el("div", { class: "bar" });
    bar.style.width = `${(100 * size) / most}%`;
    return el("li", { class: "cluster" }, el("span", { class: kind, dir: "auto" }, name),
      el("div", { "aria-hidden": "true" }, bar), el("span", {}, `×${size}`));
  };
  for (const cluster of quiz.clusters) rows.push(row(`“${cluster.answer}”`, cluster.size, ""));
  const silent = quiz.samples.filter((sample) => sample.abstained).length;
  if (silent) rows.push(row("does not know", silent, "soft"));
  const failed = quiz.samples.filter((sample) => sample.error).length;
  if (failed) rows.push(row("failed", failed, "warn"));
  const early = quiz.complete === false ? ` of ${quiz.tries}, which settled it` : "";
  const texts = quiz.samples.map((sample) =>
    el("li", { dir: "auto" }, sample.text === null || sample.text === undefined ? `failed: ${sample.error}` : sample.text));
  return el("div", {}, el("p", {}, `Asked ${counted(quiz.samples.length, "time")}${early}, without help:`),
    el("ul", { class: "plain", "aria-label": "Answers by meaning" }, rows),
    el("details", {}, el("summary", { class: "soft" }, "Each draw"), el("ol", {}, texts)));
}

function gate(quiz) {
  const measured = quiz.certainty !== null && quiz.certainty !== undefined;
  // What the draws agree on is not what decided.
  const told = quiz.stopped && (quiz.drafted || quiz.gate === "chooser" || (measured && quiz.complete === false));
  const parts = told ? [quiz.stopped] : [];
  if (!told && quiz.consistency_exact) parts.push(consistency(quiz, measured));
  if (!told && measured) parts.push(certainty(quiz));
  const verdict = quiz.known ? el("strong", { class: "good" }, "known") : el("strong", { class: "warn" }, "unknown, so search");
  const name = quiz.gate ? el("span", { class: "soft" }, ` (gate: ${quiz.gate})`) : "";
  return el("p", {}, parts.join(", ") + (parts.length ? ": " : ""), verdict, name);
}

// Any gate may decide: what is compared is what it compares, and a sign stands where it is true.
function consistency(quiz, measured) {
  const share = quiz.consistency, least = quiz.threshold, shown = `consistency ${quiz.consistency_exact}`;
  if (measured || !quiz.threshold_exact) return shown;
  const reached = share >= least, whole = quiz.complete !== false;
  if (whole && reached === quiz.known) return `${shown} ${reached ? "≥" : "<"} ${quiz.threshold_exact}`;
  if (quiz.known && reached) return `consistency already ${quiz.consistency_exact} ≥ ${quiz.threshold_exact}`;
  const most = share + (quiz.tries - quiz.samples.length) / Math.max(quiz.tries, 1);
  if (!quiz.known && !whole && Number(most.toFixed(9)) < least) return `${shown} so far, ${quiz.threshold_exact} out of reach`;
  return `${shown} (threshold ${quiz.threshold_exact})`;
}

function certainty(quiz) {
  const shown = (digits) => quiz.certainty.toFixed(digits), least = quiz.threshold;
  if (!quiz.threshold_exact) return `certainty ${shown(2)}`;
  const reached = Number(shown(12)) >= least;
  if (reached !== quiz.known) return `certainty ${shown(2)} (threshold ${quiz.threshold_exact})`;
  let digits = 2;
  while (digits < 12 && (Number(shown(digits)) >= least) !== reached) digits += 1;
  return `certainty ${shown(digits)} ${reached ? "≥" : "<"} ${quiz.threshold_exact}`;
}

function passageList(passages, places, data, of, heading) {
  const kept = passages.filter((passage) => passage.kept).length;
  return el("div", {}, el("p", {}, heading || `Retrieved ${counted(passages.length, "passage")}, kept ${kept}:`),
    el("ul", { class: "plain" }, passages.map((passage) => {
      const sentences = carried(passage, data, of);
      const where = whereabouts(passage);
      const made = el("details", { class: "passage" + (passage.kept ? " kept" : ""), open: passage.kept },
        el("summary", { dir: "auto" },
          el("span", { class: passage.kept ? "good" : "soft" }, passage.kept ? "✓ kept: " : "✗ left out: "),
          passage.title || passage.passage_id,
          el("span", { class: passage.verdict === "failed" ? "warn" : "soft" }, ` (${passage.why || passage.verdict})`)),
        where && el("p", { class: "soft" }, where),
        el("p", { class: "text", dir: "auto" }, highlighted(passage.text, sentences)));
      const key = placeKey(passage.passage_id, passage.title, passage.text);
      if (passage.kept && !places.has(key)) places.set(key, made);
      return el("li", {}, made);
    })));
}

// The sentences that carried an answer, from wherever the record names them.
function carried(passage, data, quiz) {
  const source = (data.sources || []).find((one) => one.id === passage.passage_id && one.text === passage.text);
  const named = [passage.sentences, source && source.sentences, passage.kept && quiz && quiz.evidence];
  return named.filter(Array.isArray).flat().filter((sentence) => typeof sentence === "string" && sentence.trim());
}

function highlighted(text, sentences) {
  const places = [];
  for (const sentence of sentences) {
    const wanted = sentence.trim(), start = text.indexOf(wanted);
    if (start >= 0) places.push([start, start + wanted.length]);
  }
  places.sort((one, other) => one[0] - other[0]);
  const parts = [];
  let end = 0;
  for (const [start, stop] of places) {
    if (start < end) continue;
    parts.push(text.slice(end, start), el("mark", {}, text.slice(start, stop)));
    end = stop;
  }
  return [...parts, text.slice(end)];
}

function notes(degradations) {
  if (!degradations.length) return null;
  return el("section", { class: "card" }, el("h3", { class: "warn" }, "What went wrong, and what was done"),
    el("ul", {}, degradations.map((one) => el("li", {},
      `${one.stage.replaceAll("_", " ")}${one.quiz === null ? "" : `, quiz ${one.quiz}`}: ${one.message} (${one.cause}) → ${one.action}`))));
}

function costs(cost) {
  if (!cost) return null;
  const roles = Object.entries(cost.by_role || {});
  const sum = (name) => roles.reduce((total, [, role]) => total + (role[name] || 0), 0);
  const asked = sum("calls") || !sum("cached") ? counted(sum("calls"), "LM call")
    : `${counted(sum("cached"), "LM call")}, all answered from the cache`;
  const head = ["role", "LM calls", "from the cache", "failed", "tokens read", "written"];
  const cells = (role) => [role.calls, role.cached, role.failed, role.prompt_tokens, role.completion_tokens];
  const row = (name, numbers) => el("tr", {}, el("th", { scope: "row" }, name),
    numbers.map((value, place) => el("td", { class: "number", "data-name": head[place + 1] }, value.toLocaleString("en"))));
  return el("details", { class: "card cost" },
    el("summary", {}, `Cost: ${asked}, ${counted(cost.retrievals, "retrieval")}, ` +
      `${(sum("prompt_tokens") + sum("completion_tokens")).toLocaleString("en")} tokens, ${cost.seconds.toFixed(1)} s`),
    el("div", { class: "scroll" }, el("table", { class: "stacked" },
      el("thead", {}, el("tr", {}, head.map((name, place) => el("th", { scope: "col", class: place ? "number" : "" }, name)))),
      el("tbody", {}, roles.map(([name, role]) => row(name, cells(role)))))));
}

// The token that the printed address has behind its #, which no browser sends.
function tokenOfAddress() {
  return new URLSearchParams(location.hash.slice(1)).get("token") || "";
}

function pageData() {
  return JSON.parse(document.getElementById("data").textContent);
}
