"use strict";
// The search page: everything it shows comes from /api, everything it inserts is text or an image of the index.

const $ = (id) => document.getElementById(id);
const PAGE = 40;
const TRIES = 30;
const PAUSE = 2000; // milliseconds between them
const PATH_LETTERS = 36; // that two lines of the narrowest card hold
const state = { blob: null, id: null, browsing: false, next: null, asked: 0, picked: [] };
const calibrated = document.body.dataset.threshold;
const wide = window.matchMedia("(min-width: 761px)");
let slid = false; // until the slider is moved, the index's own threshold counts

function say(text, kind = "") {
  $("status").textContent = text;
  $("status").className = kind;
}

function query(offset) {
  const values = new URLSearchParams();
  const where = $("where").value.trim();
  if (where) values.set("where", where);
  if (state.browsing) {
    values.set("count", PAGE);
    values.set("after", offset);
    return `/api/items?${values}`;
  }
  values.set("k", PAGE);
  values.set("offset", offset);
  if (slid) values.set("threshold", $("threshold").value);
  if ((calibrated || slid) && $("hide").checked) values.set("hide_unknown", "true");
  if ($("collapse").checked) values.set("collapse", "0.98");
  if (state.id !== null) values.set("id", state.id);
  return `/api/search?${values}`;
}

async function ask(offset = 0, tries = 0) {
  if (state.blob === null && state.id === null && !state.browsing) return;
  const turn = ++state.asked;
  if (!tries) say("Searching …");
  const later = (text) => { // a server or an index that is being replaced comes back
    if (tries === TRIES) return say(text, "error");
    say(`${text} Trying again …`, "error");
    setTimeout(() => { if (turn === state.asked) ask(offset, tries + 1); }, PAUSE);
  };
  const upload = state.id === null && !state.browsing;
  let answer;
  try {
    const options = upload ? { method: "POST", body: state.blob, headers: { "Content-Type": "application/octet-stream" } } : {};
    const response = await fetch(query(offset), options);
    answer = await response.json();
    if (turn !== state.asked) return;
    if (response.headers.has("Retry-After")) return later(`${answer.detail}.`);
    if (!response.ok) {
      if (offset === 0) $("hits").replaceChildren();
      $("more").hidden = true;
      return say(answer.detail, "error");
    }
  } catch {
    if (turn === state.asked) later("The server does not answer.");
    return;
  }
  show(answer, offset);
}

function show(answer, offset) {
  const hits = state.browsing ? answer.items : answer.hits;
  if (offset === 0) {
    $("hits").replaceChildren();
    state.picked = [];
  }
  hits.forEach((hit) => $("hits").append(card(hit)));
  state.next = state.browsing ? answer.next_after : answer.next_offset;
  $("more").hidden = state.next === null;
  const count = $("hits").children.length;
  const below = document.querySelectorAll(".hit.below").length;
  if (!slid && !state.browsing && answer.threshold !== null) slideTo(answer.threshold);
  if (!state.browsing && answer.unknown && (count || $("hide").checked)) say(`Unknown: nothing in the index is similar enough.${count ? "" : " What is below the threshold is hidden."}`, "unknown");
  else say(count ? `${count} image${count === 1 ? "" : "s"} shown` + (below ? `, ${below} of them below the threshold` : "") : "No image matches.");
}

function slideTo(value) {
  if ($("reset")) $("reset").hidden = !slid;
  $("threshold").value = value;
  $("threshold-value").value = Number(value).toFixed(3);
}

function card(hit) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "hit" + (hit.same_class === false ? " below" : "");
  button.dataset.id = hit.id;
  button.title = [hit.path, ...hit.copies].join("\n");
  const image = document.createElement("img");
  image.loading = "lazy";
  image.alt = hit.label || hit.path;
  image.src = `/api/items/${hit.id}/image?side=320`;
  image.addEventListener("error", () => image.removeAttribute("src"));
  const name = document.createElement("span");
  name.append(hit.similarity === undefined ? "" : `${hit.similarity.toFixed(3)}  `, isolated(hit.label));
  const path = document.createElement("span");
  path.className = "path";
  const more = hit.copies.length ? ` (+${hit.copies.length})` : "";
  // the folder of a class repeats its name, and the end of a long path is what tells two files apart
  const short = hit.label && hit.path.startsWith(`${hit.label}/`) ? hit.path.slice(hit.label.length + 1) : hit.path;
  const letters = [...short];
  const end = letters.length > PATH_LETTERS ? `\u2026${letters.slice(1 - PATH_LETTERS).join("")}` : short;
  path.append(hit.missing ? "file is gone: " : "", ...isolatedParts(end), more);
  button.append(image, name, path);
  button.addEventListener("click", () => from(hit.id));
  const compare = document.createElement("button");
  compare.type = "button";
  compare.className = "compare";
  compare.textContent = "\u21c4";
  compare.title = "Compare two images (c)";
  compare.setAttribute("aria-label", `Compare ${image.alt}`);
  compare.tabIndex = -1; // the key c does it
  compare.addEventListener("click", () => pick(button));
  const item = document.createElement("li");
  item.append(button, compare);
  return item;
}

// A name in a script of its own direction, which must not turn the text around it.
function isolated(text) {
  const element = document.createElement("bdi");
  element.textContent = text;
  return element;
}

const isolatedParts = (path) => path.split(/(\/)/).map(isolated);

function preview(source) {
  $("preview").src = source;
  $("preview").hidden = false;
}

function from(id) {
  Object.assign(state, { blob: null, id, browsing: false });
  preview(`/api/items/${id}/image?side=320`);
  ask();
  window.scrollTo({ top: 0 });
}

function use(blob) {
  if (!blob) return;
  Object.assign(state, { blob, id: null, browsing: false });
  preview(URL.createObjectURL(blob));
  ask();
}

function firstImage(transfer) {
  return [...(transfer?.files ?? [])].find((file) => file.type.startsWith("image/") || file.type === "");
}

function pick(button) {
  button.classList.toggle("picked");
  state.picked = [...document.querySelectorAll(".hit.picked")].slice(0, 2);
  if (state.picked.length < 2) return say(state.picked.length ? "Pick a second image to compare the two (c, or its \u21c4)." : "");
  ["left", "right"].forEach((side, number) => {
    $(side).src = `/api/items/${state.picked[number].dataset.id}/image?side=1200`;
    $(`${side}-name`).replaceChildren(...isolatedParts(state.picked[number].title));
  });
  document.querySelectorAll(".hit.picked").forEach((one) => one.classList.remove("picked"));
  $("compare").showModal();
}

function move(key) {
  const cards = [...document.querySelectorAll(".hit")];
  if (!cards.length) return false;
  const at = cards.indexOf(document.activeElement);
  const columns = Math.max(1, cards.filter((one) => one.offsetTop === cards[0].offsetTop).length);
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[key];
  if (at < 0 && document.activeElement !== document.body && document.activeElement !== $("drop")) return false;
  cards[Math.min(cards.length - 1, Math.max(0, at < 0 ? 0 : at + step))].focus();
  return true;
}

const drop = $("drop");
const options = document.querySelector("#options details");
drop.addEventListener("click", () => $("file").click());
drop.addEventListener("keydown", (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); $("file").click(); } });
document.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
document.addEventListener("dragleave", () => drop.classList.remove("over"));
document.addEventListener("drop", (event) => { event.preventDefault(); drop.classList.remove("over"); use(firstImage(event.dataTransfer)); });
document.addEventListener("paste", (event) => { const image = firstImage(event.clipboardData); if (image) { event.preventDefault(); use(image); } });
["file", "photo"].forEach((id) => $(id).addEventListener("change", (event) => { use(event.target.files[0]); event.target.value = ""; }));
$("choose").addEventListener("click", () => $("file").click());
$("take").addEventListener("click", () => $("photo").click());
$("browse").addEventListener("click", () => { Object.assign(state, { blob: null, id: null, browsing: true }); $("preview").hidden = true; ask(); });
$("more").addEventListener("click", () => ask(state.next));
$("options").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
["where", "hide", "collapse"].forEach((id) => $(id).addEventListener("change", () => ask()));
$("threshold").addEventListener("input", () => { slid = true; slideTo($("threshold").value); });
$("threshold").addEventListener("change", () => ask());
$("reset")?.addEventListener("click", () => { slid = false; slideTo(calibrated); ask(); });
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input[type=search], input[type=range]") || $("compare").open;
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); options.open = true; $("where").focus(); }
  else if (event.key === "o") $("file").click();
  else if (event.key === "c" && event.target.matches(".hit")) pick(event.target);
  else if (event.key.startsWith("Arrow") && move(event.key)) event.preventDefault();
});
if (calibrated) slideTo(calibrated);
options.open = wide.matches;
wide.addEventListener("change", () => { options.open = wide.matches; });
