// Microsoft's SignalR client on a page in Chromium, controlled by the commands of signalr-commands.js.
//
//   --chromium PATH    the program, chromium or chromium-headless-shell
//   --host NAME        the host of the page, a name that leads to this computer; its origin is in the "url" of the line with "ready"
//
// The page comes from a port of its own, so that its requests to a server under test are of another origin. It receives the commands as
// events of a stream, and sends each line of its output in a POST.
'use strict';
const fs = require('fs');
const http = require('http');
const os = require('os');
const path = require('path');
const { spawn } = require('child_process');
const { options, print } = require('./driver');

const { chromium, host } = options({ chromium: 'chromium', host: '127.0.0.1' });

/** The modules that the page may load, by the name of the import. Those of the package refer to each other by relative paths. */
const folder = path.dirname(require.resolve('@microsoft/signalr'));
const messagePack = path.join(
  path.dirname(require.resolve('@microsoft/signalr-protocol-msgpack/package.json')), 'dist/browser/signalr-protocol-msgpack.js');
const modules = Object.fromEntries(
  fs.readdirSync(folder).filter(name => name.endsWith('.js')).map(name => [`./${path.basename(name, '.js')}`, path.join(folder, name)]));
modules['@microsoft/signalr-protocol-msgpack'] = messagePack;
/** The package for MessagePack, a script for browsers, names the other one by its global variable. */
const aliases = { '@microsoft/signalr': './index', signalR: './index' };

/** Loads modules as Node does, and runs the commands. */
const script = () => {
  const loaded = {};
  const require = name => {
    if (name in aliases) return require(aliases[name]);
    if (loaded[name]) return loaded[name].exports;
    const module = (loaded[name] = { exports: {} });
    if (!sources[name]) throw new Error(`There is no module ${name}`);
    sources[name](module.exports, require, module);
    return module.exports;
  };
  let last = Promise.resolve();
  const print = value => {
    const body = JSON.stringify(value);
    // In order.
    last = last.then(() => fetch('/lines', { method: 'POST', body }));
  };
  window.onerror = message => print({ event: 'error', message });
  const commands = signalRCommands(
    require('@microsoft/signalr'), require('@microsoft/signalr-protocol-msgpack').MessagePackHubProtocol, print);
  new EventSource('/commands').onmessage = async ({ data }) => {
    const command = JSON.parse(data);
    const { do: name, id } = command;
    try {
      print({ done: name, id, result: (await commands[name](command)) ?? null });
    } catch (error) {
      print({ done: name, id, error: error?.message ?? String(error) });
    }
  };
};

const source = () => {
  const wrapped = Object.entries(modules).map(
    ([name, file]) => `${JSON.stringify(name)}: (exports, require, module) => {\n${fs.readFileSync(file, 'utf8')}\n}`);
  const commands = fs.readFileSync(path.join(__dirname, 'signalr-commands.js'), 'utf8');
  return `const aliases = ${JSON.stringify(aliases)};\nconst sources = {${wrapped.join(',\n')}};\n${commands}\n(${script})();`;
};

/** The stream to the page, and what was read before it was open. */
let page;
const waiting = [];
const pass = line => (page ? page.write(`data: ${line}\n\n`) : waiting.push(line));

const origin = () => `http://${host}:${server.address().port}`;

const server = http.createServer((request, response) => {
  switch (request.url) {
    case '/':
      response.setHeader('Content-Type', 'text/html');
      response.end('<!doctype html><meta charset="utf-8"><title>SignalR</title><script src="/script.js"></script>');
      break;
    case '/script.js':
      response.setHeader('Content-Type', 'text/javascript; charset=utf-8');
      response.end(source());
      break;
    case '/commands':
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      page = response;
      print({ ready: true, port: server.address().port, url: origin() });
      for (const line of waiting.splice(0)) pass(line);
      break;
    case '/lines': {
      const parts = [];
      request.on('data', part => parts.push(part));
      request.on('end', () => {
        process.stdout.write(`${Buffer.concat(parts)}\n`);
        response.end();
      });
      break;
    }
    default:
      response.writeHead(404).end();
  }
});

server.listen(0, '127.0.0.1', () => {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'realtime-chromium-'));
  const words = ['--headless', '--disable-gpu', '--no-first-run', '--disable-extensions', '--disable-background-networking',
    '--remote-debugging-pipe', `--host-resolver-rules=MAP ${host} 127.0.0.1`, `--user-data-dir=${profile}`];
  // Chromium refuses to run as root with its sandbox. The page contains only the scripts above.
  if (process.getuid?.() === 0) words.push('--no-sandbox');
  // It ends when the pipes of its debugger are closed, which aren't used otherwise: also if this process is killed.
  const browser = spawn(chromium, [...words, `${origin()}/`], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
  });
  let status = 1;
  const ended = () => {
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    process.exit(status);
  };
  const end = () => {
    status = 0;
    for (const pipe of browser.stdio.slice(3)) pipe.destroy();
  };
  browser.on('error', error => {
    console.error(`${chromium} could not be started: ${error.message}`);
    ended();
  });
  browser.on('exit', ended);
  process.on('SIGTERM', end);
  const input = require('readline').createInterface({ input: process.stdin });
  input.on('line', line => line.trim() && pass(line));
  input.on('close', end);
});
