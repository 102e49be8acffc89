// The last hour of a server as a thin line: up, on the way, down, off. One look says what was wrong last night.

import { drawing, setAttribute, setChildren } from "./dom.js";
import { clock, duration, words } from "./format.js";
import { healthOf } from "./states.js";

const HOUR = 3600000;
const WIDTH = 120;
const HEIGHT = 14;

/** What a server was in the last hour: `{from, to, state, health}`, the oldest first. */
export function segments(server, transitions, now) {
  const begin = now - HOUR;
  const found = [];
  let end = now;
  let state = server.state;
  let reason = server.reason;
  for (let at = transitions.length - 1; at >= 0 && end > begin; at -= 1) {
    const event = transitions[at];
    const from = Math.max(begin, Math.min(event.at_ms, end));
    found.push({ from, to: end, state, health: healthOf(state, reason) });
    end = from;
    state = event.from;
    reason = event.from === "disconnected" ? null : undefined;
  }
  if (end > begin && transitions.length === 0) {
    found.push({ from: Math.max(begin, Math.min(server.since_ms, end)), to: end, state, health: healthOf(state, reason) });
  } else if (end > begin) {
    found.push({ from: begin, to: end, state, health: healthOf(state, reason), unsure: true });
  }
  return found.reverse();
}

const WORSE = { down: 3, busy: 2, up: 1, off: 0 };

/** One bar for each stretch of the same health. What is shorter than a column counts as the worst that was in it. */
function bars(parts, now) {
  const columns = new Array(WIDTH).fill(null);
  for (const part of parts) {
    if (part.unsure) continue;
    const column = (at) => Math.min(WIDTH - 1, Math.max(0, Math.floor(((at - (now - HOUR)) / HOUR) * WIDTH)));
    for (let at = column(part.from); at <= column(part.to); at += 1) {
      if (columns[at] === null || WORSE[part.health] > WORSE[columns[at]]) columns[at] = part.health;
    }
  }
  // The end of the line is what the server is now.
  columns[WIDTH - 1] = parts.at(-1)?.health ?? columns[WIDTH - 1];
  const found = [];
  columns.forEach((health, at) => {
    if (health === null) return;
    const last = found.at(-1);
    if (last && last.health === health && last.at + last.width === at) last.width += 1;
    else found.push({ health, at, width: 1 });
  });
  return found;
}

export class Strip {
  root = drawing("svg", { class: "strip", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  #drawn = { column: -1, last: null, state: "" };

  draw(server, transitions, now) {
    // It looks the same until something happens or a column has passed.
    const column = Math.floor(now / (HOUR / WIDTH));
    const last = transitions.at(-1) ?? null;
    const drawn = this.#drawn;
    if (drawn.column === column && drawn.last === last && drawn.state === server.state) return;
    this.#drawn = { column, last, state: server.state };
    const parts = segments(server, transitions, now);
    const kept = [...this.root.children];
    setChildren(this.root, bars(parts, now).map(({ health, at, width }, index) => {
      const bar = kept[index] ?? drawing("rect", { y: 0, height: HEIGHT });
      setAttribute(bar, "class", health);
      setAttribute(bar, "x", at);
      setAttribute(bar, "width", width);
      return bar;
    }));
    const wrong = parts.filter((part) => part.health !== "up" && part.health !== "off");
    const down = wrong.reduce((sum, part) => sum + part.to - part.from, 0);
    const latest = wrong.at(-1);
    setAttribute(this.root, "aria-label", wrong.length === 0
      ? "no failure seen in the last hour"
      : `not up for ${duration(down)} of the last hour, last ${words(latest.state)} at ${clock(latest.from)}`);
  }
}
