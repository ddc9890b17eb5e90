// The card around a picture: finding, controls, picture, footer. It shows what Python sends, and sends back what the
// reader's hand does. No view is known here by name.

const PATIENCE = 3000, BEAT = 1000, REST = 400; // ms
const DIGITS = 6; // significant digits of the value of a slider
// px: reach of a handle, and of a finger; room beside the picture, left and right together
const GRIP = 14, FINGER = 22, PADDING = 16;
// px: the height of a card in a window of 768 and of the picture in it, and what the window shows besides them
const ROOM = 600, SHOWN = 168, CANVAS = 412, BESIDES = 356;
const LINE = 24; // px; of the soft half of a finding: what is higher has more lines
const FEW = 4, SHORT = 28; // a choice of so few options, of so many letters together, is a switch and not a menu
const ICONS = {
  numbers: '<rect x="2.5" y="3.5" width="13" height="11" rx="1.5"/><path d="M2.5 7.3h13M7 7.3v7.2"/>',
  list: '<path d="M3 5h1M3 9h1M3 13h1M7 5h8M7 9h8M7 13h8"/>',
  code: '<path d="M6 5 2 9l4 4M12 5l4 4-4 4"/>',
  pin: '<path d="M6.5 3h5M7.5 3v4L5 10h8l-2.5-3V3M9 10v5"/>',
  unpin: '<path d="M5 5l8 8M13 5l-8 8"/>',
  reset: '<path d="M4 9a5.2 5.2 0 1 0 1.8-4M6.3 2v3.3H3"/>',
  full: '<path d="M3 7V3h4M15 11v4h-4M15 7V3h-4M3 11v4h4"/>',
  back: '<path d="M12 4 6 9l6 5M4 4v10"/>',
  forward: '<path d="m6 4 6 5-6 5M14 4v10"/>',
  play: '<path d="m6 4 8 5-8 5z" fill="currentColor"/>',
  pause: '<path d="M6.5 4v10M11.5 4v10" stroke-width="2.4"/>',
};

function make(tag, into, attributes = {}, text = "") {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) write(node, text);
  into.append(node);
  return node;
}

// ------------------------------------------------------------------ values of sliders with their units

// The unit in which a value is shown, and its size in the slider's own; zero has the unit of the slider's high end.
function unitOf({ ladder, high }, value) {
  const size = Math.abs(value) || high;
  return ladder.findLast(([, factor]) => size >= factor * (1 - 1e-9)) || ladder[0];
}

// The marks of the language in numbers; all views of a page speak one.
let marks = { decimal: ".", thousands: "," };
const speak = ({ words: { decimal, thousands, unbroken } }) => {
  marks = { decimal, thousands };
  gaps = new RegExp(unbroken, "g");
};

// Writes a text into an element; no line of it ends between a number and its unit.
let gaps = /$^/g;
const write = (node, text) => (node.textContent = text.replace(gaps, "\u00a0"));

function natural(control, value) {
  const [unit, factor] = unitOf(control, value);
  const [whole, ...fraction] = String(Number((value / factor).toPrecision(DIGITS))).split(".");
  return `${[whole.replace(/\B(?=(\d{3})+$)/g, marks.thousands), ...fraction].join(marks.decimal)} ${unit}`.trim();
}

// Three digits in the unit that is shown.
function roundedOn(control, value) {
  const [, factor] = unitOf(control, value);
  return exact(Number((value / factor).toPrecision(3)) * factor);
}

const exact = (value) => Number(value.toPrecision(15)); // 160 * 1e-6 is 0.00016, and not 0.00015999999999999999

// What was typed, in the slider's own unit; a number without unit has the one of the value that is shown.
function asValue(control, text, shown) {
  const joined = text.trim().replace(/(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))/g, ""); // thousands, as French writes them
  const [, digits, unit] = joined.match(/^([-+]?[\d.][\d,_.]*(?:e[-+]?\d+)?)\s*(\D.*)?$/i) || [];
  const number = digits ? Number(digits.replace(/[,_](?=\d{3}(?!\d))/g, "").replace(",", ".")) : NaN; // 1,024; 8,5
  const factor = unit ? control.units[unit.trim()] : unitOf(control, shown)[1];
  return factor === undefined ? NaN : exact(number * factor);
}

// How many characters the longest value of a slider has.
function longestOf(control) {
  const { low, high, step, log, ladder } = control;
  const ends = [low, high, ...(log ? [] : [exact(low + step), exact(high - step)])];
  if (log)
    for (const [, factor] of ladder) if (factor * 100 > low && factor * 1.23 < high) ends.push(1.23 * factor);
  return Math.min(14, Math.max(3, ...ends.map((value) => natural(control, value).length)));
}

// JupyterLab says which theme it has; elsewhere the page is dark if its text is light. Returns what ends the watch.
function watchTheme(root, apply) {
  const look = () => {
    const said = document.body.dataset.jpThemeLight;
    const light = (getComputedStyle(root.parentElement).color.match(/[\d.]+/g) || [0]).slice(0, 3);
    const dark = said ? said === "false" : light.reduce((sum, v) => sum + Number(v), 0) > 384;
    root.dataset.theme = dark ? "dark" : "light";
    apply(dark);
  };
  const themed = new MutationObserver(look), wish = matchMedia("(prefers-color-scheme: dark)");
  themed.observe(document.body, { attributes: true });
  wish.addEventListener("change", look);
  look();
  return () => {
    themed.disconnect();
    wish.removeEventListener("change", look);
  };
}

class Card {
  constructor(model, root) {
    this.model = model;
    this.spec = model.get("spec");
    this.read = null; // the item that the reader points at: [layer, number]
    this.seq = 0;
    speak(this.spec);
    this.root = make("div", root, { class: "fl-live", role: "group", "aria-label": this.spec.title, lang: this.spec.words.language });
    this.build();
    this.values = { ...model.get("asked").values };
    this.presses = []; // each with the values that stood on the page when it was pressed
    this.pins = [];
    this.pinned = 0; // so many settings have been kept, of which some may have been put away
    this.highest = Object.fromEntries(this.spec.controls.map(({ name, high }) => [name, high]));
    this.onFrame = () => this.receive();
    model.on("change:frame", this.onFrame);
    this.sized = new ResizeObserver(() => this.refit());
    for (const part of [this.stage, this.head, this.foot]) this.sized.observe(part);
    this.onWindow = () => this.refit();
    addEventListener("resize", this.onWindow);
    this.unwatch = watchTheme(this.root, (dark) => this.theme(dark));
    this.seen = new IntersectionObserver(([entry]) => {
      this.inSight = entry.isIntersecting;
      this.later();
    });
    this.seen.observe(this.root);
    if (model.get("frame").whole) this.receive();
    else this.send({ whole: true });
  }

  remove() {
    for (const timer of [this.timer, this.resting]) clearTimeout(timer);
    clearInterval(this.player);
    cancelAnimationFrame(this.drawing);
    for (const observer of [this.sized, this.seen]) observer.disconnect();
    this.unwatch();
    removeEventListener("resize", this.onWindow);
    this.model.off("change:frame", this.onFrame);
  }

  // ------------------------------------------------------------------ the page around the picture

  build() {
    const words = this.spec.words;
    // JupyterLab takes single keys as commands, some of which delete cells: what is typed in a view stays in it.
    this.root.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) event.stopPropagation();
    });
    this.head = make("div", this.root, { class: "fl-head" });
    this.said = make("div", this.head, { class: "fl-said", "aria-live": "polite" });
    if (this.spec.room) this.said.style.setProperty("--lines", this.spec.room);
    this.warning = make("p", this.head, { class: "fl-warning", role: "alert", hidden: "" });
    this.panel = make("div", this.head, { class: "fl-controls" });
    this.stage = make("div", this.root, { class: "fl-stage" });
    this.frame = make("div", this.stage, { class: "fl-frame" });
    this.canvas = make("canvas", this.frame, { class: "fl-canvas", role: "application", tabindex: "0" });
    this.painter = new Painter(this.canvas, this.spec);
    this.wider = make("p", this.root, { class: "fl-wider", hidden: "" }, words.wider);
    this.foot = make("div", this.root, { class: "fl-foot" });
    this.hint = make("p", this.foot, { class: "fl-hint", "aria-live": "polite" });
    this.buildFooter();
    this.buildControls();
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointermove", (event) => this.follow(event));
    this.canvas.addEventListener("pointerdown", (event) => this.grasp(event));
    this.canvas.addEventListener("lostpointercapture", () => (this.grip = null)); // let go, or cancelled
    // A finger leaves with every tap, and when it scrolls the page; what it has read stays.
    this.canvas.addEventListener("pointerleave", ({ pointerType }) => pointerType === "touch" || this.reading(null));
    // A finger on a handle moves the handle, and elsewhere the page.
    this.canvas.addEventListener("touchmove", (event) => this.grip?.name && event.cancelable && event.preventDefault(), { passive: false });
    this.canvas.addEventListener("click", (event) => this.tap(event));
    this.root.addEventListener("fullscreenchange", () => this.refit());
  }

  icon(name, into, press) {
    const label = this.spec.words[name];
    const button = make("button", into, { type: "button", class: "fl-icon", "data-press": name, title: label });
    button.innerHTML = `<svg viewBox="0 0 18 18" aria-hidden="true">${ICONS[name]}</svg>`;
    button.addEventListener("click", press);
    return button;
  }

  relabel(button, name) {
    button.innerHTML = `<svg viewBox="0 0 18 18" aria-hidden="true">${ICONS[name]}</svg>`;
    button.title = this.spec.words[name]; // its name, too, which a label beside it would have said twice
  }

  // Numbers, list and code open below the footer, one at a time, and follow the controls.
  buildFooter() {
    const icons = make("div", this.foot, { class: "fl-icons" });
    this.more = make("div", this.root, { class: "fl-more", hidden: "" });
    this.cells = make("div", this.more, { class: "fl-table" });
    this.list = make("pre", this.more, { tabindex: "0" });
    this.list.textContent = this.spec.listed || "";
    this.code = make("code", make("pre", this.more, { class: "fl-code", tabindex: "0" }));
    this.folds = { numbers: this.cells, list: this.list, code: this.code.parentNode };
    this.openers = {};
    for (const name of Object.keys(this.folds))
      if (name !== "list" || this.spec.listed)
        this.openers[name] = this.icon(name, icons, () => this.open(this.opened === name ? null : name));
    this.pinner = this.icon("pin", icons, () => this.pin());
    if (this.spec.controls.length && this.spec.reset)
      this.icon("reset", icons, () => {
        this.stop?.();
        this.forget();
        this.move({ ...this.spec.start }, "", false);
        this.moved = false;
      });
    if (document.fullscreenEnabled)
      this.icon("full", icons, () => (document.fullscreenElement ? document.exitFullscreen() : this.root.requestFullscreen()));
    this.open(null);
  }

  open(name) {
    this.opened = name;
    this.more.hidden = !name;
    for (const [fold, node] of Object.entries(this.folds)) node.hidden = fold !== name;
    for (const [fold, node] of Object.entries(this.openers)) node.setAttribute("aria-expanded", String(fold === name));
    if (name === "numbers") this.send({ table: true });
  }

  buildControls() {
    this.inputs = {};
    this.ghosts = {};
    this.ends = {};
    for (const control of this.spec.controls) {
      const box = make("div", this.panel, { class: "fl-control" });
      const id = `fl-${control.name}-${Math.random().toString(36).slice(2)}`;
      if (control.play) this.buildPlayer(box, control);
      make("label", box, { for: id, id: `${id}-label` }, control.label);
      this.inputs[control.name] = control.options ? this.choice(box, id, control) : this.slider(box, id, control);
    }
    const row = make("div", this.panel, { class: "fl-buttons" });
    this.buttons = this.spec.buttons.map((button) => {
      const made = make("button", row, { type: "button", class: "fl-button", "data-press": button.name }, button.label);
      made.addEventListener("click", () => made.getAttribute("aria-disabled") || this.send({ press: button.name }));
      return made;
    });
    row.hidden = !this.spec.buttons.length;
    this.panel.hidden = !this.spec.controls.length && row.hidden;
  }

  choice(box, id, control) {
    const names = control.names || control.options.map(String);
    const letters = names.join("").length;
    if (control.options.length <= FEW && letters <= SHORT) return this.segments(box, id, control, names);
    const select = make("select", box, { id, "data-control": control.name });
    control.options.forEach((option, i) => make("option", select, { value: String(option) }, names[i]));
    select.addEventListener("change", () => this.move({ [control.name]: control.options[select.selectedIndex] }));
    return (value) => (select.selectedIndex = control.options.indexOf(value));
  }

  // A switch: all options side by side, of which one is chosen.
  segments(box, id, control, names) {
    box.querySelector("label").removeAttribute("for");
    const group = make("span", box, { class: "fl-segments", role: "radiogroup", "aria-labelledby": `${id}-label` });
    const radios = control.options.map((option, i) => {
      const label = make("label", group);
      const radio = make("input", label, { type: "radio", name: id, value: String(option), "data-control": control.name });
      make("span", label, {}, names[i]);
      radio.addEventListener("change", () => this.move({ [control.name]: option }));
      return radio;
    });
    return (value) => radios.forEach((radio, i) => (radio.checked = control.options[i] === value));
  }

  slider(box, id, control) {
    const to = (v) => (control.log ? Math.log10(v) : v), from = (v) => (control.log ? 10 ** v : v);
    const step = control.log ? (to(control.high) - to(control.low)) / 100 : control.step;
    const range = { type: "range", min: to(control.low), max: to(control.high), step, "data-control": control.name };
    const place = make("span", box, { class: "fl-slide" });
    const ghost = make("span", place, { class: "fl-was", hidden: "" });
    const rail = make("input", place, { id, ...range });
    const amount = make("span", box, { class: "fl-amount" }); // it has the room of the longest value
    const field = make("input", amount, { type: "text", autocomplete: "off", spellcheck: "false",
      "data-value": control.name, "aria-label": `${control.label}: ${this.spec.words.field}` });
    if (control.ladder.some(([unit]) => unit)) field.title = this.spec.words.bare;
    amount.style.setProperty("--room", `calc(${longestOf(control)}ch + 10px)`);
    const read = (value) => {
      if (Number.isNaN(value)) return this.warn(control.unread);
      const kept = clamp(value, control.low, control.high);
      if (this.beyond && value === this.values[control.name]) return; // Enter is heard twice, its sentence stays
      this.move({ [control.name]: kept }, kept === value ? "" : control.beyond);
    };
    const typed = () => {
      const now = this.values[control.name], text = field.value.trim();
      const value = text === natural(control, now) ? now : asValue(control, text, now);
      if (text) read(value);
      if (text && !Number.isNaN(value)) field.value = natural(control, this.values[control.name]);
    };
    // A logarithmic rail gives three digits, which is what the field shows; its ends are exact.
    const value = () => rail.value === rail.min ? control.low : rail.value === rail.max ? control.high
      : control.log ? roundedOn(control, from(Number(rail.value))) : Number(rail.value);
    rail.addEventListener("pointerdown", () => this.held = { ...this.values });
    rail.addEventListener("keydown", (event) => event.repeat || (this.held = { ...this.values }));
    rail.addEventListener("input", () => read(value()));
    field.addEventListener("focus", () => this.held = { ...this.values });
    // The click that enters a field selects its value, so that typing replaces it; the next one sets the place to type at.
    field.addEventListener("pointerdown", () => (this.entered = document.activeElement !== field));
    field.addEventListener("click", () => this.entered && field.selectionStart === field.selectionEnd && field.select());
    field.addEventListener("input", () => (this.moved ||= field.value !== "")); // the same number is no change
    field.addEventListener("change", typed);
    field.addEventListener("blur", () => (field.value = natural(control, this.values[control.name])));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") typed();
      const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!up) return;
      event.preventDefault();
      rail.stepUp(up);
      read(value());
    });
    this.ends[control.name] = () => (rail.max = to(control.high));
    const part = (v) => clamp((to(v) - to(control.low)) / (to(control.high) - to(control.low) || 1));
    this.ghosts[control.name] = (former) => {
      ghost.hidden = former === undefined || former === this.values[control.name];
      if (!ghost.hidden) ghost.style.left = `calc(9px + ${part(former)} * (100% - 18px))`;
    };
    return (value) => {
      rail.value = to(value);
      rail.style.setProperty("--part", `${100 * part(value)}%`);
      rail.setAttribute("aria-valuetext", natural(control, value));
      // A field in which somebody is typing is left alone as long as it says the same.
      if (document.activeElement !== field || asValue(control, field.value, value) !== value) field.value = natural(control, value);
    };
  }

  buildPlayer(box, control) {
    const row = make("span", box, { class: "fl-player" });
    const go = (by) => {
      const now = this.values[control.name];
      const next = control.log ? Number((now * 1.25 ** by).toPrecision(3)) : Number((now + by * control.step).toPrecision(12));
      if (by > 0 ? now >= control.high : now <= control.low) return false;
      this.move({ [control.name]: clamp(next, control.low, control.high) }, "", false);
      return true;
    };
    const stop = this.stop = () => {
      clearInterval(this.player);
      this.player = null;
      this.relabel(play, "play");
    };
    this.icon("back", row, () => { stop(); go(-1); });
    const play = this.icon("play", row, () => {
      if (this.player) return stop();
      if (this.values[control.name] >= control.high) this.move({ [control.name]: control.low }, "", false);
      this.relabel(play, "pause");
      const beat = () => this.waiting || (!this.model.get("frame").wrong && go(1)) || stop();
      this.player = setInterval(beat, control.beat || BEAT);
    });
    play.classList.add("fl-main");
    this.icon("forward", row, () => { stop(); go(1); });
  }

  // ------------------------------------------------------------------ theme and room

  theme(dark) {
    for (const painter of [this.painter, ...(this.pins || []).map((pin) => pin.painter)]) {
      painter.dark = dark;
      painter.dirty = true;
    }
    this.refit();
  }

  // The picture takes what the window leaves beside finding, controls and footer.
  refit() {
    if (!this.size) return;
    const full = document.fullscreenElement === this.root;
    this.breakSaid();
    const around = this.head.offsetHeight + this.foot.offsetHeight;
    const room = Math.max(ROOM, innerHeight - SHOWN) - around - 8; // borders, and the padding of the picture
    const share = Math.max(CANVAS, Math.min(0.6 * innerHeight, innerHeight - BESIDES));
    const tall = full ? innerHeight - around : Math.min(room, share);
    const wide = this.frame.clientWidth - PADDING;
    this.wider.hidden = !this.painter.fit(wide, tall, full ? FULL : MOST) || !this.drawn;
    for (const pin of this.pins) pin.painter.fit(pin.frame.clientWidth - PADDING, tall, full ? FULL : MOST);
    this.later();
  }

  // ------------------------------------------------------------------ to and from Python

  move(changed, beyond = "", ghost = true) {
    this.moved = true;
    this.beyond = beyond; // says that the value was outside its range
    if (beyond) this.warn(beyond);
    if (ghost) {
      this.remember();
      this.rest();
    } else this.forget();
    Object.assign(this.values, changed);
    this.showValues();
    this.send({});
  }

  // While a hand moves a control nothing moves by itself: what drawing it costs would delay the answer.
  rest() {
    if (!this.painter.dirty) { // so the frame that was asked for would only go on with a motion
      cancelAnimationFrame(this.drawing);
      this.drawing = 0;
    }
    this.painter.land();
    this.restFor();
  }

  // A picture whose answer takes long is drawn now and then, with all layers at their places.
  restFor() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.resting = 0;
      if (this.waiting) this.restFor();
      this.later();
    }, REST);
  }

  // Sliders end where the present state says that there is no more.
  relieve(pressed = {}) { // buttons that have nothing left to do; they stay in the order of the keyboard
    this.buttons.forEach((button, place) => {
      const { name, label } = this.spec.buttons[place];
      button.textContent = pressed[name] ?? label;
      if (name in pressed) button.setAttribute("aria-disabled", "true");
      else button.removeAttribute("aria-disabled");
    });
  }

  limit(limits) {
    for (const control of this.spec.controls) {
      if (control.options) continue;
      control.high = limits[control.name] ?? this.highest[control.name];
      this.ends[control.name]();
    }
    this.showValues();
  }

  showValues() {
    for (const [name, show] of Object.entries(this.inputs)) show(this.values[name]);
    for (const [name, show] of Object.entries(this.ghosts)) show(this.held?.[name]);
  }

  // What stands on the page as a hand begins to move a control stays in the picture as a ghost.
  remember() {
    this.held ||= { ...this.values };
    if (this.held === this.heldByPainter) return;
    this.heldByPainter = this.held;
    this.painter.remember();
  }

  forget() {
    this.held = this.heldByPainter = null;
    this.painter.forget();
  }

  // One question at a time: while Python works, newer values wait here, and only the last of them is sent.
  // A press is never dropped.
  send({ press, ...more }) {
    if (press) this.presses.push({ press, values: { ...this.values }, moved: this.moved });
    else this.wanted = { ...this.wanted, ...more };
    if (!this.values) return;
    this.root.dataset.busy = "yes";
    if (this.waiting) return;
    this.waiting = true;
    this.seq = Math.max(this.seq, this.model.get("asked").seq) + 1;
    const next = this.presses.shift() || { values: { ...this.values }, moved: this.moved, ...this.wanted };
    if (!next.press) this.wanted = null;
    const kept = Object.fromEntries(this.pins.map(({ number, values }) => [number, values]));
    this.model.set("asked", { seq: this.seq, kept, ...next });
    this.model.save_changes();
    this.timer = setTimeout(() => this.warn(this.spec.words.silent), PATIENCE);
  }

  receive() {
    const frame = this.model.get("frame");
    if (!frame.whole && !this.known) return this.waiting || this.send({ whole: true });
    this.known = true;
    const layers = this.merge(frame); // every one, since the next says what has not changed since
    this.say(frame);
    this.code.textContent = frame.code;
    this.canvas.setAttribute("aria-label", frame.alt);
    this.drawn = frame.panels[0].height > 0;
    const left = !this.drawn && document.activeElement === this.canvas;
    this.stage.hidden = !this.drawn;
    this.pinner.hidden = !this.drawn;
    if (left) { // the keyboard stays in the view
      this.root.tabIndex = -1;
      this.root.focus();
    }
    this.openers.numbers.hidden = !frame.counted;
    if (!this.drawn && frame.counted && this.opened !== "numbers") this.open("numbers"); // then the table is the view
    if (frame.table !== undefined) this.cells.innerHTML = frame.table;
    this.size = frame.panels;
    this.painter.show(layers, frame.panels, frame.moves);
    // A finger that moves over a solid turns it, and does not move the page sideways.
    this.canvas.style.touchAction = this.painter.isSolid() ? "pan-y" : "";
    // What stands beside the present state has the same axes, which may have become longer or shorter.
    for (const pin of this.pins) if (frame.kept[pin.number]) pin.show(this.beside.get(pin.number), frame.kept[pin.number]);
    this.limit(frame.limits);
    this.relieve(frame.pressed);
    this.reading(this.read);
    this.refit(); // which asks for a frame; a page that is not seen gets none
    if (document.hidden) this.draw();
    if (frame.seq < this.seq) return; // an answer to somebody else: ours is still to come
    clearTimeout(this.timer);
    this.warn(this.beyond || "");
    this.waiting = false;
    if (frame.table === undefined && this.opened === "numbers" && !this.wanted) this.wanted = { table: true };
    if (this.wanted || this.presses.length) return this.send({});
    delete this.root.dataset.busy;
    this.values = { ...frame.values };
    this.showValues();
  }

  merge(frame) {
    const bytes = this.model.get("numbers");
    const whole = bytes?.byteLength ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) : null;
    const held = this.every || new Map();
    let at = 0; // where in the numbers the next array begins
    [this.every, this.layers, this.beside] = [new Map(), new Map(), new Map()];
    for (const { id, kind, panel, kept, fields, arrays, same } of frame.layers) {
      const old = held.get(id) || {}, layer = { kind, panel, ...fields };
      for (const name of same) layer[name] = old[name];
      for (const [name, count] of arrays)
        layer[name] = new Float32Array(whole ? whole.slice(4 * at, 4 * (at += count)).buffer : 0);
      this.every.set(id, layer);
      if (!kept) this.layers.set(id, layer);
      else if (this.beside.has(kept)) this.beside.get(kept).set(id, layer);
      else this.beside.set(kept, new Map([[id, layer]]));
    }
    return this.layers;
  }

  // The finding: its first sentence says what is true, the rest is the contrast.
  say({ said, halves, wrong }) {
    this.said.replaceChildren();
    this.said.classList.toggle("fl-wrong", Boolean(wrong));
    if (wrong) return said.split("\n").forEach((line) => make("span", this.said, {}, line));
    make("b", this.said, {}, halves[0]);
    if (!halves[1]) return;
    this.said.append(" ");
    make("em", this.said, {}, halves[1]);
    this.breakSaid();
  }

  // What follows the first sentence is one line of its own, or else goes on behind it.
  breakSaid() {
    const rest = this.said.querySelector("em");
    if (!rest) return;
    rest.classList.remove("fl-on");
    rest.classList.toggle("fl-on", rest.offsetHeight > LINE);
  }

  warn(text) {
    this.warning.textContent = text;
    this.warning.hidden = !text;
  }

  tell(text) {
    write(this.hint, text);
  }

  // ------------------------------------------------------------------ two settings side by side

  pin() {
    const figure = make("figure", this.stage, { class: "fl-pin" });
    const head = make("figcaption", figure);
    make("span", head, {}, this.model.get("frame").halves[0]);
    const frame = make("div", figure, { class: "fl-frame" });
    const canvas = make("canvas", frame, { role: "img", "aria-label": this.model.get("frame").alt });
    const painter = new Painter(canvas, this.spec);
    const show = (layers, size) =>
      painter.show(new Map([...layers].map(([id, layer]) => [id, { ...layer, flow: undefined, glide: undefined }])), size, false);
    const pin = { painter, frame, show, number: `kept ${++this.pinned}`, values: { ...this.model.get("frame").values } };
    painter.dark = this.painter.dark;
    painter.turn = [...this.painter.turn];
    show(this.layers, this.size);
    this.icon("unpin", head, () => {
      this.pins = this.pins.filter((other) => other !== pin);
      figure.remove();
      this.send({});
      this.root.classList.toggle("fl-pinned", this.pins.length > 0);
      this.refit();
      this.pinner.focus();
    });
    this.pins.push(pin);
    this.send({});
    this.root.classList.add("fl-pinned");
    this.refit();
  }

  // ------------------------------------------------------------------ reading single items

  readable() {
    return [...this.layers.values()].filter((layer) => layer.names);
  }

  // How a part is read: with a pointer and keys, or, where nothing can hover, with a finger.
  how(pointer, finger) {
    return this.spec.words[matchMedia("(hover: none)").matches ? finger : pointer];
  }

  reading(item) {
    this.read = item;
    const layer = item && this.readable()[item[0]];
    if (!layer || item[1] >= layer.names.length) this.read = null;
    else {
      const note = layer.notes?.[item[1]] ? `: ${layer.notes[item[1]]}` : ""; // some items have nothing to add
      this.tell(layer.names[item[1]] + note);
    }
    if (!this.read) this.tell(this.painter.isSolid() ? this.how("turn", "swipe") : this.model.get("frame").hint || (this.readable().length ? this.how("keys", "tap") : ""));
    this.marked = this.read && [this.readable()[this.read[0]], this.read[1]];
    this.later();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const arrow = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (arrow && this.painter.isSolid()) {
      this.rotate(0.08 * arrow[0], 0.06 * arrow[1]);
      event.preventDefault();
      return event.stopPropagation();
    }
    const page = this.painter.isSolid() ? 1 : 10;
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
    const all = this.readable().flatMap((layer, k) => layer.names.map((_, i) => [k, i]));
    if (event.key === "Enter" || event.key === " ") this.pick();
    else if (event.key === "Escape") return this.reading(null);
    else if (!all.length) return;
    else if (event.key === "Home") this.reading(all[0]);
    else if (event.key === "End") this.reading(all.at(-1));
    else if (!by) return;
    else {
      const here = this.read ? all.findIndex(([k, i]) => k === this.read[0] && i === this.read[1]) : by > 0 ? -1 : 0;
      this.reading(all[(((here + by) % all.length) + all.length) % all.length]);
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // A finger that moves scrolls the page, unless it holds something; a mouse reads what it comes to.
  follow(event) {
    if (this.grip) return this.drag(event);
    if (event.pointerType === "touch") return;
    this.touched = false;
    this.point(event);
  }

  // A finger cannot point before it taps, so a tap does both: it reads what is near, and selects it.
  tap(event) {
    if (this.turning) return;
    if (this.touched) this.point(event);
    this.pick();
  }

  pick() {
    const layer = this.read && this.readable()[this.read[0]];
    if (layer && layer.pick) this.move({ [layer.pick]: layer.picks[this.read[1]] }, "", false);
  }

  rotate(around, tilt) {
    const turn = this.painter.turn;
    this.painter.turn = [turn[0] + around, clamp(turn[1] + tilt, -1.5, 1.5)];
    this.painter.dirty = true;
    this.later();
  }

  // A dot that is moved by hand: the control that it stands for, and where the ends of that control are.
  handle(event) {
    let best = this.reach() || GRIP, found = null;
    for (const { drag, drag_ends, x: xs, y: ys, panel } of this.layers.values())
      for (const [i, name] of (drag || []).entries()) {
        const [x, y] = this.painter.place(event, panel);
        const far = Math.hypot(xs[i] - x, ys[i] - y);
        if (name && far < best) [best, found] = [far, { name, ends: drag_ends, panel }];
      }
    return found;
  }

  // How far from an item a finger may be, in units of the picture; a mouse has the usual reach.
  reach() {
    return this.touched ? FINGER / this.painter.scale : undefined;
  }

  grasp(event) {
    this.turning = false;
    this.touched = event.pointerType === "touch";
    this.grip = event.button ? null : this.handle(event);
    if (!this.grip && !event.button && this.painter.isSolid()) this.grip = { at: [event.clientX, event.clientY] };
    if (!this.grip) return;
    this.held = { ...this.values };
    this.canvas.setPointerCapture(event.pointerId);
    this.reading(null);
  }

  drag(event) {
    if (this.grip.at) {
      const [x, y] = this.grip.at;
      this.turning = true;
      this.rotate((event.clientX - x) / 150, (event.clientY - y) / 150);
      this.grip.at = [event.clientX, event.clientY];
      return;
    }
    const { name, ends: [from, to], panel } = this.grip;
    const control = this.spec.controls.find((other) => other.name === name), { low, high, log, step } = control;
    const share = clamp((this.painter.place(event, panel)[0] - from) / (to - from));
    const value = log ? roundedOn(control, low * (high / low) ** share)
      : low + Math.round((share * (high - low)) / step) * step;
    this.move({ [name]: clamp(value, low, high) });
  }

  point(event) {
    this.canvas.style.cursor = this.handle(event) ? "ew-resize" : this.painter.isSolid() ? "grab" : "";
    const found = this.painter.under(event, this.readable(), this.reach());
    if (String(found) !== String(this.read)) this.reading(found);
  }

  // ------------------------------------------------------------------ drawing

  later() {
    if (!this.drawing) this.drawing = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    if (!this.size) return;
    this.root.dataset.drawn = String(this.model.get("frame").seq);
    if (!this.drawn) return;
    const look = getComputedStyle(this.root);
    const again = this.painter.paint(look, this.marked, this.resting);
    for (const { painter } of this.pins) if (painter.dirty) painter.paint(look, null);
    if (again && this.inSight !== false && !document.hidden) this.later();
  }
}

// In text mode a view that stands in a box is its words, and follows what code sets.
class Words {
  constructor(model, root) {
    this.model = model;
    const { title, words } = model.get("spec");
    this.words = make("pre", root, { class: "fl-text", role: "group", "aria-label": title, lang: words.language });
    this.onFrame = () => (this.words.textContent = model.get("frame").text);
    model.on("change:frame", this.onFrame);
    this.onFrame();
  }

  remove() {
    this.model.off("change:frame", this.onFrame);
  }
}

export default {
  render({ model, el }) {
    const { as_text, card } = model.get("spec");
    const view = new (as_text ? Words : card === "form" ? Form : Card)(model, el);
    return () => view.remove();
  },
};
