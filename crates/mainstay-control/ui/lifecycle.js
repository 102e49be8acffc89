// The lifecycle as a diagram: the current state lit, the last transitions drawn strong, the latest strongest.

import { drawing, element, setAttribute } from "./dom.js";
import { words } from "./format.js";
import { EDGES, healthOf } from "./states.js";

const PLACES = {
  disabled: [70, 40], connecting: [250, 40], connected: [450, 40], disabling: [70, 150],
  disconnected: [250, 150], reconnecting: [450, 150], permanently_failed: [650, 95],
};
const WIDTH = 148;
const HEIGHT = 34;
const RECENT = 5;

export class LifecycleDiagram {
  #states = new Map();
  #edges = new Map();

  constructor() {
    const arrow = drawing("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
      drawing("path", { d: "M0 0L8 4L0 8z" }));
    this.root = element("figure", { class: "lifecycle" });
    const svg = drawing("svg", { viewBox: "-6 0 742 190", role: "img", "aria-label": "States and transitions of a server" }, drawing("defs", {}, arrow));
    for (const [from, to] of EDGES) {
      const path = drawing("path", { class: "edge", d: curve(PLACES[from], PLACES[to]), "marker-end": "url(#arrow)" });
      this.#edges.set(`${from} ${to}`, path);
      svg.append(path);
    }
    for (const [state, [x, y]] of Object.entries(PLACES)) {
      const group = drawing("g", { class: "node" },
        drawing("rect", { x: x - WIDTH / 2, y: y - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: 8 }),
        drawing("text", { x, y: y + 4, "text-anchor": "middle" }, words(state)));
      this.#states.set(state, group);
      svg.append(group);
    }
    this.root.append(svg);
  }

  draw(server, transitions) {
    for (const [state, group] of this.#states) {
      setAttribute(group, "class", state === server.state ? `node lit ${healthOf(server.state, server.reason)}` : "node");
    }
    const recent = transitions.slice(-RECENT).reverse();
    for (const [edge, path] of this.#edges) {
      const age = recent.findIndex((event) => `${event.from} ${event.to}` === edge);
      setAttribute(path, "class", age < 0 ? "edge" : `edge recent age-${age}`);
    }
  }
}

/** A line between the borders of two boxes, bent so that both directions can be told apart. */
function curve([x1, y1], [x2, y2]) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const length = Math.hypot(dx, dy);
  const [nx, ny] = [-dy / length, dx / length];
  const bend = 12;
  const from = border(x1, y1, dx, dy);
  const to = border(x2, y2, -dx, -dy);
  const middle = [(from[0] + to[0]) / 2 + nx * bend * 1.6, (from[1] + to[1]) / 2 + ny * bend * 1.6];
  const shift = ([x, y]) => [x + nx * bend * 0.5, y + ny * bend * 0.5];
  const [a, b] = [shift(from), shift(to)];
  return `M${a.map(Math.round)}Q${middle.map(Math.round)} ${b.map(Math.round)}`;
}

function border(x, y, dx, dy) {
  const scale = Math.min((WIDTH / 2 + 3) / Math.max(Math.abs(dx), 0.01), (HEIGHT / 2 + 3) / Math.max(Math.abs(dy), 0.01));
  return [x + dx * scale, y + dy * scale];
}
