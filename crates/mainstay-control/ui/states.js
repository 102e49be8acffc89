// The states of a server: their colours, and which of them count as up, on the way, or down.

export const STATES = [
  "disabled", "connecting", "connected", "reconnecting", "disabling", "disconnected", "permanently_failed",
];

/** `up`, `busy`, `down` or `off`. */
export function health(server) {
  return healthOf(server.state, server.reason);
}

export function healthOf(state, reason) {
  switch (state) {
    case "connected": return "up";
    case "connecting":
    case "reconnecting":
    case "disabling": return "busy";
    case "disabled": return "off";
    case "disconnected": return reason === "idle" ? "off" : "down";
    default: return "down";
  }
}

/** How a server stands, the worst first: 0 down, 1 on the way, 2 up or started by the next call, 3 disabled. `api::Footing` decides the same. */
export function footing(server) {
  if (server.state === "disabled" || server.state === "disabling") return server.desired === "disabled" ? 3 : 1;
  if (server.state === "disconnected" && server.reason === "idle") return 2;
  return { up: 2, busy: 1 }[health(server)] ?? 0;
}

/** How many servers are up, of those that are not disabled. */
export function counted(servers) {
  const wanted = [...servers].map(footing).filter((standing) => standing < 3);
  return { up: wanted.filter((standing) => standing === 2).length, wanted: wanted.length };
}

/** The transitions that the diagram draws. */
export const EDGES = [
  ["disabled", "connecting"], ["connecting", "connected"], ["connecting", "disconnected"],
  ["connecting", "reconnecting"], ["connecting", "permanently_failed"], ["connecting", "disabling"], ["connected", "reconnecting"],
  ["connected", "disconnected"], ["connected", "permanently_failed"], ["connected", "disabling"],
  ["reconnecting", "connected"], ["reconnecting", "disconnected"], ["reconnecting", "permanently_failed"],
  ["reconnecting", "disabling"], ["disconnected", "connecting"], ["disconnected", "disabling"],
  ["permanently_failed", "connecting"], ["permanently_failed", "disabling"], ["disabling", "disabled"],
  ["disabled", "disconnected"],
];
