// Paints the layers of a scene on a canvas. No view is known here by name: a layer is boxes, lines, dots, texts or
// movers, with the fields that scene.py describes, and a colour is a place in the palette, which has two themes.

const HATCH = { 1: [1], 2: [-1], 3: [1, -1], 4: [0] }; // how the strokes lean
// Squares, triangles and diamonds; four further they are open.
const CORNERS = {
  3: [[-1, -1], [1, -1], [1, 1], [-1, 1]], 4: [[0, -1.2], [1.2, 1], [-1.2, 1]],
  5: [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]], 6: [[0, 1.2], [1.2, -1], [-1.2, -1]],
};
const MOVE = 650, GLIDE = 400; // ms
const LANDED = 0.9; // of the way: then what the movers cause is shown
// How far a picture is made smaller or larger, and on a full screen. Texts keep their size, but on a full screen, which
// is looked at from farther away, they grow with the picture.
const LEAST = 0.8, MOST = 1.6, FULL = 3;
// px; strokes up to this width keep it, as texts keep their size, however large the picture is: what grows is the room
// between them. What is wider is an area.
const STROKE = 8;
const CLEAR = 4; // px; what a box must have beyond the words in it, left and right together
const BEHIND = 0.55; // of its width a cable in use has that lies furthest behind in a solid
const GLIDING = ["x", "y", "z", "w", "h", "size", "width"];
const MOST_PACKETS = 1500;
const TINY = 1.3, MANY = 200; // px; packets on more than so many thinner lines are tiny
const BEAD = 4, RING = 2.7, HOLE = 1.4; // px; on a thinner line than that a packet is a ring of these two radii
const AREA = 0.18; // how much colour an area below a line has
const AWAY = 0.15; // how much is left of what has nothing to do with the item that is read
const REACHED = 8; // px from a pointer to the item that it reads

const clamp = (value, low = 0, high = 1) => Math.min(high, Math.max(low, value));
const ease = (t) => t * t * (3 - 2 * t);

// The number that a layer holds for item i: one for all, or one each.
const at = (field, i, otherwise = 0) =>
  field === undefined ? otherwise : typeof field === "number" ? field : field[Math.min(i, field.length - 1)];

// Follow a path (points x and y from k to end) for a length, and return where that leads.
function along({ x, y }, k, end, length) {
  for (; k + 1 < end; k++) {
    const part = Math.hypot(x[k + 1] - x[k], y[k + 1] - y[k]);
    if (part >= length || k + 2 >= end) {
      const t = part ? length / part : 0;
      return [x[k] + (x[k + 1] - x[k]) * t, y[k] + (y[k + 1] - y[k]) * t];
    }
    length -= part;
  }
  return [x[k], y[k]];
}

function lengthOf({ x, y }, k, end) {
  let length = 0;
  for (; k + 1 < end; k++) length += Math.hypot(x[k + 1] - x[k], y[k + 1] - y[k]);
  return length;
}

class Painter {
  constructor(canvas, spec) {
    this.canvas = canvas;
    this.spec = spec;
    this.dark = false;
    this.still = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.layers = new Map();
    this.former = new Map(); // layers as they were before the reader's hand moved a control
    this.turn = [...spec.turn];
    this.focus = -1; // the item that is read, where all others recede
    this.sheets = [document.createElement("canvas"), document.createElement("canvas")];
  }

  // ---------------------------------------------------------------- what is shown

  show(layers, panels, moves) {
    const before = this.layers, now = performance.now();
    this.layers = layers;
    this.panels = panels;
    this.begun = moves && !this.still.matches ? now : 0;
    this.glided = 0;
    for (const [id, layer] of layers) {
      const old = before.get(id);
      layer.from = null;
      layer.before = null;
      if (!old || old === layer || old.kind !== layer.kind || this.still.matches) continue;
      if (layer.late && moves) layer.before = { ...old, before: null };
      if (layer.glide && old.x?.length === layer.x?.length) {
        layer.from = { ...this.between(old, now), from: null, before: null };
        layer.since = this.glided = now;
      }
    }
    this.packets = null;
    this.dirty = true;
  }

  get dashed() {
    return { colour: this.spec.colours.edge, width: 1.2, dash: 4, alpha: 1, strong: 0 };
  }

  // Keep what is drawn now as a ghost, as a hand begins to move a control.
  remember() {
    this.former = new Map([...this.layers].filter(([, layer]) => layer.ghost));
  }

  forget() {
    this.former = new Map();
    this.dirty = true;
  }

  // Ends the way of all layers to their new places: the next frame shows them there.
  land() {
    for (const layer of this.layers.values()) layer.from = null;
    this.glided = 0;
    this.dirty = true;
  }

  // A layer on its way from its former places to its new ones.
  between(layer, now) {
    const t = layer.from ? clamp((now - layer.since) / GLIDE) : 1;
    if (t >= 1) return layer;
    const out = { ...layer };
    for (const name of GLIDING) {
      const to = layer[name], from = layer.from[name];
      if (to?.length && from?.length === to.length) out[name] = to.map((v, i) => from[i] + (v - from[i]) * ease(t));
    }
    return out;
  }

  // ---------------------------------------------------------------- where it is shown

  // Two panels stand side by side if there is room, and else one below the other.
  fit(room, tall, most = MOST) {
    const [main, side] = this.panels;
    const wide = main.width + (side ? side.width : 0);
    this.beside = !side || room >= LEAST * wide;
    const w = this.beside ? wide : Math.max(main.width, side.width);
    const h = this.beside ? Math.max(main.height, side ? side.height : 0) : main.height + side.height + 16;
    this.size = [w, h];
    this.scale = clamp(Math.min(room / w, this.beside ? tall / h : MOST), LEAST, most);
    this.letters = most > MOST ? Math.max(1, this.scale) : 1; // how much larger texts are than usual
    this.thin = this.letters / Math.max(1, this.scale); // of its width a stroke has in the picture's own pixels
    this.places = [[0, 0], !side ? [0, 0] : this.beside ? [main.width, 0] : [0, main.height + 16]];
    const ratio = window.devicePixelRatio || 1;
    this.pixels = this.scale * ratio;
    const [across, down] = [Math.round(w * this.pixels), Math.round(h * this.pixels)];
    if (this.canvas.width !== across || this.canvas.height !== down)
      for (const sheet of [this.canvas, ...this.sheets]) [sheet.width, sheet.height] = [across, down];
    // Whole pixels of the screen, or the browser would smooth all lines and letters to another size.
    this.canvas.style.width = `${across / ratio}px`;
    this.canvas.style.height = `${down / ratio}px`;
    this.dirty = true;
    return this.wider = w * this.scale > room + 1;
  }

  // From a place in the window to a place in a panel of the picture.
  place(event, panel = 0) {
    const box = this.canvas.getBoundingClientRect(), [dx, dy] = this.places[panel];
    return [(event.clientX - box.left) / this.scale - dx, (event.clientY - box.top) / this.scale - dy];
  }

  // ---------------------------------------------------------------- one frame

  // Draws, and returns whether the next frame will differ from this one. While they rest, packets stand still.
  paint(look, read, resting = 0) {
    const now = performance.now();
    [this.ink, this.paper, this.font] = [look.color, look.backgroundColor, look.fontFamily];
    const gone = this.begun ? clamp((now - this.begun) / MOVE) : 1;
    const gliding = this.glided && now - this.glided < GLIDE + 20;
    const flows = !this.still.matches && [...this.layers.values()].some((layer) => layer.flow);
    const all = this.dirty || gone < 1 || this.wasStepping || read !== this.wasRead;
    const panels = all ? [...this.panels.keys()] : gliding || this.wasGliding ? this.gliding() : [];
    if (panels.length) {
      this.focus = read && read[0].focus ? read[1] : -1;
      this.sheet(0, panels, now, gone, flows);
      this.sheet(1, panels, now, gone, flows, read);
    }
    [this.dirty, this.wasGliding, this.wasStepping, this.wasRead] = [false, gliding, gone < 1, read];
    const pen = this.pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.sheets[0], 0, 0);
    if (!resting) this.clock = now;
    if (flows) this.flows(this.clock);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(this.sheets[1], 0, 0);
    if (gone >= 1) this.begun = 0;
    return (flows && !resting) || gliding || gone < 1;
  }

  // Panels with a layer on its way; the others need not be drawn again.
  gliding() {
    return [...this.panels.keys()].filter((number) =>
      [...this.layers.values()].some((layer) => layer.from && (layer.panel || 0) === number));
  }

  // The picture lies on two sheets, so that packets can run on top of the first and behind the second.
  sheet(which, panels, now, gone, flows, read) {
    const pen = this.pen = this.sheets[which].getContext("2d");
    this.wipe(panels);
    const every = [...this.layers];
    const last = flows ? every.findLastIndex(([, layer]) => layer.flow) : every.length - 1;
    const [first, end] = which ? [last + 1, every.length] : [0, last + 1];
    const drawn = every.slice(first, end).filter(([, layer]) => panels.includes(layer.panel || 0));
    if (!which && panels.includes(1)) this.divide();
    for (const [id] of drawn)
      if (this.former.has(id) && !this.layers.get(id)?.z) this.inPanel(this.former.get(id), (layer) => this.ghost(layer, this.layers.get(id)));
    const solid = drawn.filter(([, layer]) => layer.z);
    const before = solid.filter(([id, layer]) => this.former.has(id) && this.former.get(id) !== layer)
      .map(([id]) => ({ ...this.former.get(id), names: null, ...this.dashed }));
    if (solid.length) this.inPanel(solid[0][1], () => this.solid([...before, ...solid.map(([, layer]) => this.between(layer, now))]));
    for (const [, layer] of drawn)
      if (!layer.z) {
        const shown = layer.before && gone < LANDED ? layer.before : this.between(layer, now);
        this.inPanel(shown, () => this[`draw_${layer.kind}`](shown, ease(gone)));
      }
    if (read && this.focus < 0) this.inPanel(read[0], () => this.mark(read[0], read[1]));
  }

  // Whole pixels belong to one panel, and the line between two panels to the second.
  wipe(panels) {
    const pen = this.pen, { width, height } = this.canvas, two = this.panels.length > 1;
    const pixel = (number) => this.places[number].map((v) => Math.floor(v * this.pixels));
    pen.setTransform(1, 0, 0, 1, 0, 0);
    for (const number of panels) {
      const [left, top] = pixel(number), [right, bottom] = two && !number ? pixel(1) : [0, 0];
      pen.clearRect(left, top, (right || width) - left, (bottom || height) - top);
    }
  }

  inPanel(layer, draw) {
    const [dx, dy] = this.places[layer.panel || 0], k = this.pixels;
    this.within = this.panels[layer.panel || 0].width;
    this.pen.setTransform(k, 0, 0, k, dx * k, dy * k);
    draw(layer);
  }

  divide() {
    const [main, side] = this.panels, pen = this.pen, k = this.pixels;
    if (!side || !this.beside) return;
    pen.setTransform(k, 0, 0, k, 0, 0);
    pen.fillStyle = this.named("line");
    pen.fillRect(main.width, 0, 1 / this.scale, this.size[1]);
  }

  // ---------------------------------------------------------------- colours

  colour(number) {
    return number ? this.spec.palette[Math.round(number)][this.dark ? 1 : 0] : this.ink;
  }

  named(name) {
    return this.colour(this.spec.colours[name]);
  }

  // ---------------------------------------------------------------- kinds of layers

  // Whether an item has nothing to do with the one that is read, and so recedes: its a and b are other numbers.
  recedes({ a, b, panel }, i) {
    return this.focus >= 0 && a !== undefined && !panel && at(a, i) !== this.focus && at(b, i, -1) !== this.focus;
  }

  stroke(wide) {
    return wide > STROKE ? wide : wide * this.thin;
  }

  path({ ptr, x, y }, i) {
    this.pen.beginPath();
    for (let k = ptr[i]; k < ptr[i + 1]; k++) this.pen.lineTo(x[k], y[k]);
  }

  draw_lines(layer) {
    const { ptr, width, colour, dash, alpha, form, area } = layer, pen = this.pen;
    pen.lineJoin = "round";
    for (let i = 0; i + 1 < ptr.length; i++) {
      if (ptr[i + 1] - ptr[i] < 2) continue;
      if (area !== undefined) { // from the line down to a height
        this.path(layer, i);
        pen.lineTo(layer.x[ptr[i + 1] - 1], area);
        pen.lineTo(layer.x[ptr[i]], area);
        pen.fillStyle = this.colour(at(colour, i));
        pen.globalAlpha = AREA;
        pen.fill();
      }
      const wide = layer.grows ? at(width, i, 1.5) : this.stroke(at(width, i, 1.5)), state = at(form, i);
      const away = this.recedes(layer, i), close = !away && this.focus >= 0 && layer.b !== undefined;
      this.path(layer, i);
      pen.lineWidth = close ? wide + this.thin : wide;
      pen.strokeStyle = this.colour(at(colour, i));
      pen.globalAlpha = away ? AWAY * at(alpha, i, 1) : close ? 1 : at(alpha, i, 1);
      pen.setLineDash(state === 3 ? [1.2, 3] : this.spec.dashes[at(dash, i)]);
      pen.stroke();
      if (state === 1) { // two rails
        pen.lineWidth = wide / 3;
        pen.strokeStyle = this.paper;
        pen.stroke();
      } else if (state === 2) this.broken(layer, i);
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  // A gap in the middle of a line, and a cross in it.
  broken(layer, i) {
    const pen = this.pen, [from, end] = [layer.ptr[i], layer.ptr[i + 1]], r = 4.5;
    const [x, y] = along(layer, from, end, lengthOf(layer, from, end) / 2);
    pen.beginPath();
    pen.arc(x, y, 9, 0, 7);
    pen.fillStyle = this.paper;
    pen.fill();
    pen.setLineDash([]);
    pen.lineWidth = 2 * this.thin;
    pen.beginPath();
    pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r);
    pen.moveTo(x - r, y + r); pen.lineTo(x + r, y - r);
    pen.stroke();
  }

  draw_boxes({ x, y, w, h, colour, edge, alpha, hatch, round, texts, ink, size }) {
    const pen = this.pen;
    for (let i = 0; i < x.length; i++) {
      pen.beginPath();
      pen.roundRect(x[i], y[i], w[i], h[i], clamp(at(round, i, 3), 0, Math.min(w[i], h[i]) / 2));
      pen.globalAlpha = at(alpha, i, 1);
      if (at(colour, i) >= 0) {
        pen.fillStyle = this.colour(at(colour, i));
        pen.fill();
      }
      pen.globalAlpha = 1;
      if (at(hatch, i)) this.hatch(at(hatch, i), x[i], y[i], w[i], h[i], at(round, i, 3));
      if (at(edge, i, -1) >= 0) { // as with the area, below 0 is none
        pen.strokeStyle = this.colour(at(edge, i));
        pen.lineWidth = 1.2 * this.thin;
        pen.stroke();
      }
    }
    if (texts) this.draw_texts({
      x: x.map((v, i) => v + w[i] / 2), y: y.map((v, i) => v + h[i] / 2), texts, align: 1, colour: ink, room: w, size,
    });
  }

  // Leaning strokes, and beyond them dots (5) or level lines (6).
  hatch(kind, x, y, w, h, round) {
    const pen = this.pen;
    pen.save();
    pen.clip();
    pen.strokeStyle = pen.fillStyle = this.ink;
    pen.lineWidth = 0.8 * this.thin;
    pen.beginPath();
    for (const way of HATCH[kind] || [])
      for (let k = x - h; k < x + w + h; k += 6) {
        pen.moveTo(k, y + (way > 0 ? h : 0));
        pen.lineTo(k + h * Math.abs(way), y + (way > 0 ? 0 : h));
      }
    for (let down = y + 3; kind > 4 && down < y + h; down += 6)
      if (kind === 6) {
        pen.moveTo(x, down);
        pen.lineTo(x + w, down);
      } else for (let k = x + 3; k < x + w; k += 6) pen.fillRect(k, down, 1.5, 1.5);
    pen.stroke();
    pen.restore();
    pen.beginPath();
    pen.roundRect(x, y, w, h, clamp(round, 0, Math.min(w, h) / 2));
  }

  draw_dots(layer) {
    const { x, y, size, colour, shape, plain } = layer, pen = this.pen;
    for (let i = 0; i < x.length; i++) {
      pen.globalAlpha = this.recedes(layer, i) ? 2 * AWAY : 1;
      if (plain) {
        pen.beginPath();
        pen.arc(x[i], y[i], at(size, i, 4), 0, 7);
        pen.fillStyle = this.colour(at(colour, i));
        pen.fill();
      } else this.dot(x[i], y[i], at(size, i, 4), at(shape, i), this.colour(at(colour, i)));
    }
    pen.globalAlpha = 1;
  }

  dot(x, y, r, kind, colour) {
    const pen = this.pen, corners = CORNERS[kind > 6 ? kind - 4 : kind];
    if (!kind) { // two areas, since the edge of a stroke would make a polygon of a small disc
      for (const [hue, more] of [[this.paper, 0.5], [colour, -0.5]]) {
        pen.beginPath();
        pen.arc(x, y, Math.max(r + more * this.thin, 0.5), 0, 7);
        pen.fillStyle = hue;
        pen.fill();
      }
      return;
    }
    pen.beginPath();
    if (kind === 2) { // a cross
      pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r);
      pen.moveTo(x - r, y + r); pen.lineTo(x + r, y - r);
    } else if (corners) {
      for (const [dx, dy] of corners) pen.lineTo(x + r * dx, y + r * dy);
      pen.closePath();
    } else pen.arc(x, y, r, 0, 7);
    pen.fillStyle = pen.strokeStyle = colour;
    pen.lineWidth = (kind === 2 ? 2.4 : 1.5) * this.thin;
    if (kind > 2 && kind < 7) { // full ones keep apart from what lies behind them
      pen.fill();
      pen.strokeStyle = this.paper;
      pen.lineWidth = this.thin;
    } else if (kind !== 2) {
      pen.fillStyle = this.paper;
      pen.fill();
    }
    pen.stroke();
  }

  // Texts keep the size of the page's own, however large the picture is; see fit. So in a small picture they are wide
  // beside it, and those that would be cut at its edge move inwards.
  draw_texts({ x, y, texts, align, size, bold, colour, room, halo }) {
    const pen = this.pen;
    pen.textBaseline = "middle";
    for (let i = 0; i < texts.length; i++) {
      pen.font = `${at(bold, i) ? "600 " : ""}${at(size, i, 12) * this.letters / this.scale}px ${this.font}`;
      const wide = pen.measureText(texts[i]).width, side = at(align, i);
      if (room && wide > at(room, i) - CLEAR * this.letters / this.scale) continue;
      const wanted = x[i] - side / 2 * wide, left = clamp(wanted, 0, Math.max(0, this.within - wide));
      const across = x[i] + left - wanted;
      pen.textAlign = ["left", "center", "right"][side];
      if (at(halo, i)) {
        pen.lineWidth = 6 * this.letters / this.scale;
        pen.lineJoin = "round";
        pen.strokeStyle = this.paper;
        pen.strokeText(texts[i], across, y[i]);
      }
      pen.fillStyle = this.colour(at(colour, i));
      pen.fillText(texts[i], across, y[i]);
    }
  }

  // Chunks on their way: a box that follows its line while time runs from 0 to 1.
  draw_movers(layer, time) {
    const { ptr, w, h, colour, texts, ink } = layer, pen = this.pen;
    if (time >= 1 && layer.gone) return; // they have arrived, and are now part of what they caused
    for (let i = 0; i + 1 < ptr.length; i++) {
      const long = lengthOf(layer, ptr[i], ptr[i + 1]);
      const [x, y] = along(layer, ptr[i], ptr[i + 1], long * Math.min(1, time / LANDED));
      const [wide, high] = [at(w, i), at(h, i)];
      pen.fillStyle = this.colour(at(colour, i));
      pen.strokeStyle = this.paper;
      pen.lineWidth = 1.5 * this.thin;
      pen.beginPath();
      pen.roundRect(x - wide / 2, y - high / 2, wide, high, 3);
      pen.fill();
      pen.stroke();
      if (texts) this.draw_texts({ x: [x], y: [y], texts: [texts[i]], align: 1, colour: at(ink, i, this.spec.colours.paper) });
    }
  }

  // ---------------------------------------------------------------- packets on loaded links

  // How many packets each line has, how far apart they are and how fast.
  packetsOf() {
    const out = [];
    for (const layer of this.layers.values()) {
      if (!layer.flow) continue;
      for (let i = 0; i + 1 < layer.ptr.length; i++) {
        const load = clamp(at(layer.flow, i)), [from, end] = [layer.ptr[i], layer.ptr[i + 1]];
        const length = lengthOf(layer, from, end);
        if (load < 0.01 || length < 8) continue;
        out.push({ layer, i, from, end, length, gap: 64 - 44 * load, speed: 12 + 44 * load, wide: at(layer.width, i, 1.5),
          colour: at(layer.colour, i), phase: (i * 0.618) % 1 });
      }
    }
    const thin = out.filter(({ wide }) => wide < TINY);
    if (thin.length > MANY) for (const line of thin) Object.assign(line, { tiny: true, gap: 3 * line.gap });
    const many = out.reduce((sum, { length, gap }) => sum + length / gap, 0);
    for (const line of out) line.gap *= Math.max(1, many / MOST_PACKETS);
    return out;
  }

  flows(now) {
    this.packets ||= this.packetsOf();
    const pen = this.pen;
    for (const { layer, i, from, end, length, gap, speed, wide, colour, phase, tiny } of this.packets)
      this.recedes(layer, i) || this.inPanel(layer, () => {
        // A packet is light in a thick line, a ring on a thin one, and a dark dot on one of very many.
        const discs = tiny ? [[1.1, this.ink]] : wide >= BEAD ? [[wide / 3.2, this.paper]]
          : [[RING, this.colour(colour)], [HOLE, this.paper]];
        for (const [radius, fill] of discs) {
          pen.fillStyle = fill;
          pen.beginPath();
          for (let far = (now / 1000 * speed + phase * gap) % gap; far < length; far += gap) {
            const [x, y] = along(layer, from, end, far), r = this.thin * radius;
            pen.moveTo(x + r, y);
            pen.arc(x, y, r, 0, 7);
          }
          pen.fill();
        }
      });
  }

  // ---------------------------------------------------------------- the former state

  ghost(old, layer) {
    if (!layer || old === layer || ["x", "y", "w", "h"].every((name) => String(old[name]) === String(layer[name]))) return;
    const pen = this.pen, edge = this.named("edge");
    pen.setLineDash([3, 3]);
    pen.lineWidth = 1.5 * this.thin;
    pen.strokeStyle = edge;
    if (old.kind === "lines")
      for (let i = 0; i + 1 < old.ptr.length; i++) {
        this.path(old, i);
        pen.stroke();
      }
    else if (old.kind === "boxes")
      for (let i = 0; i < old.x.length; i++) {
        pen.beginPath();
        pen.roundRect(old.x[i], old.y[i], old.w[i], old.h[i], clamp(at(old.round, i, 3), 0, old.h[i] / 2));
        pen.stroke();
      }
    else if (old.kind === "dots")
      for (let i = 0; i < old.x.length; i++) {
        pen.beginPath();
        pen.arc(old.x[i], old.y[i], at(old.size, i, 4) + 1, 0, 7);
        pen.stroke();
      }
    pen.setLineDash([]);
  }

  // ---------------------------------------------------------------- solids

  // Parallel projection: near is large and dark, far is small and light, and what is in front cuts what is behind it. A
  // load keeps its colour, which has its place on the scale: its cables are only the thinner the further behind they lie.
  solid(layers) {
    const [around, tilt] = this.turn;
    const [ca, sa, ct, st] = [Math.cos(around), Math.sin(around), Math.cos(tilt), Math.sin(tilt)];
    const items = [], flats = [], chips = new Map();
    const key = ({ x, y, z }, k) => `${Math.round(x[k])} ${Math.round(y[k])} ${Math.round(z[k])}`;
    let deepest = 1;
    for (const layer of layers) {
      const n = layer.x.length, seen = { x: new Float32Array(n), y: new Float32Array(n), depth: new Float32Array(n) };
      for (let k = 0; k < n; k++) {
        const towards = layer.z[k] * ca - layer.x[k] * sa;
        seen.x[k] = layer.middle[0] + layer.x[k] * ca + layer.z[k] * sa;
        seen.y[k] = layer.middle[1] + layer.y[k] * ct + towards * st;
        seen.depth[k] = towards * ct - layer.y[k] * st;
        deepest = Math.max(deepest, Math.abs(seen.depth[k]));
      }
      const flat = { ...layer, ...seen, layer };
      flats.push(flat);
      for (const held of this.layers.values()) if (held.z && held.names && held.names === layer.names) held.seen = seen;
      if (layer.kind === "texts") for (let i = 0; i < n; i++) items.push({ flat, i, depth: seen.depth[i] + at(layer.lift, i, 2) });
      else if (layer.kind === "dots")
        for (let i = 0; i < n; i++) {
          const depth = seen.depth[i] + at(layer.lift, i, 1), chip = { flat, i, depth, above: depth };
          chips.set(key(layer, i), chip);
          items.push(chip);
        }
      else
        for (let i = 0; i + 1 < layer.ptr.length; i++) {
          const part = seen.depth.subarray(layer.ptr[i], layer.ptr[i + 1]);
          items.push({ flat, i, depth: part.reduce((sum, v) => sum + v, 0) / part.length + at(layer.lift, i) });
        }
    }
    // No cable cuts into the chips at its own ends, even one that passes far before them.
    for (const { flat, i, depth } of items)
      if (flat.kind === "lines")
        for (const end of [flat.ptr[i], flat.ptr[i + 1] - 1]) {
          const chip = chips.get(key(flat.layer, end));
          if (chip && chip.above <= depth) chip.above = depth + 0.01;
        }
    const order = ({ above, depth }) => above ?? depth;
    items.sort((a, b) => order(a) - order(b));
    this.shrink(flats);
    const pen = this.pen;
    pen.lineJoin = pen.lineCap = "round";
    for (const { flat, i, depth } of items) {
      if (flat.kind === "texts") {
        pen.globalAlpha = 1;
        this.draw_texts({ x: [flat.x[i]], y: [flat.y[i]], texts: [flat.texts[i]], align: 1, colour: flat.colour, halo: 1 });
        continue;
      }
      const near = clamp(0.5 + 0.5 * depth / deepest), colour = this.colour(at(flat.colour, i));
      const loaded = flat.kind === "lines" && at(flat.colour, i) >= this.spec.loads;
      const alpha = at(flat.alpha, i, 1) * (at(flat.strong, i) || loaded ? 1 : 0.4 + 0.6 * near);
      if (flat.kind === "dots") {
        const look = [flat.x[i], flat.y[i], at(flat.size, i, 4) * (0.75 + 0.5 * near), at(flat.shape, i)];
        pen.globalAlpha = 1;
        if (alpha < 1) this.dot(...look, this.paper); // what lies behind a chip does not shine through
        pen.globalAlpha = alpha;
        this.dot(...look, colour);
        continue;
      }
      pen.globalAlpha = alpha;
      const wide = this.stroke(at(flat.width, i, 1.2)) * (loaded ? BEHIND + (1 - BEHIND) * near : 1);
      this.path(flat, i);
      pen.setLineDash([]);
      pen.strokeStyle = this.paper;
      pen.lineWidth = wide + 3 * this.thin;
      pen.stroke();
      pen.setLineDash(this.spec.dashes[at(flat.dash, i)]);
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      pen.stroke();
      if (at(flat.form, i) === 2) this.broken(flat, i);
    }
    pen.setLineDash([]);
    pen.lineCap = "butt";
    pen.globalAlpha = 1;
  }

  // However a solid is turned, it fits into its panel.
  shrink(flats) {
    const { width, height } = this.panels[flats[0].panel || 0];
    let fits = 1;
    for (const { x, y, middle: [mx, my] } of flats) {
      for (let k = 0; k < x.length; k++) {
        const [dx, dy] = [x[k] - mx, y[k] - my], [rx, ry] = [dx < 0 ? mx : width - mx, dy < 0 ? my : height - my];
        fits = Math.min(fits, (rx - 8) / Math.max(Math.abs(dx), 1), (ry - 8) / Math.max(Math.abs(dy), 1));
      }
    }
    if (fits < 1)
      for (const { x, y, middle: [mx, my] } of flats)
        for (let k = 0; k < x.length; k++) [x[k], y[k]] = [mx + (x[k] - mx) * fits, my + (y[k] - my) * fits];
  }

  isSolid() {
    return [...this.layers.values()].some((layer) => layer.z);
  }

  // ---------------------------------------------------------------- what is under the pointer

  // The item nearest to the pointer and within reach of it: [layer, number], or null.
  under(event, layers, reach = REACHED) {
    let best = reach, found = null;
    layers.forEach((layer, k) => {
      const [x, y] = this.place(event, layer.panel), where = layer.seen ? { ...layer, ...layer.seen } : layer;
      for (let i = 0; i < layer.names.length; i++) {
        const far = layer.kind === "lines" ? this.toLine(where, i, x, y)
          : layer.kind === "dots" ? Math.hypot(where.x[i] - x, where.y[i] - y) - 3
          : layer.kind === "boxes" ? this.toBox(where, i, x, y) : Infinity;
        if (far < best) [best, found] = [far, [k, i]];
      }
    });
    return found;
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
      const t = clamp(((x - xs[k]) * dx + (y - ys[k]) * dy) / long);
      best = Math.min(best, Math.hypot(xs[k] + t * dx - x, ys[k] + t * dy - y));
    }
    return best;
  }

  mark(layer, i) {
    const pen = this.pen, where = layer.seen ? { ...layer, ...layer.seen } : layer;
    pen.strokeStyle = this.ink;
    pen.lineWidth = 3 * this.thin;
    pen.beginPath();
    if (layer.kind === "boxes") pen.rect(layer.x[i] - 2, layer.y[i] - 2, layer.w[i] + 4, layer.h[i] + 4);
    else if (layer.kind === "dots") pen.arc(where.x[i], where.y[i], 9, 0, 7);
    else for (let k = layer.ptr[i]; k < layer.ptr[i + 1]; k++) pen.lineTo(where.x[k], where.y[k]);
    pen.stroke();
  }
}
