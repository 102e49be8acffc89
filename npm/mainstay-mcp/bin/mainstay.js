#!/usr/bin/env node
// Starts the program `mainstay`, which stands in the package of this platform.
//
// Node 22.15 and newer replaces its own process by the program, so that no Node stays. An older one waits for it, passes signals on, and ends
// as the program ended. `process.execve` aborts if the system refuses the file, so everything that can be checked is checked before.
'use strict'

const fs = require('node:fs')
const path = require('node:path')
const main = require('../package.json')

// The shell's codes for a command that is not there, and for one that cannot be run.
const NOT_FOUND = 127
const CANNOT_RUN = 126

const PASSED_ON = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']
// A terminal sends these to its whole foreground group. The program has them already, and a second one would cut its orderly end short.
const FROM_KEYBOARD = ['SIGINT', 'SIGQUIT']

const options = process.argv.slice(2)
const program = find()
if (process.execve) {
  process.execve(program, [program, ...options], process.env)
} else {
  waitFor(program)
}

// The program's path, if nothing that can be known beforehand keeps it from starting.
function find() {
  const glibc = process.platform === 'linux' ? glibcVersion() : undefined
  const libc = process.platform === 'linux' ? [glibc ? 'gnu' : 'musl'] : []
  const platform = [process.platform, process.arch, ...libc].join('-')
  const name = `@mainstay-mcp/${platform}`
  if (!main.optionalDependencies[name]) {
    const known = Object.keys(main.optionalDependencies).map((name) => path.basename(name))
    fail(NOT_FOUND, `there is no program for ${platform}, only for ${known.join(', ')}`, `build it: ${main.homepage}`)
  }
  let manifest
  try {
    manifest = require.resolve(`${name}/package.json`)
  } catch {
    fail(
      NOT_FOUND,
      `the package ${name} is not installed`,
      `install mainstay-mcp again without --omit=optional, and without a lock file of another platform`,
    )
  }
  const found = require(manifest)
  if (found.version !== main.version) {
    fail(CANNOT_RUN, `${name} is version ${found.version}, and mainstay-mcp is ${main.version}`, 'install mainstay-mcp again')
  }
  const needed = found.mainstay?.glibc
  if (needed && isOlder(glibc, needed)) {
    fail(CANNOT_RUN, `the program needs glibc ${needed}, and this system has ${glibc}`, `build it here: ${main.homepage}`)
  }
  const program = path.join(path.dirname(manifest), 'bin', 'mainstay')
  try {
    fs.accessSync(program, fs.constants.X_OK)
    checkFormat(program)
  } catch (error) {
    refuse(program, error)
  }
  return program
}

// None where Node is built for another libc than glibc.
function glibcVersion() {
  // Network interfaces are no part of the question, and slow to list.
  process.report.excludeNetwork = true
  return process.report.getReport().header.glibcVersionRuntime
}

function isOlder(version, needed) {
  const [major, minor] = version.split('.').map(Number)
  const [neededMajor, neededMinor] = needed.split('.').map(Number)
  return major < neededMajor || (major === neededMajor && minor < neededMinor)
}

// Throws if the kernel would refuse the file: it is damaged, or the loader that it names is missing, as on NixOS.
function checkFormat(program) {
  const head = Buffer.alloc(4096)
  const file = fs.openSync(program)
  const length = fs.readSync(file, head)
  fs.closeSync(file)
  if (process.platform !== 'linux' || head.toString('latin1', 0, 2) === '#!') return
  if (length < 64 || head.toString('latin1', 0, 4) !== '\x7fELF') throw new Error('it is damaged')
  const INTERPRETER = 3
  const [start, size, count] = [Number(head.readBigUInt64LE(32)), head.readUInt16LE(54), head.readUInt16LE(56)]
  for (let at = start; at < start + size * count && at + 56 <= length; at += size) {
    if (head.readUInt32LE(at) !== INTERPRETER) continue
    const offset = Number(head.readBigUInt64LE(at + 8))
    const loader = head.toString('latin1', offset, head.indexOf(0, offset))
    if (loader && !fs.existsSync(loader)) throw new Error(`its loader ${loader} is not on this system`)
  }
}

function waitFor(program) {
  const { spawn } = require('node:child_process')
  const isInTerminal = [0, 1, 2].some((descriptor) => require('node:tty').isatty(descriptor))
  let child
  for (const signal of PASSED_ON) {
    process.on(signal, () => {
      if (!isInTerminal || !FROM_KEYBOARD.includes(signal)) child.kill(signal)
    })
  }
  child = spawn(program, options, { stdio: 'inherit' })
  child.on('error', (error) => refuse(program, error))
  if (!child.pid) return
  // Its input ends when this process does, also by SIGKILL, which nobody can pass on. It has a session of its own, so that what
  // the terminal sends to the group does not end it before.
  const watcher = spawn('/bin/sh', ['-c', 'read -r line; kill -TERM "$1"', 'mainstay-watcher', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  watcher.on('error', () => {})
  child.on('exit', (code, signal) => {
    watcher.kill('SIGKILL')
    endLike(code, signal)
  })
}

function endLike(code, signal) {
  if (!signal) process.exit(code)
  process.exitCode = 128 + require('node:os').constants.signals[signal]
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

function refuse(program, error) {
  fail(CANNOT_RUN, `${program} cannot be started: ${error.message}`, 'install mainstay-mcp again, or build it: ' + main.homepage)
}

function fail(code, what, remedy) {
  console.error(`mainstay: ${what}; ${remedy}`)
  process.exit(code)
}
