// The form around a question or a guess. Python sends the card as HTML; what a reader presses, types or drags goes back.

const STEP = 10 ** 0.05, PAGE = 10 ** 0.5, REACH = 20; // factors of one key; px around a handle
const SPREAD = 3; // factor between a guess and the ends of its range, before a reader moves them

class Form {
  constructor(model, root) {
    this.model = model;
    this.spec = model.get("spec");
    this.seq = 0;
    this.queue = [];
    this.guess = { low: null, value: null, high: null };
    this.ratios = { low: 1 / SPREAD, high: SPREAD }; // of the ends of the range to the guess
    speak(this.spec);
    const group = { role: "group", "aria-label": this.spec.title, lang: this.spec.words.language, tabindex: "-1" };
    this.root = make("div", root, { class: "fl-live fl-card", ...group });
    this.body = make("div", this.root);
    this.warning = make("p", this.root, { class: "fl-warning", role: "alert", hidden: "" });
    this.voice = make("div", this.root, { class: "fl-voice", "aria-live": "polite" }); // stays, so that it is read
    this.root.addEventListener("click", (event) => this.press(event.target.closest("[data-press]")));
    this.root.addEventListener("change", (event) => this.typed(event.target));
    // A click into a field that is not in use selects its number, as Tab does, so that typing replaces it.
    this.root.addEventListener("pointerdown", ({ target }) => (this.entered = target !== document.activeElement && target));
    this.root.addEventListener("click", ({ target }) => target === this.entered && "read" in target.dataset && this.selectAll(target));
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("pointerdown", (event) => this.grasp(event));
    this.root.addEventListener("pointermove", (event) => this.grip && this.drag(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) this.root.addEventListener(end, () => (this.grip = null));
    this.unwatch = watchTheme(this.root, () => {});
    this.onFrame = () => this.receive();
    model.on("change:frame", this.onFrame);
    this.receive();
  }

  remove() {
    clearTimeout(this.timer);
    this.unwatch();
    this.model.off("change:frame", this.onFrame);
  }

  // ------------------------------------------------------------------ to and from Python

  fields() {
    return Object.fromEntries([...this.body.querySelectorAll("input")].map((input) => [input.name, input.value]));
  }

  // One request at a time; each takes the fields as they are when it leaves, since the answer before may set them.
  send(request) {
    this.queue.push(request);
    this.root.dataset.busy = "yes";
    if (!this.waiting) this.next();
  }

  next() {
    this.waiting = true;
    this.seq = Math.max(this.seq, this.model.get("asked").seq || 0) + 1;
    this.model.set("asked", { seq: this.seq, fields: this.fields(), ...this.queue.shift() });
    this.model.save_changes();
    this.timer = setTimeout(() => this.warn(this.spec.words.silent), PATIENCE);
  }

  receive() {
    const frame = this.model.get("frame");
    if (frame.html !== this.shown) this.fill(frame.html);
    if (frame.read && frame.seq === this.seq) {
      this.reading = frame.read.name;
      this.set(frame.read.name, frame.read.number);
      this.reading = "";
    }
    this.root.dataset.drawn = String(frame.seq);
    if (frame.seq < this.seq) return;
    clearTimeout(this.timer);
    this.warn(frame.problem || "");
    if (this.waiting) this.voice.textContent = frame.said;
    this.waiting = false;
    if (this.queue.length) this.next();
    else delete this.root.dataset.busy;
  }

  warn(text) {
    this.warning.textContent = text;
    this.warning.hidden = !text;
  }

  fill(html) {
    const here = this.body.contains(document.activeElement) && document.activeElement;
    const name = here && (here.dataset.press || here.name);
    this.shown = this.body.innerHTML = html;
    this.describe();
    this.ruler = this.body.querySelector(".fl-ruler[role=group]");
    for (const hand of this.body.querySelectorAll("[data-hand]"))
      this.guess[hand.dataset.hand] = hand.hasAttribute("aria-valuenow") ? Number(hand.getAttribute("aria-valuenow")) : null;
    for (const end of ["low", "high"])
      if (this.guess.value && this.guess[end]) this.ratios[end] = this.guess[end] / this.guess.value;
    this.texts = this.fields(); // as they were last written here, and not by a hand
    this.show();
    if (!here) return;
    const again = [...this.body.querySelectorAll("button, input")].find((node) => (node.dataset.press || node.name) === name);
    if (again && !again.disabled) again.focus();
    else (this.body.querySelector("button:not(:disabled), input") || this.root).focus(); // the keyboard stays in the card
  }

  // A reader who comes into the card by Tab hears the question, too, and not only its name.
  describe() {
    const asked = this.body.querySelector(".fl-asked");
    if (asked) asked.id = this.asked ||= `fl-asked-${Math.random().toString(36).slice(2)}`;
    if (asked) this.root.setAttribute("aria-describedby", this.asked);
    else this.root.removeAttribute("aria-describedby");
  }

  // ------------------------------------------------------------------ what a hand does

  press(button) {
    if (button && !button.disabled) this.send({ press: button.dataset.press });
  }

  typed(input) {
    if (!("read" in input.dataset)) return;
    if (input.value.trim() === "") this.set(input.name, null);
    else this.send({ read: input.name });
  }

  // A range that somebody marked with the pointer stays.
  selectAll(input) {
    if (input.selectionStart === input.selectionEnd) input.select();
  }

  key(event) {
    const types = event.target.name && event.key.length === 1;
    if (event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && !types)) return;
    event.stopPropagation(); // JupyterLab takes single keys as commands, some of which delete cells
    const { target } = event;
    if (target.dataset.hand) return this.slide(event, target.dataset.hand);
    if (target.name && event.key === "Enter") {
      event.preventDefault();
      if (target.dataset.enter) this.send({ press: target.dataset.enter });
      else target.dispatchEvent(new Event("change", { bubbles: true }));
    }
    if (target.name) return;
    const option = this.body.querySelector(`.fl-option[data-press="${CSS.escape(event.key)}"]`);
    if (option) this.press(option);
  }

  slide(event, name) {
    const { low, high } = this.ends(), now = this.guess[name];
    const by = { ArrowRight: STEP, ArrowUp: STEP, ArrowLeft: 1 / STEP, ArrowDown: 1 / STEP, PageUp: PAGE, PageDown: 1 / PAGE }[event.key];
    const moved = low === 0 ? now + (Math.log(by) / Math.log(STEP)) * (high / 100) : now * by; // a linear ruler: one in a hundred
    const to = event.key === "Home" ? low : event.key === "End" ? high : by && clamp(moved, low, high);
    if (to === undefined) return;
    event.preventDefault();
    this.set(name, rounded(to));
  }

  // ------------------------------------------------------------------ a guess on its ruler

  ends() {
    return { low: Number(this.ruler.dataset.low), high: Number(this.ruler.dataset.high) };
  }

  part(value) {
    const { low, high } = this.ends();
    return clamp(low === 0 ? value / high : Math.log(value / low) / Math.log(high / low)); // linear if it begins at 0
  }

  // What follows a guess on the ruler stays on it, too; only a guess that is typed may lie beyond.
  onRuler(value, other) {
    const { low, high } = this.ruler ? this.ends() : { low: 0, high: 0 };
    return value >= low && value <= high ? clamp(other, low, high) : other;
  }

  // The range follows the guess by the same factor; what is moved pushes the others, so the order always holds.
  set(name, value) {
    const was = this.guess, now = { ...was, [name]: value }, first = was.value === null, follow = [];
    if (name === "value" && value !== null)
      for (const end of ["low", "high"])
        if ((now[end] === null) === first) {
          now[end] = this.onRuler(value, this.ratios[end] === 1 ? value : Number((value * this.ratios[end]).toPrecision(first ? 2 : 3)));
          follow.push(end);
        }
    inOrder(now, name);
    if (now.value && (first || name !== "value"))
      for (const end of ["low", "high"]) if (now[end] !== null && !follow.includes(end)) this.ratios[end] = now[end] / now.value;
    this.guess = now;
    for (const input of this.body.querySelectorAll("input[data-read]"))
      if (now[input.name] !== was[input.name] || input.name === name) this.write(input, now[input.name]);
    this.show();
  }

  // A field in which somebody is typing, or whose text waits to be read, is left alone; one that was only entered is
  // selected, so that typing replaces it.
  write(input, value) {
    const here = document.activeElement === input, typing = here && input.value !== (this.texts[input.name] || "");
    const text = value === null ? "" : written(value);
    if (typing && this.reading !== input.name) return;
    if (this.queue.some(({ read }) => read === input.name)) return;
    input.value = this.texts[input.name] = text;
    if (here) input.select();
  }

  show() {
    if (!this.ruler) return;
    const { low, value, high } = this.guess, unit = this.ruler.dataset.unit;
    for (const hand of this.ruler.querySelectorAll("[data-hand]")) {
      const set = this.guess[hand.dataset.hand];
      hand.hidden = set === null;
      if (set === null) continue;
      hand.style.left = `${100 * this.part(set)}%`;
      hand.setAttribute("aria-valuenow", String(set));
      hand.setAttribute("aria-valuetext", `${written(set)} ${unit}`.trim());
    }
    const band = this.ruler.querySelector(".fl-band"), label = this.ruler.querySelector(".fl-label");
    band.hidden = low === null || high === null;
    if (!band.hidden) {
      band.style.left = `${100 * this.part(low)}%`;
      band.style.width = `${100 * (this.part(high) - this.part(low))}%`;
    }
    label.hidden = value === null;
    if (value !== null) {
      label.style.left = `${100 * this.part(value)}%`;
      label.style.transform = `translateX(-${100 * this.part(value)}%)`; // within the card, wherever the guess is
      label.textContent = `${written(value)} ${unit}`.trim();
    }
    this.ruler.querySelector(".fl-hint").hidden = low !== null || value !== null || high !== null;
    this.ruler.classList.toggle("fl-open", value === null);
  }

  place(event) {
    const box = this.ruler.getBoundingClientRect(), { low, high } = this.ends();
    const part = clamp((event.clientX - box.left) / box.width);
    return rounded(low === 0 ? Math.max(part, 1e-3) * high : low * (high / low) ** part);
  }

  // The nearest handle within reach is taken; elsewhere on the ruler a press sets the guess.
  grasp(event) {
    if (!this.ruler || event.button || !event.target.closest(".fl-ruler")) return;
    const box = this.ruler.getBoundingClientRect();
    const hands = [...this.ruler.querySelectorAll("[data-hand]:not([hidden])")].map((hand) => {
      const away = Math.abs(box.left + this.part(this.guess[hand.dataset.hand]) * box.width - event.clientX);
      return { name: hand.dataset.hand, away, best: hand.dataset.hand === "value" };
    });
    hands.sort((a, b) => a.away - b.away || b.best - a.best);
    const near = hands[0] && hands[0].away < REACH;
    this.grip = near ? hands[0].name : "value";
    if (!near) this.set("value", this.place(event));
    this.ruler.setPointerCapture(event.pointerId);
    this.ruler.querySelector(`[data-hand=${this.grip}]`).focus();
    event.preventDefault();
  }

  drag(event) {
    this.set(this.grip, this.place(event));
  }
}

const rounded = (value) => Number(value.toPrecision(2));
const written = (value) => String(Number(value.toPrecision(6))).replace(".", marks.decimal);

// Moves the other numbers out of the way of the one that was set.
function inOrder(now, name) {
  const set = (one, other) => now[one] !== null && now[other] !== null;
  const lift = (one, other) => set(one, other) && (now[other] = Math.max(now[other], now[one]));
  const lower = (one, other) => set(one, other) && (now[other] = Math.min(now[other], now[one]));
  if (name === "low") ["value", "high"].forEach((other) => lift("low", other));
  else if (name === "high") ["value", "low"].forEach((other) => lower("high", other));
  else {
    lower("value", "low");
    lift("value", "high");
  }
}
