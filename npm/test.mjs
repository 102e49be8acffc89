// Packs the npm packages, installs them without a network into an empty project, and runs what is installed:
//
//     MAINSTAY_PROGRAM=target/release/mainstay MAINSTAY_NODES=/usr/bin/node:/opt/node22/bin/node node --test npm/test.mjs
//
// Each test of the program runs with every Node of MAINSTAY_NODES; without the variable, with the Node that runs the tests.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

const here = import.meta.dirname
const PROGRAM = path.resolve(process.env.MAINSTAY_PROGRAM ?? path.join(here, '../target/release/mainstay'))
const BRIDGE = PROGRAM.replace(/mainstay$/, 'mainstay-bridge')
const NODES = (process.env.MAINSTAY_NODES ?? process.execPath).split(':')
const PLATFORM = '@mainstay-mcp/linux-x64-gnu'

const platforms = JSON.parse(fs.readFileSync(path.join(here, 'platforms.json'), 'utf8'))

const TIMEOUT = 30_000
// What is left of a killed program is ended by its guardian, or after the 800 ms that its servers have.
const GONE_TIMEOUT = 20_000
const POLL_INTERVAL = 20
// What each upgrade may cost a slow line, in bytes.
const PLATFORM_SIZE_LIMIT = 8_000_000

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'mainstay-npm-test-'))
const project = path.join(scratch, 'project')
const tarballs = []

before(() => {
  assert.ok(fs.existsSync(PROGRAM), `there is no ${PROGRAM}: build it, or name another one in MAINSTAY_PROGRAM`)
  const packed = run(process.execPath, [
    path.join(here, 'pack.mjs'), '--program', PROGRAM, '--bridge', BRIDGE, '--out', path.join(scratch, 'packed'),
  ])
  tarballs.push(...packed.trim().split('\n'))
  install(project)
})
after(() => {
  // None, unless a test failed.
  for (const left of processesWith(scratch)) process.kill(left, 'SIGKILL')
  fs.rmSync(scratch, { recursive: true })
})

test('the package of a platform is small enough to be fetched at each upgrade', () => {
  assert.ok(fs.statSync(tarballs[0]).size <= PLATFORM_SIZE_LIMIT)
})

test('the packages have no scripts, no dependency but the platforms, and the licences', () => {
  for (const name of ['mainstay-mcp', PLATFORM]) {
    const folder = path.join(project, 'node_modules', name)
    const manifest = readJson(path.join(folder, 'package.json'))
    assert.equal(manifest.scripts, undefined)
    assert.equal(manifest.dependencies, undefined)
    assert.ok(fs.existsSync(path.join(folder, 'LICENSE-MIT')))
    for (const [dependency, version] of Object.entries(manifest.optionalDependencies ?? {})) {
      assert.match(dependency, /^@mainstay-mcp\//)
      assert.equal(version, manifest.version)
    }
  }
})

test('an installation without scripts is the same', () => {
  const folder = path.join(scratch, 'without-scripts')
  install(folder, '--ignore-scripts')
  assert.equal(shim(process.execPath, ['--version'], folder).stdout, run(PROGRAM, ['--version']))
})

test('npm install -g takes the package of this platform alone from the registry', async () => {
  const registry = http.createServer(answerLikeRegistry).listen(0, '127.0.0.1')
  await once(registry, 'listening')
  try {
    const prefix = path.join(scratch, 'prefix')
    const address = `http://127.0.0.1:${registry.address().port}`
    const options = ['install', '-g', 'mainstay-mcp', '--prefix', prefix, '--registry', address, '--cache', path.join(scratch, 'cache')]
    // Not synchronously, since this process is the registry.
    const npm = spawn('npm', [...options, '--no-audit', '--no-fund'], { stdio: 'inherit' })
    assert.deepEqual(await once(npm, 'exit', { signal: AbortSignal.timeout(TIMEOUT) }), [0, null])
    assert.equal(run(path.join(prefix, 'bin/mainstay'), ['--version']), run(PROGRAM, ['--version']))
    const platforms = path.join(prefix, 'lib/node_modules/mainstay-mcp/node_modules/@mainstay-mcp')
    assert.deepEqual(fs.readdirSync(platforms), [path.basename(PLATFORM)])
  } finally {
    registry.closeAllConnections()
    registry.close()
  }
})

test('a program of another platform or of another version is not packed', () => {
  const foreign = path.join(scratch, 'foreign')
  const bytes = fs.readFileSync(PROGRAM)
  bytes.writeUInt16LE(183, 18)
  fs.writeFileSync(foreign, bytes)
  assert.match(packed(foreign).stderr, /is a program for linux-arm64-gnu, and not for linux-x64-gnu/)
  assert.match(packed('/bin/ls').stderr, /ls says "ls .* and the workspace is version/s)

  function packed(program) {
    const options = ['--program', program, '--bridge', BRIDGE, '--out', path.join(scratch, 'refused')]
    return spawnSync(process.execPath, [path.join(here, 'pack.mjs'), ...options], { encoding: 'utf8', timeout: TIMEOUT })
  }
})

for (const node of NODES) {
  const about = run(node, ['-p', 'process.version + (process.execve ? ", replaced by the program" : ", waits for the program")']).trim()
  describe(`with Node ${about}`, () => {
    testProgram(node)
    testRefusals(node)
    testSignals(node, about)
  })
}

function testProgram(node) {
  test('the version is that of the program', () => {
    const { status, stdout, stderr } = shim(node, ['--version'])
    assert.deepEqual({ status, stdout, stderr }, { status: 0, stdout: run(PROGRAM, ['--version']), stderr: '' })
  })

  test('npm finds the command', () => {
    const environment = { ...environmentOf(), PATH: `${path.dirname(node)}:${process.env.PATH}` }
    const found = run(path.join(project, 'node_modules/.bin/mainstay'), ['--version'], { env: environment })
    assert.equal(found, run(PROGRAM, ['--version']))
  })

  test('the demo server is up, and calls are answered', () => {
    const check = shim(node, ['check', '--json'])
    assert.equal(check.status, 0, check.stderr)
    const call = shim(node, ['-q', 'call', 'demo__add', 'a=2', 'b=40'])
    assert.equal(call.status, 0, call.stderr)
    assert.match(call.stdout, /42/)
  })

  test('exit codes and arguments are those of the program', () => {
    const environment = environmentOf()
    for (const options of [['no-such-command'], ['-q', 'call', 'no such "tool"', '*', '', 'ü\n']]) {
      const direct = spawnSync(PROGRAM, options, { encoding: 'utf8', env: environment, timeout: TIMEOUT })
      const { status, stdout, stderr } = shim(node, options, project, environment)
      assert.notEqual(status, 0)
      assert.deepEqual([status, stdout, stderr], [direct.status, direct.stdout, direct.stderr])
    }
  })

  for (const command of [['wrap', '-q'], ['connect']]) {
    test(`a host speaks MCP through ${command[0]}, until it closes its side`, async () => {
      const host = new Host(node, [...command, '--', PROGRAM, 'demo-server'])
      assert.equal((await host.initialize()).result.serverInfo.name, 'mainstay-demo')
      host.child.stdin.end()
      assert.deepEqual(await host.closed, [0, null])
      if (command[0] === 'connect') shim(node, ['daemon', 'stop'], project, host.environment)
      await host.leavesNothing()
    })
  }

  test('import --rewrite writes the path of the program, and neither npx nor the shim', () => {
    const environment = environmentOf()
    const file = path.join(environment.HOME, '.cursor/mcp.json')
    fs.mkdirSync(path.dirname(file), { recursive: true })
    fs.writeFileSync(file, JSON.stringify({ mcpServers: { demo: { command: 'npx', args: ['-y', 'a-server'] } } }))
    environment.PATH = `${path.join(project, 'node_modules/.bin')}:${process.env.PATH}`
    const { status, stderr } = shim(node, ['import', '--rewrite', '--yes'], project, environment)
    assert.equal(status, 0, stderr)
    const { command, args } = readJson(file).mcpServers.demo
    assert.equal(command, programOf(project))
    assert.deepEqual(args.slice(-4), ['--', 'npx', '-y', 'a-server'])
  })
}

function testRefusals(node) {
  const says = (folder, status, pattern) => {
    const answer = shim(node, ['--version'], folder)
    assert.match(answer.stderr, pattern)
    assert.match(answer.stderr, /^mainstay: [^\n]*; [^\n]*\n$/, 'one line, with a remedy')
    assert.deepEqual([answer.status, answer.signal, answer.stdout], [status, null, ''])
  }

  test('a missing package of the platform is one line', () => {
    const folder = path.join(fs.mkdtempSync(path.join(scratch, 'omitted-')), 'project')
    install(folder, '--omit=optional')
    says(folder, 127, /the package @mainstay-mcp\/linux-x64-gnu is not installed; .*--omit=optional/)
  })

  test('an unknown platform is one line that names those that are known', () => {
    const folder = changed(({ main }) => change(main, (manifest) => delete manifest.optionalDependencies[PLATFORM]))
    says(folder, 127, /there is no program for linux-x64-gnu, only for .*darwin-arm64/)
  })

  test('two packages of different versions are one line', () => {
    const folder = changed(({ platform }) => change(platform, (manifest) => (manifest.version = '0.0.9')))
    says(folder, 126, /is version 0\.0\.9, and mainstay-mcp is /)
  })

  test('a system that is too old for the program is one line', () => {
    const folder = changed(({ platform }) => change(platform, (manifest) => (manifest.mainstay.glibc = '2.999')))
    says(folder, 126, /needs glibc 2\.999, and this system has 2\.\d+/)
  })

  test('a program that may not be run is one line', () => {
    says(changed(({ program }) => fs.chmodSync(program, 0o644)), 126, /cannot be started: .*EACCES/)
  })

  test('a program that is missing or damaged is one line', () => {
    says(changed(({ program }) => fs.rmSync(program)), 126, /cannot be started: .*ENOENT/)
    says(changed(({ program }) => fs.truncateSync(program)), 126, /cannot be started: it is damaged/)
  })

  test('a program of another libc is one line', () => {
    const folder = changed(({ program }) => {
      const bytes = fs.readFileSync(program)
      bytes.write('/lib64/ld-missing-lib.so.2', bytes.indexOf('/lib64/ld-linux-x86-64.so.2'))
      fs.writeFileSync(program, bytes)
    })
    says(folder, 126, /cannot be started: its loader \/lib64\/ld-missing\S* is not on this system/)
  })
}

function testSignals(node, about) {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGKILL']) {
    test(`${signal} ends it as it ends the program, and leaves nothing`, async () => {
      const options = ['wrap', '-q', '--', PROGRAM, 'demo-server']
      const direct = new Host(undefined, options)
      const host = new Host(node, options)
      await Promise.all([direct.initialize(), host.initialize()])
      assert.ok(processesWith(host.environment.MAINSTAY_RUNTIME).length > 1, 'the program and its server')
      // The hosts keep their sides open: nothing but the signal ends the programs.
      for (const each of [direct, host]) each.child.kill(signal)
      assert.deepEqual(await host.closed, await direct.closed)
      await Promise.all([direct.leavesNothing(), host.leavesNothing()])
    })
  }

  test('the end of a program by a signal of its own is passed on', async () => {
    const folder = changed(({ program }) => fs.writeFileSync(program, '#!/bin/sh\nkill -SEGV $$\n'))
    const { signal } = shim(node, [], folder)
    assert.equal(signal, 'SIGSEGV')
  })

  test('SIGKILL ends a gateway too, which has no input to end', async () => {
    const host = new Host(node, ['serve', '--listen', '127.0.0.1:0'], ['ignore', 'ignore', 'pipe'])
    const said = createInterface({ input: host.child.stderr, signal: AbortSignal.timeout(TIMEOUT) })
    for await (const line of said) if (line.startsWith('serving ')) break
    host.child.kill('SIGKILL')
    assert.deepEqual(await host.closed, [null, 'SIGKILL'])
    await host.leavesNothing()
  })

  const skip = about.includes('replaced') && 'there is one process'
  test('Ctrl-C in a terminal reaches the program once, and SIGKILL of the shim ends it later', { skip }, () => {
    const folder = changed(({ program }) => fs.writeFileSync(program, SIGNAL_LOG))
    const log = path.join(folder, 'log')
    const said = run('python3', ['-c', TYPIST, log, node, shimOf(folder), log])
    // The terminal ends with the shim, its first process: hence SIGHUP.
    assert.deepEqual(said.trim().split('\n').filter((line) => line !== 'SIGHUP'), ['ready', 'SIGINT', 'SIGUSR1', 'SIGTERM'])
  })
}

// Writes each signal that it gets into a pipe, until SIGTERM.
const SIGNAL_LOG = `#!/usr/bin/env python3
import signal, sys
signals = {signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
signal.alarm(30)
with open(sys.argv[1], "w", buffering=1) as log:
    print("ready", file=log)
    while (came := signal.sigwait(signals)) != signal.SIGTERM:
        print(came.name, file=log)
    print(came.name, file=log)
`

// Runs a command in a terminal: types Ctrl-C when it is ready, sends SIGUSR1, which comes after all that Ctrl-C did, then SIGKILL.
const TYPIST = `
import os, pty, signal, sys
os.mkfifo(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
with open(sys.argv[1]) as log:
    def wait_for(word):
        for line in log:
            print(line, end="")
            if line.strip() == word:
                return
    wait_for("ready")
    os.write(terminal, b"\\x03")
    wait_for("SIGINT")
    os.kill(pid, signal.SIGUSR1)
    wait_for("SIGUSR1")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print(log.read(), end="")
`

// A host that starts the program through the shim, or directly without a Node.
class Host {
  constructor(node, options, stdio = ['pipe', 'pipe', 'inherit']) {
    this.environment = environmentOf()
    const command = node ? [node, shimOf(project), ...options] : [PROGRAM, ...options]
    this.child = spawn(command[0], command.slice(1), { env: this.environment, stdio })
    this.closed = once(this.child, 'exit', { signal: AbortSignal.timeout(TIMEOUT) })
    // The program may be gone when a line is written to it.
    this.child.stdin?.on('error', () => {})
  }

  async initialize() {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
    this.child.stdin.write(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }) + '\n')
    const lines = createInterface({ input: this.child.stdout })
    const [line] = await once(lines, 'line', { signal: AbortSignal.timeout(TIMEOUT) })
    return JSON.parse(line)
  }

  // Waits until no process has this host's variable any more: the shim, the program, its guardian and its server.
  async leavesNothing() {
    const until = Date.now() + GONE_TIMEOUT
    for (;;) {
      const left = processesWith(this.environment.MAINSTAY_RUNTIME)
      if (left.length === 0) return
      assert.ok(Date.now() < until, `left behind: ${left.join(', ')}`)
      await sleep(POLL_INTERVAL)
    }
  }
}

// The documents that a registry has of each package. It has the tarballs of this platform alone: another one is not fetched.
function answerLikeRegistry(request, response) {
  const name = decodeURIComponent(request.url.slice(1))
  const tarball = tarballs.find((file) => path.basename(file) === name)
  if (tarball) return response.end(fs.readFileSync(tarball))
  const main = readJson(path.join(project, 'node_modules/mainstay-mcp/package.json'))
  const base = `http://${request.headers.host}`
  const documentOf = (manifest, file) => {
    const version = { ...manifest, dist: { tarball: `${base}/${path.basename(file)}` } }
    return { name, 'dist-tags': { latest: main.version }, versions: { [main.version]: version } }
  }
  if (name === main.name) return response.end(JSON.stringify(documentOf(main, tarballs[1])))
  const platform = platforms[path.basename(name)]
  if (!platform) return response.writeHead(404).end()
  const { os, cpu, libc } = platform
  const manifest = { name, version: main.version, os: [os], cpu: [cpu], libc: libc && [libc] }
  response.end(JSON.stringify(documentOf(manifest, name === PLATFORM ? tarballs[0] : 'none.tgz')))
}

function processesWith(value) {
  return fs.readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return false
    try {
      return fs.readFileSync(`/proc/${name}/environ`, 'latin1').includes(value)
    } catch {
      return false
    }
  })
}

// A home and a runtime directory of its own, whose name marks all processes of one test.
function environmentOf() {
  const home = fs.mkdtempSync(path.join(scratch, 'home-'))
  const keep = Object.entries(process.env).filter(([name]) => !/^(MAINSTAY|XDG|npm|NODE)_/.test(name))
  const runtime = path.join(home, 'run')
  fs.mkdirSync(runtime, { mode: 0o700 })
  return { ...Object.fromEntries(keep), HOME: home, MAINSTAY_RUNTIME: runtime }
}

function install(folder, ...options) {
  fs.mkdirSync(folder)
  fs.writeFileSync(path.join(folder, 'package.json'), '{ "private": true }')
  // A package that is named on the command line is never optional.
  const named = options.includes('--omit=optional') ? [tarballs[1]] : tarballs
  run('npm', ['install', '--offline', '--no-audit', '--no-fund', ...options, ...named], { cwd: folder })
}

// A copy of the installed project in which something is changed.
function changed(work) {
  const folder = fs.mkdtempSync(path.join(scratch, 'changed-'))
  fs.cpSync(path.join(project, 'node_modules'), path.join(folder, 'node_modules'), { recursive: true, verbatimSymlinks: true })
  const file = (name) => path.join(folder, 'node_modules', name, 'package.json')
  work({ main: file('mainstay-mcp'), platform: file(PLATFORM), program: programOf(folder) })
  return folder
}

function change(file, work) {
  const manifest = readJson(file)
  work(manifest)
  fs.writeFileSync(file, JSON.stringify(manifest))
}

function readJson(file) {
  return JSON.parse(fs.readFileSync(file, 'utf8'))
}

function programOf(folder) {
  return path.join(folder, 'node_modules', PLATFORM, 'bin/mainstay')
}

function shimOf(folder) {
  return path.join(folder, 'node_modules/.bin/mainstay')
}

function shim(node, options, folder = project, environment = environmentOf()) {
  return spawnSync(node, [shimOf(folder), ...options], { encoding: 'utf8', env: environment, timeout: TIMEOUT })
}

function run(command, options, more) {
  return execFileSync(command, options, { encoding: 'utf8', timeout: TIMEOUT, stdio: ['ignore', 'pipe', 'pipe'], ...more })
}
