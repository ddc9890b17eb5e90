// A page without a kernel. The same card.js and form.js as in a notebook draw the views and questions; what a kernel
// would answer comes from records that the build has made (recorder.py). WORDS and VIEW stand above this text in the
// file that the build writes.

const PLACE = document.currentScript.src.replace(/[^/]*(\?.*)?$/, ""); // the folder of this script
const AHEAD = "800px"; // a view is loaded when it is as near as this

// The theme of the page, said as JupyterLab says it: views, cards and printed pictures follow that.
function watchPage() {
  const wish = matchMedia("(prefers-color-scheme: dark)");
  const tell = () => {
    const theme = document.body.dataset.theme;
    const light = theme === "light" || (theme !== "dark" && !wish.matches);
    if (document.body.dataset.jpThemeLight !== String(light)) document.body.dataset.jpThemeLight = String(light);
  };
  new MutationObserver(tell).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
  wish.addEventListener("change", tell);
  tell();
}

// ---------------------------------------------------------------- records

const awaited = new Map(); // name of a record -> what takes it
globalThis.fabriclabRecord = (name, text) => awaited.get(name)?.(text);

// A script and not a request, because a page that is opened as a file may load nothing else.
function load(name) {
  return new Promise((taken, failed) => {
    awaited.set(name, taken);
    const script = document.createElement("script");
    script.src = `${PLACE}views/${name}.js`;
    script.onerror = () => failed(new Error(name));
    document.head.append(script);
  });
}

// The record is a length, JSON of that length, and the numbers of all arrays: the first byte of each, then the second.
async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  const [length] = new Uint32Array(bytes.slice(0, 4));
  const record = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  const apart = new Uint8Array(bytes, 4 + length), count = apart.length / 4;
  record.numbers = new Uint8Array(apart.length);
  for (let byte = 0; byte < 4; byte++)
    for (let i = 0; i < count; i++) record.numbers[4 * i + byte] = apart[byte * count + i];
  let at = 0;
  record.places = record.sizes.map((size) => [4 * at, 4 * (at += size)]);
  return record;
}

// ---------------------------------------------------------------- models, as anywidget has them

class Model {
  constructor(held) {
    this.held = held;
    this.heard = new Set();
  }

  get(name) { return this.held[name]; }
  set(name, value) { this.held[name] = value; }
  on(_, heard) { this.heard.add(heard); }
  off(_, heard) { this.heard.delete(heard); }

  save_changes() {
    const asked = this.held.asked;
    queueMicrotask(() => { // as a kernel, it answers after the question has been asked
      this.answer(asked);
      for (const heard of this.heard) heard();
    });
  }
}

class View extends Model {
  constructor(record) {
    super({ spec: record.spec, asked: { seq: 0, values: record.start } });
    this.record = record;
    this.names = Object.keys(record.axes);
    this.now = record.start;
    this.dragged = false; // whether a hand holds a slider
    this.answer({ seq: 0, values: record.start });
  }

  // The recorded value nearest to one that was asked for. A step by key or button leads on, however small it is.
  nearest(name, value) {
    const axis = this.record.axes[name], before = this.now[name];
    if (axis.includes(value)) return value;
    if (typeof value !== "number" || !axis.every((one) => typeof one === "number")) return before;
    const to = (one) => (this.record.log.includes(name) ? Math.log(one) : one);
    const far = axis.map((one) => Math.abs(to(one) - to(value)));
    const place = far.indexOf(Math.min(...far));
    if (axis[place] !== before || value === before || this.dragged) return axis[place];
    return axis[place + (value > before ? 1 : -1)] ?? axis[place];
  }

  answer({ seq, values }) {
    const { axes, frames, values: pool, places, numbers, sizes } = this.record;
    let place = 0;
    for (const name of this.names)
      place = place * axes[name].length + axes[name].indexOf(this.nearest(name, values[name]));
    const [state, layers, rest] = frames[place].map((at) => pool[at]);
    const frame = Object.fromEntries(Object.entries(rest).map(([name, at]) => [name, pool[at]]));
    const moved = this.names.some((name) => state[name] !== this.now[name]);
    this.now = state;
    const used = [];
    frame.layers = layers.map(([id, kind, panel, fields, arrays]) => {
      used.push(...arrays.map(([, at]) => places[at]));
      return { id, kind, panel, kept: "", fields: pool[fields], arrays: arrays.map(([name, at]) => [name, sizes[at]]), same: [] };
    });
    const bytes = new Uint8Array(used.reduce((sum, [from, end]) => sum + end - from, 0));
    let at = 0;
    for (const [from, end] of used) {
      bytes.set(numbers.subarray(from, end), at);
      at += end - from;
    }
    this.held.numbers = bytes;
    this.held.frame = { ...frame, seq, values: state, kept: {}, whole: true, moves: frame.moves && moved };
  }
}

class Question extends Model {
  constructor(record, place) {
    super({ spec: record.spec, asked: { seq: 0 }, frame: { seq: 0, html: record.html, said: "", problem: "" } });
    this.record = record;
    this.place = place;
    this.wrong = 0; // answers so far
  }

  answer({ seq, press, read, fields }) {
    const { html } = this.held.frame;
    this.held.frame = { html, said: "", problem: "", ...this.turn(press, read, fields), seq };
  }

  // A record has the verdict on a first answer, so what it says of tries holds for no other.
  counted(turn) {
    if (!turn.html?.includes("fl-is-right")) this.wrong++;
    else if (this.wrong) {
      const later = WORDS.later.replace("{n}", this.wrong + 1);
      return { html: turn.html.replace(WORDS.first, later), said: turn.said.replace(WORDS.first, later) };
    }
    return turn;
  }

  turn(press, read, fields) {
    const { asks, answers } = this.record;
    if (asks === "choice" && answers[press]) return this.counted(answers[press]);
    if (asks === "number" && press) return this.judge(fields.answer);
    if (asks === "guess" && press) return this.unfold(press, fields);
    if (asks === "guess" && read) {
      const number = this.number(fields[read]);
      return number > 0 ? { read: { name: read, number } } : { problem: WORDS.plain };
    }
    return { problem: WORDS.kernel };
  }

  // A number, with thousands or a decimal comma, alone or in the unit of the question.
  number(text) {
    const bare = text.trim().replace(new RegExp(`\\s*${(this.record.unit || "").replace(/\W/g, "\\$&")}$`), "");
    const plain = /^[-+]?\d{1,3}([,_]\d{3})+(\.\d+)?$/.test(bare) ? bare.replace(/[,_]/g, "") : bare.replace(",", ".");
    return /^[-+]?[\d.]+(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
  }

  judge(text) {
    const { key, tolerance, right } = this.record;
    const number = this.number(text);
    if (Number.isNaN(number)) return { problem: WORDS.plain };
    const near = Math.abs(number - key) <= (tolerance || 1e-9) * Math.max(Math.abs(number), Math.abs(key));
    return this.counted(near ? right : { problem: WORDS.wrong });
  }

  // A guess is not stored here; it opens what came out.
  unfold(press, { value }) {
    if (press !== "pass" && !value.trim()) return { problem: WORDS.move };
    const folds = [...document.querySelectorAll("details.fl-came-out")];
    const next = folds.find((fold) => this.place.compareDocumentPosition(fold) & Node.DOCUMENT_POSITION_FOLLOWING);
    note(this.place, next ? WORDS.unfolded : WORDS.guessed);
    if (next) {
      next.open = true;
      this.own(next, press === "pass" ? WORDS.no_idea : WORDS.yours.replace("{value}", this.named(value)));
    }
    return { said: next ? WORDS.unfolded : WORDS.guessed };
  }

  // When the page was made, nobody had guessed, and the card of what came out says so.
  own(fold, sentence) {
    const card = [...fold.querySelectorAll(".fl-still")].find((one) => one.querySelector(".fl-asked")?.dataset.named
      || one.querySelector(".fl-asked")?.textContent.endsWith(WORDS.skipped));
    if (!card) return;
    const line = card.querySelector(".fl-asked");
    line.dataset.named ??= line.textContent.slice(0, -WORDS.skipped.length);
    line.textContent = line.dataset.named + sentence;
    card.setAttribute("aria-label", line.textContent);
  }

  // A guess as it was typed, in the unit of its ruler.
  named(value) {
    const unit = this.place.querySelector(".fl-ruler")?.dataset.unit || "", typed = value.trim();
    return typed.endsWith(unit) ? typed : `${typed} ${unit}`;
  }
}

// ---------------------------------------------------------------- the page

function note(place, sentence) {
  let line = place.querySelector(":scope > .fl-needs");
  if (!line) {
    line = document.createElement("p");
    line.className = "fl-needs";
    place.append(line);
  }
  line.textContent = sentence;
}

function mount(place, model) {
  place.style.minHeight = "";
  place.replaceChildren();
  VIEW.render({ model, el: place });
}

async function showView(place) {
  place.style.minHeight = `${place.offsetHeight}px`; // what stands below stays where it is while the record comes
  try {
    const record = await unpack(await load(place.dataset.view));
    const model = new View(record);
    mount(place, model);
    place.addEventListener("pointerdown", ({ target }) => (model.dragged = target.type === "range"));
    addEventListener("pointerup", () => (model.dragged = false));
    holdHead(place);
    place.addEventListener("click", ({ target }) => { // what opens below the picture comes into sight
      if (target.closest(".fl-icon[aria-expanded=true]")) requestAnimationFrame(() => place.querySelector(".fl-more").scrollIntoView({ block: "nearest" }));
    });
    place.classList.toggle("fl-no-pin", record.shares_axes);
    const still = record.spec.controls.filter(({ name }) => record.axes[name].length < 2);
    for (const { name } of still)
      for (const part of place.querySelectorAll(`[data-control="${name}"], [data-value="${name}"]`)) {
        const box = part.closest(".fl-control");
        box.classList.add("fl-off");
        for (const input of box.querySelectorAll("input, select, button")) input.disabled = true;
      }
    const need = [...still.map(({ label }) => label), ...record.spec.buttons.map(({ label }) => label)];
    const none = still.length === record.spec.controls.length && Object.values(record.axes).every((axis) => axis.length < 2);
    if (need.length) sayWhatIsOff(place, none ? WORDS.one_state : WORDS.need.replace("{list}", need.join(", ")));
    if (record.fewer.some((name) => record.axes[name].length > 1)) note(place, WORDS.fewer.replace("{n}", record.frames.length));
  } catch (error) { // the picture that was printed stays
    place.style.minHeight = "";
    note(place, WORDS.still);
    console.warn(error);
  }
}

// Above the controls, before anybody presses one that is off; and below them, where they stay in sight, when it is pressed.
function sayWhatIsOff(place, sentence) {
  const controls = place.querySelector(".fl-controls"), head = place.querySelector(".fl-head");
  const line = (attributes) => Object.assign(document.createElement("p"), { className: "fl-needs", ...attributes });
  const before = line({ textContent: sentence, id: `${place.dataset.view}-off` });
  const told = line({ role: "alert" });
  controls.before(before);
  place.classList.add("fl-no-python");
  for (const button of place.querySelectorAll(".fl-button")) button.setAttribute("aria-describedby", before.id);
  place.addEventListener("click", (event) => {
    const off = event.target.closest(".fl-button, .fl-off");
    if (off) {
      event.stopPropagation();
      head.append(told);
      told.textContent = WORDS.kernel;
    } else if (event.target.closest(".fl-controls")) told.remove();
  }, true);
}

// On a phone a card is taller than the screen: of its head, what stands above the controls scrolls away (page.css).
function holdHead(place) {
  const head = place.querySelector(".fl-head"), controls = place.querySelector(".fl-controls");
  const measure = () => {
    const above = controls.hidden ? head.offsetHeight : controls.getBoundingClientRect().top - head.getBoundingClientRect().top;
    head.style.setProperty("--fl-above", `${above}px`);
  };
  new ResizeObserver(measure).observe(head);
  measure();
}

function showQuestion(place) {
  const record = JSON.parse(place.querySelector("script").textContent);
  record.spec.words = WORDS.fixed;
  if (record.asks === "guess") record.html = record.html.replace(`>${WORDS.commit}<`, `>${WORDS.commit_here}<`);
  mount(place, new Question(record, place));
  if (record.asks) return;
  const parts = place.querySelectorAll("button, input");
  for (const part of parts) part.disabled = true;
  if (parts.length) place.prepend(Object.assign(document.createElement("p"), { className: "fl-needs", textContent: WORDS.kernel }));
}

// The list of pages begins with the page that is open in sight.
function showPlace() {
  const list = document.querySelector(".sidebar-scroll"), here = list?.querySelector(".current-page");
  if (here) list.scrollTop += here.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 3;
}

function start() {
  watchPage();
  showPlace();
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries)
      if (isIntersecting) {
        seen.unobserve(target);
        showView(target);
      }
  }, { rootMargin: AHEAD });
  for (const place of document.querySelectorAll(".fl-mount[data-view]")) seen.observe(place);
  for (const place of document.querySelectorAll(".fl-mount:not([data-view])")) showQuestion(place);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
