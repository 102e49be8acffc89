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

export class Strip {
  root = drawing("svg", { class: "strip", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });

  draw(server, transitions, now) {
    const parts = segments(server, transitions, now);
    const x = (at) => ((at - (now - HOUR)) / HOUR) * WIDTH;
    const kept = [...this.root.children];
    const bars = parts.filter((part) => !part.unsure).map((part, index) => {
      const bar = kept[index] ?? drawing("rect", { y: 0, height: HEIGHT });
      setAttribute(bar, "class", part.health);
      setAttribute(bar, "x", x(part.from).toFixed(1));
      // Something short is still to be seen.
      setAttribute(bar, "width", Math.max(1, x(part.to) - x(part.from)).toFixed(1));
      return bar;
    });
    setChildren(this.root, bars);
    const wrong = parts.filter((part) => part.health !== "up" && part.health !== "off");
    const down = wrong.reduce((sum, part) => sum + part.to - part.from, 0);
    const last = wrong.at(-1);
    setAttribute(this.root, "aria-label", wrong.length === 0
      ? "no failure seen in the last hour"
      : `not up for ${duration(down)} of the last hour, last ${words(last.state)} at ${clock(last.from)}`);
  }
}
