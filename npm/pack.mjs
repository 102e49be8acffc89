// Packs `mainstay-mcp` and the package of one platform from the two programs of a release:
//
//     node npm/pack.mjs --program target/release/mainstay --bridge target/release/mainstay-bridge --out target/npm
//
// `--platform` names the platform if it is not that of this machine: a key of platforms.json. The version is that of the workspace.
// Prints the paths of the two tarballs, one a line: the platform's first, which is also the order to publish in.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'

const here = import.meta.dirname
const root = path.dirname(here)
const platforms = JSON.parse(fs.readFileSync(path.join(here, 'platforms.json'), 'utf8'))

const LICENSES = ['LICENSE-APACHE', 'LICENSE-MIT']
const RUN_TIMEOUT = 60_000

main()

function main() {
  const { program, bridge, out, platform } = options()
  const version = workspaceVersion()
  for (const file of [program, bridge]) {
    const found = platformOf(file)
    if (found !== platform) stop(`${file} is a program for ${found}, and not for ${platform}`)
  }
  if (platform === ownPlatform()) {
    const said = run(program, ['--version']).trim()
    if (said !== `mainstay ${version}`) stop(`${program} says "${said}", and the workspace is version ${version}`)
  }
  fs.mkdirSync(out, { recursive: true })
  const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'mainstay-npm-'))
  try {
    console.log(pack(stagePlatform(stage, platform, version, { program, bridge }), out))
    console.log(pack(stageMain(stage, version), out))
  } finally {
    fs.rmSync(stage, { recursive: true })
  }
}

function options() {
  const text = { type: 'string' }
  const { values } = parseArgs({ options: { program: text, bridge: text, out: text, platform: text } })
  const { program, bridge, out, platform = ownPlatform() } = values
  if (!program || !bridge || !out) stop('usage: node npm/pack.mjs --program FILE --bridge FILE --out DIRECTORY [--platform NAME]')
  if (!platforms[platform]) stop(`there is no platform ${platform}, only ${Object.keys(platforms).join(', ')}`)
  return { program, bridge, out, platform }
}

function workspaceVersion() {
  const manifest = fs.readFileSync(path.join(root, 'Cargo.toml'), 'utf8')
  const version = /^\[workspace\.package\]\n(?:[^[].*\n)*?version = "([^"]+)"/m.exec(manifest)?.[1]
  return version ?? stop('Cargo.toml has no version in [workspace.package]')
}

function ownPlatform() {
  return process.platform === 'linux' ? platformOf(process.execPath) : `${process.platform}-${process.arch}`
}

// The platform that a program is built for, from its first bytes.
function platformOf(file) {
  const bytes = fs.readFileSync(file)
  const magic = bytes.length < 64 ? 0 : bytes.readUInt32BE(0)
  if (magic === 0x7f454c46) {
    const cpu = { 62: 'x64', 183: 'arm64' }[bytes.readUInt16LE(18)]
    // A program without a loader is linked statically, which our programs are with musl alone.
    const libc = /\/ld-linux[^\0]*\0/.test(bytes.toString('latin1', 0, 4096)) ? 'gnu' : 'musl'
    return `linux-${cpu}-${libc}`
  }
  if (magic === 0xcffaedfe) {
    return `darwin-${{ 0x01000007: 'x64', 0x0100000c: 'arm64' }[bytes.readUInt32LE(4)]}`
  }
  return stop(`${file} is not a program that is known here`)
}

function stagePlatform(stage, platform, version, programs) {
  const { os: system, cpu, libc } = platforms[platform]
  const main = mainManifest()
  const name = `@mainstay-mcp/${platform}`
  const folder = path.join(stage, platform)
  const bin = path.join(folder, 'bin')
  fs.mkdirSync(bin, { recursive: true })
  copyProgram(programs.program, path.join(bin, 'mainstay'))
  copyProgram(programs.bridge, path.join(bin, 'mainstay-bridge'))
  const glibc = libc === 'glibc' ? neededGlibc(Object.values(programs)) : undefined
  writeManifest(folder, {
    name,
    version,
    description: `The program of mainstay-mcp for ${platform}`,
    homepage: main.homepage,
    bugs: main.bugs,
    repository: { ...main.repository, directory: 'npm' },
    license: main.license,
    author: main.author,
    type: main.type,
    os: [system],
    cpu: [cpu],
    libc: libc && [libc],
    files: ['bin', ...LICENSES],
    // Yarn would leave it in an archive, from which the system starts nothing.
    preferUnplugged: true,
    publishConfig: main.publishConfig,
    mainstay: glibc && { glibc },
  })
  const readme = `# ${name}\n\nThe program of [mainstay-mcp](https://www.npmjs.com/package/mainstay-mcp) for ${platform}.
Install that package: npm takes this one by itself.\n`
  fs.writeFileSync(path.join(folder, 'README.md'), readme)
  copyLicenses(folder)
  return folder
}

function stageMain(stage, version) {
  const folder = path.join(stage, 'main')
  fs.cpSync(path.join(here, 'mainstay-mcp'), folder, { recursive: true })
  const names = Object.keys(platforms).map((platform) => [`@mainstay-mcp/${platform}`, version])
  const manifest = mainManifest()
  const files = [...manifest.files, ...LICENSES]
  writeManifest(folder, { ...manifest, version, files, optionalDependencies: Object.fromEntries(names) })
  copyLicenses(folder)
  return folder
}

function mainManifest() {
  return JSON.parse(fs.readFileSync(path.join(here, 'mainstay-mcp', 'package.json'), 'utf8'))
}

function writeManifest(folder, manifest) {
  fs.writeFileSync(path.join(folder, 'package.json'), JSON.stringify(manifest, null, 2) + '\n')
}

function copyLicenses(folder) {
  for (const license of LICENSES) fs.copyFileSync(path.join(root, license), path.join(folder, license))
}

function copyProgram(from, to) {
  fs.copyFileSync(from, to)
  fs.chmodSync(to, 0o755)
}

// The newest version of glibc that the programs name.
function neededGlibc(programs) {
  const versions = programs.flatMap((program) => fs.readFileSync(program, 'latin1').match(/GLIBC_2\.\d+/g) ?? [])
  const minors = versions.map((version) => Number(version.slice('GLIBC_2.'.length)))
  if (minors.length === 0) stop(`no version of glibc is named in ${programs.join(', ')}`)
  return `2.${Math.max(...minors)}`
}

function pack(folder, out) {
  const said = run('npm', ['pack', folder, '--json', '--ignore-scripts', '--pack-destination', out])
  // npm 12 prints an object by name, older ones a list.
  const [{ filename }] = Object.values(JSON.parse(said))
  return path.resolve(out, filename)
}

function run(command, options) {
  return execFileSync(command, options, { encoding: 'utf8', timeout: RUN_TIMEOUT, stdio: ['ignore', 'pipe', 'inherit'] })
}

function stop(message) {
  console.error(`pack.mjs: ${message}`)
  process.exit(1)
}
