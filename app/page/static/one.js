const data = pageData();
const broken = (turn) => el("article", {}, el("h2", { dir: "auto" }, turn.question), el("p", { class: "bad", dir: "auto" }, turn.error || BROKEN_OFF));
document.getElementById("main").append(...(data.about ? [el("p", { class: "soft" }, `${data.about}.`)] : []),
  ...(data.turns || [data]).map((one) => (one.record ? story(one) : broken(one))));
