// Primus's own client, controlled by commands; driver.js describes their form.
//
//   {"do": "open", "url": "http://HOST:PORT/", "options": {...}}
//       prints {"event": NAME, "detail": VALUE} for each event of the connection, {"event": "error", "message": TEXT}, and
//       {"event": "data", "data": VALUE}; bytes are {"base64": TEXT}
//   {"do": "write", "data": VALUE} or {"do": "write", "base64": TEXT}
//   {"do": "id"}                       the result is the ID of the spark
//   {"do": "end"}
//   {"do": "receive", "n": N, "write": VALUE}
//       writes the value, if there is one, and counts the next N messages in place of printing them; the result is the processor time
//       for that, in microseconds
//   {"do": "cpu"}                      the result is the processor time of the process in microseconds
//   {"do": "send", "event": NAME, "args": [VALUE, ...], "ack": true}    with "ack", the result is the acknowledgement
//   {"do": "on", "event": NAME, "ack": [VALUE, ...]}
//       prints {"event": "emitted", "name": NAME, "args": [VALUE, ...], "ack": BOOLEAN} for each event, and acknowledges it
//   {"do": "channel", "name": NAME}, {"do": "channelWrite", "name": NAME, "data": VALUE}, {"do": "channelEnd", "name": NAME}
//       prints {"event": "channel open" | "channel end", "name": NAME} and {"event": "channel data", "name": NAME, "data": VALUE}
//   {"do": "substream", "name": NAME}, {"do": "substreamWrite", "name": NAME, "data": VALUE}, {"do": "substreamEnd", "name": NAME}
//       prints {"event": "substream data", "name": NAME, "data": VALUE}
//   {"do": "request", "data": VALUE}   the result is the response of primus-responder
//   {"do": "answer", "data": VALUE}    answers requests with the value, or without one with {"answered": REQUEST}
//
// The commands for a plugin need the option --plugins with its name.
'use strict';
const { options, print, run } = require('./driver');
const { acknowledgement, load } = require('./primus-common');

const settings = options({
  modules: __dirname, transformer: 'websockets', parser: 'json', plugins: '', pathname: '/primus', options: '{}', quiet: 'false',
});
const { Primus, plugins } = load(settings.modules);
const { transformer, parser, pathname } = settings;
const Socket = Primus.createSocket({ transformer, parser, pathname, plugin: plugins(settings.plugins) });
const events = [
  'open', 'close', 'end', 'online', 'offline', 'readyStateChange', 'reconnect', 'reconnect scheduled', 'reconnected', 'reconnect timeout',
  'reconnect failed',
];

const printable = value => (value instanceof Uint8Array ? { base64: Buffer.from(value).toString('base64') } : value);
const detail = value => (value && typeof value === 'object' ? { attempt: value.attempt, scheduled: value.scheduled } : value);

let socket;
const channels = new Map();
const streams = new Map();

/** The messages that are counted, and how to end the count. */
let counting;

const receive = data => {
  if (!counting) {
    if (settings.quiet !== 'true') print({ event: 'data', data: printable(data) });
    return;
  }
  counting.left -= 1;
  if (counting.left > 0) return;
  const { user, system } = process.cpuUsage(counting.start);
  counting.done({ cpu_us: user + system, user_us: user });
  counting = undefined;
};

run({
  open: command => {
    socket = new Socket(command.url, { ...JSON.parse(settings.options), ...command.options });
    for (const name of events) socket.on(name, value => print({ event: name, detail: detail(value) }));
    socket.on('error', error => print({ event: 'error', message: error?.message }));
    socket.on('data', receive);
  },
  write: ({ data, base64 }) => socket.write(base64 === undefined ? data : Buffer.from(base64, 'base64')),
  id: () => new Promise(resolve => socket.id(resolve)),
  end: () => void socket.end(),
  receive: ({ n, write }) =>
    new Promise(done => {
      counting = { left: n, done, start: process.cpuUsage() };
      if (write !== undefined) socket.write(write);
    }),
  cpu: () => process.cpuUsage(),

  send: ({ event, args = [], ack }) => {
    if (!ack) return void socket.send(event, ...args);
    return new Promise(resolve => socket.send(event, ...args, (...values) => resolve(values)));
  },
  on: ({ event, ack }) =>
    void socket.on(event, (...all) => {
      const { values, acknowledge } = acknowledgement(all);
      print({ event: 'emitted', name: event, args: values, ack: acknowledge !== undefined });
      if (ack) acknowledge?.(...ack);
    }),

  channel: ({ name }) => {
    const channel = socket.channel(name);
    channels.set(name, channel);
    for (const event of ['open', 'end']) channel.on(event, () => print({ event: `channel ${event}`, name }));
    channel.on('data', data => print({ event: 'channel data', name, data: printable(data) }));
  },
  channelWrite: ({ name, data }) => void channels.get(name).write(data),
  channelEnd: ({ name }) => void channels.get(name).end(),

  substream: ({ name }) => {
    const stream = socket.substream(name);
    streams.set(name, stream);
    stream.on('data', data => print({ event: 'substream data', name, data: printable(data) }));
  },
  substreamWrite: ({ name, data }) => void streams.get(name).write(data),
  substreamEnd: ({ name }) => void streams.get(name).end(),

  request: ({ data }) => new Promise(resolve => socket.writeAndWait(data, resolve)),
  answer: ({ data }) => void socket.on('request', (request, done) => done(data === undefined ? { answered: request } : data)),
});
