// What the shim adds to Node's own start, in processor time: `node npm/cost.mjs PROJECT`, where PROJECT has mainstay-mcp installed.
//
// `mainstay --version` through the shim, less the same directly, less a Node that runs an empty file. The three take turns, so that they share
// what else the machine does. MAINSTAY_NODES names the Nodes, as for test.mjs.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

const ROUNDS = 30

const modules = path.resolve(process.argv[2] ?? '.', 'node_modules')
const [platform] = fs.readdirSync(path.join(modules, '@mainstay-mcp'))
const program = path.join(modules, '@mainstay-mcp', platform, 'bin/mainstay')
const nodes = (process.env.MAINSTAY_NODES ?? process.execPath).split(':')

for (const node of nodes) {
  const commands = {
    shim: [node, path.join(modules, '.bin/mainstay'), '--version'],
    program: [program, '--version'],
    node: [node, '/dev/null'],
  }
  const taken = { shim: [], program: [], node: [] }
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, command] of Object.entries(commands)) taken[name].push(processorTime(command))
  }
  const [shim, direct, empty] = Object.values(taken).map(median)
  const version = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim()
  const figures = [`${version}: the shim adds ${(shim - direct - empty).toFixed(1)} ms`, `node ${empty.toFixed(1)} ms`, `program ${direct.toFixed(1)} ms`]
  console.log(figures.join(', '))
}

// Milliseconds of user and system time of a command and of all that it waited for, from the shell that waits for it.
function processorTime(command) {
  const { stdout } = spawnSync('bash', ['-c', '"$@" >&2; times', 'bash', ...command], { encoding: 'utf8' })
  const [user, system] = [...stdout.split('\n')[1].matchAll(/(\d+)m([\d.]+)s/g)].map(([, minutes, seconds]) => minutes * 60 + Number(seconds))
  return (user + system) * 1000
}

function median(values) {
  return values.sort((a, b) => a - b)[values.length >> 1]
}
