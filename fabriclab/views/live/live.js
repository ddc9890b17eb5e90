// Draws the layers that Python sends, and sends back what the reader's hand does. No view is known here by name:
// a layer is boxes, lines, dots, texts or movers, and numbers that have not changed are not sent again.

const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";
const HATCH = { 1: [1], 2: [-1], 3: [1, -1], 4: [0] }; // how the strokes lean
// Squares, triangles and diamonds; four further they are open.
const CORNERS = {
  3: [[-1, -1], [1, -1], [1, 1], [-1, 1]], 4: [[0, -1.2], [1.2, 1], [-1.2, 1]],
  5: [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]], 6: [[0, 1.2], [1.2, -1], [-1.2, -1]],
};
const PATIENCE = 3000, MOVE = 650, BEAT = 1000, GRIP = 14, LEAST = 560; // in a narrower picture texts would meet

function make(tag, into, attributes = {}, text = "") {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  into.append(node);
  return node;
}

// The number that a layer holds for item i: one for all, or one each.
const at = (field, i, otherwise = 0) =>
  field === undefined ? otherwise : typeof field === "number" ? field : field[Math.min(i, field.length - 1)];

class View {
  constructor(model, root) {
    this.model = model;
    this.spec = model.get("spec");
    this.layers = new Map();
    this.read = null; // the item that the reader points at: [layer, number]
    this.seq = 0;
    this.still = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.root = make("div", root, { class: "fl-live", role: "group", "aria-label": this.spec.title });
    this.build();
    this.values = { ...model.get("asked").values };
    this.presses = []; // each with the values that stood on the page when it was pressed
    this.onFrame = () => this.receive();
    model.on("change:frame", this.onFrame);
    this.sized = new ResizeObserver(() => this.later());
    this.sized.observe(this.frame);
    if (model.get("frame").whole) this.receive();
    else this.send({ whole: true });
  }

  remove() {
    clearTimeout(this.timer);
    clearInterval(this.player);
    this.sized.disconnect();
    this.model.off("change:frame", this.onFrame);
  }

  // ------------------------------------------------------------------ the page around the picture

  build() {
    const words = this.spec.words;
    // JupyterLab takes single keys as commands, some of which delete cells: what is typed in a view stays in it.
    this.root.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) event.stopPropagation();
    });
    this.frame = make("div", this.root, { class: "fl-frame" });
    this.canvas = make("canvas", this.frame, { class: "fl-canvas", role: "application", tabindex: "0" });
    this.pen = this.canvas.getContext("2d");
    this.wider = make("p", this.root, { class: "fl-wider", hidden: "" }, words.wider);
    this.said = make("p", this.root, { class: "fl-said", "aria-live": "polite" });
    this.hint = make("p", this.root, { class: "fl-hint", "aria-live": "polite" });
    this.warning = make("p", this.root, { class: "fl-said fl-wrong", role: "alert", hidden: "" });
    this.panel = make("div", this.root, { class: "fl-controls" });
    this.buildControls();
    this.table = make("details", this.root, { class: "fl-table" });
    make("summary", this.table, {}, words.numbers);
    this.cells = make("div", this.table);
    this.table.addEventListener("toggle", () => this.table.open && this.send({ table: true }));
    if (this.spec.listed) {
      const list = make("details", this.root, { class: "fl-table" });
      make("summary", list, {}, words.list);
      make("pre", list, { tabindex: "0" }, this.spec.listed);
    }
    this.code = make("code", make("div", this.root, { class: "fl-code" }));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointermove", (event) => (this.grip ? this.drag(event) : this.point(event)));
    this.canvas.addEventListener("pointerdown", (event) => this.grasp(event));
    this.canvas.addEventListener("lostpointercapture", () => (this.grip = null)); // let go, or cancelled
    this.canvas.addEventListener("pointerleave", () => this.reading(null));
    this.canvas.addEventListener("click", () => this.pick());
  }

  buildControls() {
    const words = this.spec.words;
    this.panel.replaceChildren();
    this.inputs = {};
    this.spec.controls.forEach((control) => {
      const box = make("div", this.panel, { class: "fl-control" });
      const id = `fl-${control.name}-${Math.random().toString(36).slice(2)}`;
      make("label", box, { for: id }, control.label);
      if (control.options) this.inputs[control.name] = this.choice(box, id, control);
      else this.inputs[control.name] = this.slider(box, id, control);
      if (control.play) this.buildPlayer(box, control);
    });
    const row = make("div", this.panel, { class: "fl-buttons" });
    for (const button of this.spec.buttons)
      make("button", row, { type: "button", "data-press": button.name }, button.label)
        .addEventListener("click", () => this.send({ press: button.name }));
    if (this.spec.controls.length && this.spec.reset)
      make("button", row, { type: "button", "data-press": "reset" }, words.reset)
        .addEventListener("click", () => {
          this.stop?.();
          this.move({ ...this.spec.start });
          this.moved = false;
        });
  }

  choice(box, id, control) {
    const select = make("select", box, { id, "data-control": control.name });
    control.options.forEach((option) => make("option", select, { value: String(option) }, String(option)));
    select.addEventListener("change", () => this.move({ [control.name]: control.options[select.selectedIndex] }));
    return (value) => (select.selectedIndex = control.options.indexOf(value));
  }

  slider(box, id, control) {
    const to = (v) => (control.log ? Math.log10(v) : v), from = (v) => (control.log ? 10 ** v : v);
    const step = control.log ? (to(control.high) - to(control.low)) / 100 : control.step;
    const range = { type: "range", min: to(control.low), max: to(control.high), step, "data-control": control.name };
    const rail = make("input", box, { id, ...range });
    const limits = { type: "number", min: control.low, max: control.high, step: control.log ? "any" : control.step };
    const field = make("input", box, { ...limits, "aria-label": `${control.label}: ${this.spec.words.field}` });
    if (control.unit) make("span", box, { class: "fl-unit" }, control.unit);
    const read = (text) => {
      const value = Number(text), kept = Math.min(Math.max(value, control.low), control.high);
      if (text === "" || !Number.isFinite(value)) return;
      if (this.beyond && value === this.values[control.name]) return; // Enter is heard twice, its sentence stays
      this.move({ [control.name]: kept }, kept === value ? "" : control.beyond);
    };
    // A logarithmic rail gives three digits, which is what the field shows; its ends are exact.
    const value = () => rail.value === rail.min ? control.low : rail.value === rail.max ? control.high
      : control.log ? Number(from(Number(rail.value)).toPrecision(3)) : Number(rail.value);
    rail.addEventListener("input", () => read(value()));
    field.addEventListener("input", () => (this.moved ||= field.value !== "")); // the same number is no change
    field.addEventListener("change", () => read(field.value));
    field.addEventListener("keydown", (event) => event.key === "Enter" && read(field.value));
    return (value) => {
      rail.value = to(value);
      rail.setAttribute("aria-valuetext", `${value} ${control.unit || ""}`.trim());
      if (document.activeElement !== field || Number(field.value) !== value) field.value = value;
    };
  }

  buildPlayer(box, control) {
    const words = this.spec.words, row = make("span", box, { class: "fl-player" });
    const go = (by) => {
      const now = this.values[control.name];
      const next = control.log ? Number((now * 1.25 ** by).toPrecision(3)) : now + by * control.step;
      if (by > 0 ? now >= control.high : now <= control.low) return false;
      this.move({ [control.name]: Math.min(Math.max(next, control.low), control.high) });
      return true;
    };
    const button = (name, press) => {
      const node = make("button", row, { type: "button", "data-press": name }, words[name]);
      node.addEventListener("click", press);
      return node;
    };
    const stop = this.stop = () => {
      clearInterval(this.player);
      this.player = null;
      play.textContent = words.play;
    };
    button("back", () => { stop(); go(-1); });
    button("forward", () => { stop(); go(1); });
    const play = button("play", () => {
      if (this.player) return stop();
      if (this.values[control.name] >= control.high) this.move({ [control.name]: control.low });
      play.textContent = words.pause;
      const beat = () => this.waiting || (!this.model.get("frame").wrong && go(1)) || stop();
      this.player = setInterval(beat, BEAT);
    });
  }

  // ------------------------------------------------------------------ to and from Python

  move(changed, beyond = "") {
    this.moved = true;
    this.beyond = beyond; // says that the value was outside its range
    if (beyond) this.warn(beyond);
    Object.assign(this.values, changed);
    for (const [name, show] of Object.entries(this.inputs)) show(this.values[name]);
    this.send({});
  }

  // One question at a time: while Python works, newer values wait here, and only the last of them is sent.
  // A press is never dropped.
  send({ press, ...more }) {
    if (press) this.presses.push({ press, values: { ...this.values }, moved: this.moved });
    else this.wanted = { ...this.wanted, ...more };
    this.root.dataset.busy = "yes";
    if (this.waiting) return;
    this.waiting = true;
    this.seq = Math.max(this.seq, this.model.get("asked").seq) + 1;
    const next = this.presses.shift() || { values: { ...this.values }, moved: this.moved, ...this.wanted };
    if (!next.press) this.wanted = null;
    this.model.set("asked", { seq: this.seq, ...next });
    this.model.save_changes();
    this.timer = setTimeout(() => this.warn(this.spec.words.silent), PATIENCE);
  }

  receive() {
    const frame = this.model.get("frame");
    if (!frame.whole && !this.known) return this.waiting || this.send({ whole: true });
    this.known = true;
    this.merge(frame); // every one, since the next says what has not changed since
    this.say(frame);
    this.code.textContent = frame.code;
    this.canvas.setAttribute("aria-label", frame.alt);
    const left = !frame.height && document.activeElement === this.canvas;
    this.canvas.hidden = !frame.height;
    if (left) { // the keyboard stays in the view
      this.root.tabIndex = -1;
      this.root.focus();
    }
    this.table.hidden = !frame.counted;
    if (!frame.height && frame.counted) this.table.open = true; // then the table is the view
    if (frame.table !== undefined) this.cells.innerHTML = frame.table;
    this.size = [frame.width, frame.height];
    // A finger on a picture with a handle moves the handle, not the page sideways.
    this.canvas.style.touchAction = [...this.layers.values()].some((layer) => layer.drag) ? "pan-y" : "";
    this.reading(this.read);
    this.begun = frame.moves && !this.still.matches ? performance.now() : 0;
    this.draw();
    if (frame.seq < this.seq) return; // an answer to somebody else: ours is still to come
    clearTimeout(this.timer);
    this.warn(this.beyond || "");
    this.waiting = false;
    if (frame.table === undefined && this.table.open && !this.wanted) this.wanted = { table: true };
    if (this.wanted || this.presses.length) return this.send({});
    delete this.root.dataset.busy;
    this.values = { ...frame.values };
    for (const [name, show] of Object.entries(this.inputs)) show(this.values[name]);
  }

  merge(frame) {
    const bytes = this.model.get("numbers");
    const whole = bytes?.byteLength ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) : null;
    let held = this.layers, at = 0; // where in the numbers the next array begins
    this.layers = new Map();
    for (const { id, kind, fields, arrays, same } of frame.layers) {
      const old = held.get(id) || {}, layer = { kind, ...fields };
      for (const name of same) layer[name] = old[name];
      for (const [name, count] of arrays)
        layer[name] = new Float32Array(whole ? whole.slice(4 * at, 4 * (at += count)).buffer : 0);
      this.layers.set(id, layer);
    }
  }

  // Above a picture stands its finding; a form has a question, and below it the verdict on an answer.
  say({ said, wrong, verdict, height, counted }) {
    const judged = typeof verdict === "number";
    this.said.replaceChildren();
    said.split("\n").forEach((line, i) => {
      const kind = i !== verdict ? "" : wrong ? "fl-verdict fl-not-yet" : "fl-verdict fl-right";
      make("span", this.said, { class: kind }, line);
    });
    this.said.classList.toggle("fl-wrong", Boolean(wrong) && !judged);
    this.said.classList.toggle("fl-plain", judged || !(wrong || height || counted));
  }

  warn(text) {
    this.warning.textContent = text;
    this.warning.hidden = !text;
  }

  tell(text) {
    this.hint.textContent = text;
  }

  // ------------------------------------------------------------------ reading single items

  readable() {
    return [...this.layers.values()].filter((layer) => layer.names);
  }

  reading(item) {
    this.read = item;
    const layer = item && this.readable()[item[0]];
    if (!layer || item[1] >= layer.names.length) this.read = null;
    else {
      const note = layer.notes ? `: ${layer.notes[item[1]]}` : "";
      this.tell(layer.names[item[1]] + note);
    }
    if (!this.read) this.tell(this.readable().length ? this.spec.words.keys : "");
    this.later();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
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

  pick() {
    const layer = this.read && this.readable()[this.read[0]];
    if (layer && layer.pick) this.move({ [layer.pick]: layer.picks[this.read[1]] });
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect(), scale = this.size[0] / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  // A dot that is moved by hand: the control that it stands for, and where the ends of that control are.
  handle(x, y) {
    for (const { drag, drag_ends, x: xs, y: ys } of this.layers.values())
      for (const [i, name] of (drag || []).entries())
        if (name && Math.hypot(xs[i] - x, ys[i] - y) < GRIP) return { name, ends: drag_ends };
    return null;
  }

  grasp(event) {
    this.grip = event.button ? null : this.handle(...this.place(event));
    if (!this.grip) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.reading(null);
  }

  drag(event) {
    const { name, ends: [from, to] } = this.grip;
    const { low, high, log, step } = this.spec.controls.find((control) => control.name === name);
    const share = Math.min(Math.max((this.place(event)[0] - from) / (to - from), 0), 1);
    const value = log ? Number((low * (high / low) ** share).toPrecision(3))
      : low + Math.round((share * (high - low)) / step) * step;
    this.move({ [name]: Math.min(Math.max(value, low), high) });
  }

  point(event) {
    const [x, y] = this.place(event);
    this.canvas.style.cursor = this.handle(x, y) ? "ew-resize" : "";
    let best = 8, found = null;
    this.readable().forEach((layer, k) => {
      for (let i = 0; i < layer.names.length; i++) {
        const far = layer.kind === "lines" ? this.toLine(layer, i, x, y)
          : layer.kind === "dots" ? Math.hypot(layer.x[i] - x, layer.y[i] - y) - 3
          : layer.kind === "boxes" ? this.toBox(layer, i, x, y) : Infinity;
        if (far < best) [best, found] = [far, [k, i]];
      }
    });
    if (String(found) !== String(this.read)) this.reading(found);
  }

  toBox(layer, i, x, y) {
    const dx = Math.max(layer.x[i] - x, 0, x - layer.x[i] - layer.w[i]);
    const dy = Math.max(layer.y[i] - y, 0, y - layer.y[i] - layer.h[i]);
    return Math.hypot(dx, dy) - 0.5; // a box wins over a line beside it
  }

  toLine({ ptr, x: xs, y: ys }, i, x, y) {
    let best = Infinity;
    for (let k = ptr[i]; k + 1 < ptr[i + 1]; k++) {
      const dx = xs[k + 1] - xs[k], dy = ys[k + 1] - ys[k], long = dx * dx + dy * dy || 1;
      const t = Math.min(1, Math.max(0, ((x - xs[k]) * dx + (y - ys[k]) * dy) / long));
      best = Math.min(best, Math.hypot(xs[k] + t * dx - x, ys[k] + t * dy - y));
    }
    return best;
  }

  // ------------------------------------------------------------------ drawing

  later() {
    if (!this.drawing) this.drawing = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    this.root.dataset.drawn = String(this.model.get("frame").seq);
    const room = this.frame.clientWidth, ratio = window.devicePixelRatio || 1, wide = Math.max(room, LEAST);
    this.wider.hidden = !this.size?.[1] || room >= LEAST;
    if (!this.size?.[1]) return;
    const scale = Math.min(wide / this.size[0], 1.25);
    const [w, h] = [this.size[0] * scale, this.size[1] * scale];
    if (this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(h * ratio)) {
      this.canvas.width = Math.round(w * ratio);
      this.canvas.height = Math.round(h * ratio);
      this.canvas.style.width = `${w}px`;
      this.canvas.style.height = `${h}px`;
    }
    const look = getComputedStyle(this.root);
    this.ink = look.color;
    this.textScale = Math.max(1, 1 / scale); // text never gets smaller than it was designed
    const pen = this.pen;
    pen.setTransform(ratio * scale, 0, 0, ratio * scale, 0, 0);
    pen.clearRect(0, 0, this.size[0], this.size[1]);
    const gone = this.begun ? Math.min(1, (performance.now() - this.begun) / MOVE) : 1;
    for (const layer of this.layers.values()) this[`draw_${layer.kind}`](layer, gone * gone * (3 - 2 * gone));
    if (this.read) this.mark(this.readable()[this.read[0]], this.read[1]);
    if (gone < 1) this.later();
    else this.begun = 0;
  }

  colour(number) {
    return number ? this.spec.palette[Math.round(number)] : this.ink;
  }

  draw_lines({ ptr, x, y, width, colour, dash, alpha }) {
    const pen = this.pen;
    pen.lineJoin = "round";
    for (let i = 0; i + 1 < ptr.length; i++) {
      if (ptr[i + 1] - ptr[i] < 2) continue;
      pen.beginPath();
      pen.moveTo(x[ptr[i]], y[ptr[i]]);
      for (let k = ptr[i] + 1; k < ptr[i + 1]; k++) pen.lineTo(x[k], y[k]);
      pen.lineWidth = at(width, i, 1.5);
      pen.strokeStyle = this.colour(at(colour, i));
      pen.globalAlpha = at(alpha, i, 1);
      pen.setLineDash(this.spec.dashes[at(dash, i)]);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  draw_boxes({ x, y, w, h, colour, edge, alpha, hatch, round, texts, ink }) {
    const pen = this.pen;
    for (let i = 0; i < x.length; i++) {
      pen.beginPath();
      pen.roundRect(x[i], y[i], w[i], h[i], Math.min(at(round, i, 3), w[i] / 2, h[i] / 2));
      pen.globalAlpha = at(alpha, i, 1);
      if (at(colour, i) >= 0) {
        pen.fillStyle = this.colour(at(colour, i));
        pen.fill();
      }
      pen.globalAlpha = 1;
      if (at(hatch, i)) this.hatch(HATCH[at(hatch, i)], x[i], y[i], w[i], h[i]);
      if (at(edge, i)) {
        pen.strokeStyle = at(edge, i) < 0 ? this.ink : this.colour(at(edge, i));
        pen.lineWidth = 1.2;
        pen.stroke();
      }
    }
    if (texts) this.draw_texts({
      x: x.map((v, i) => v + w[i] / 2), y: y.map((v, i) => v + h[i] / 2), texts, align: 1, colour: ink, room: w,
    });
  }

  hatch(ways, x, y, w, h) {
    const pen = this.pen;
    pen.save();
    pen.clip();
    pen.strokeStyle = this.ink;
    pen.lineWidth = 0.8;
    pen.beginPath();
    for (const way of ways)
      for (let k = x - h; k < x + w + h; k += 6) {
        pen.moveTo(k, y + (way > 0 ? h : 0));
        pen.lineTo(k + h * Math.abs(way), y + (way > 0 ? 0 : h));
      }
    pen.stroke();
    pen.restore();
    pen.beginPath();
    pen.roundRect(x, y, w, h, 2);
  }

  draw_dots({ x, y, size, colour, shape }) {
    const pen = this.pen;
    for (let i = 0; i < x.length; i++) {
      const r = at(size, i, 4), kind = at(shape, i), corners = CORNERS[kind > 6 ? kind - 4 : kind];
      pen.beginPath();
      if (kind === 2) { // a cross
        pen.moveTo(x[i] - r, y[i] - r); pen.lineTo(x[i] + r, y[i] + r);
        pen.moveTo(x[i] - r, y[i] + r); pen.lineTo(x[i] + r, y[i] - r);
      } else if (corners) {
        for (const [dx, dy] of corners) pen.lineTo(x[i] + r * dx, y[i] + r * dy);
        pen.closePath();
      } else pen.arc(x[i], y[i], r, 0, 7);
      pen.fillStyle = pen.strokeStyle = this.colour(at(colour, i));
      pen.lineWidth = kind === 2 ? 3 : 1.5;
      if (kind === 0 || (kind > 2 && kind < 7)) { // full ones have an edge in ink: orange alone is pale on white
        pen.fill();
        pen.strokeStyle = this.colour(0);
        pen.lineWidth = 0.7;
      }
      pen.stroke();
    }
  }

  draw_texts({ x, y, texts, align, size, bold, colour, room }) {
    const pen = this.pen;
    pen.textBaseline = "middle";
    for (let i = 0; i < texts.length; i++) {
      pen.font = `${at(bold, i) ? "bold " : ""}${at(size, i, 12) * this.textScale}px ${FONT}`;
      if (room && pen.measureText(texts[i]).width > room[i] - 2) continue;
      pen.textAlign = ["left", "center", "right"][at(align, i)];
      pen.fillStyle = this.colour(at(colour, i));
      pen.fillText(texts[i], x[i], y[i]);
    }
  }

  // Chunks on their way: a box that follows its line while time runs from 0 to 1.
  draw_movers({ ptr, x, y, w, h, colour, texts }, time) {
    const pen = this.pen;
    for (let i = 0; i + 1 < ptr.length; i++) {
      let long = 0;
      for (let k = ptr[i]; k + 1 < ptr[i + 1]; k++) long += Math.hypot(x[k + 1] - x[k], y[k + 1] - y[k]);
      let left = long * time, k = ptr[i];
      for (; k + 2 < ptr[i + 1]; k++) {
        const part = Math.hypot(x[k + 1] - x[k], y[k + 1] - y[k]);
        if (part >= left) break;
        left -= part;
      }
      const part = Math.hypot(x[k + 1] - x[k], y[k + 1] - y[k]) || 1;
      const cx = x[k] + ((x[k + 1] - x[k]) * left) / part, cy = y[k] + ((y[k + 1] - y[k]) * left) / part;
      pen.fillStyle = this.colour(at(colour, i));
      pen.strokeStyle = this.ink;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.roundRect(cx - w / 2, cy - h / 2, w, h, 3);
      pen.fill();
      pen.stroke();
      if (texts) this.draw_texts({ x: [cx], y: [cy], texts: [texts[i]], align: 1, colour: this.spec.white });
    }
  }

  mark(layer, i) {
    const pen = this.pen;
    pen.strokeStyle = this.ink;
    pen.lineWidth = 3;
    pen.beginPath();
    if (layer.kind === "boxes") pen.rect(layer.x[i] - 2, layer.y[i] - 2, layer.w[i] + 4, layer.h[i] + 4);
    else if (layer.kind === "dots") pen.arc(layer.x[i], layer.y[i], 9, 0, 7);
    else
      for (let k = layer.ptr[i]; k < layer.ptr[i + 1]; k++)
        k === layer.ptr[i] ? pen.moveTo(layer.x[k], layer.y[k]) : pen.lineTo(layer.x[k], layer.y[k]);
    pen.stroke();
  }
}

// In text mode a view that stands in a box is its words, and follows what code sets.
class Words {
  constructor(model, root) {
    this.model = model;
    this.words = make("pre", root, { class: "fl-live fl-text", role: "group", "aria-label": model.get("spec").title });
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
    const view = new (model.get("spec").as_text ? Words : View)(model, el);
    return () => view.remove();
  },
};
