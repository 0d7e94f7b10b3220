// A server of Primus that writes every message back, except for those with "cmd":
//
//   {"cmd": "burst", "n": N}           writes the numbers from 0 to N - 1
//   {"cmd": "text", "size": N}         writes a text of N characters
//   {"cmd": "buffer", "size": N}       writes N bytes: 0, 1, 2 and so on
//   {"cmd": "types"}                   writes an object with a value of each type that the parser can carry
//   {"cmd": "info"}                    writes the ID, the query, the header fields and the address of the client
//   {"cmd": "silent"}                  writes nothing
//   {"cmd": "end"}, {"cmd": "endReconnect"}    ends the connection; after the second, the client may reconnect
//   {"cmd": "kill"}                    closes the socket; with engine.io all sockets, because a client may have several
//   {"cmd": "emit", "event": NAME, "args": [VALUE, ...], "ack": true}
//       sends an event of primus-emitter; with "ack", writes {"acked": [VALUE, ...]} when the client has acknowledged it
//   {"cmd": "emitPlain", "event": NAME, "args": [VALUE, ...]}    sends an event of primus-emit
//   {"cmd": "ask", "data": VALUE}      sends a request of primus-responder, and writes {"answered": VALUE}
//
// Plugins, where they are on:
//
//   emitter      acknowledges "echo" with its arguments immediately and "later" after 100 ms; sends "re:hello" in reply to "hello"
//   emit         sends "re:plain" in reply to "plain"
//   multiplex    writes {"channel": NAME, "data": VALUE} in reply to each message on the channels a and b
//   substream    writes each message on the stream sub back
//   responder    answers each request with {"answer": VALUE}
//
// Requests that control the server, on the same port: GET /control/sparks, and POST /control/ followed by
//
//   broadcast, emit?event=NAME    writes the body to all clients as a message, or as the arguments of an event
//   end, endReconnect, kill       ends or kills all connections
//   stopPings                     sends no more pings
//   refuse?status=N, accept       refuses new clients, or accepts them again
//   close, closeReconnect         closes the server and ends the process
'use strict';
const http = require('http');
const { options, print } = require('./driver');
const { acknowledgement, load } = require('./primus-common');

const settings = options({
  modules: __dirname, port: '0', transformer: 'websockets', parser: 'json', plugins: '', pathname: '/primus', ping: '', timeout: '', token: '',
  maxLength: '', compression: 'false', allowEIO3: 'false', strategy: '', logevents: 'false', stay: 'false',
});
const { Primus, version, plugins } = load(settings.modules);
const installed = plugins(settings.plugins);
const has = name => Object.hasOwn(installed, name);
const report = event => settings.logevents === 'true' && print(event);
const milliseconds = text => (text === 'false' ? false : Number(text));

const sockets = new Set();
const server = http.createServer(control).on('connection', socket => {
  sockets.add(socket);
  socket.on('close', () => sockets.delete(socket));
});
const primus = new Primus(server, {
  transformer: settings.transformer,
  parser: settings.parser,
  pathname: settings.pathname,
  compression: settings.compression === 'true',
  ...(settings.ping && { pingInterval: milliseconds(settings.ping) }),
  ...(settings.timeout && { timeout: milliseconds(settings.timeout) }),
  ...(settings.maxLength && { maxLength: Number(settings.maxLength) }),
  ...(settings.strategy && { strategy: settings.strategy }),
  ...(settings.allowEIO3 === 'true' && { transport: { allowEIO3: true } }),
});
for (const [name, plugin] of Object.entries(installed)) primus.plugin(name, plugin);

// Who may connect.

let refusal = 0;
const refused = (message, properties) => Object.assign(new Error(message), properties);

primus.authorize(({ headers, query }, done) => {
  if (refusal) return done(refused('refused on request', { statusCode: refusal }));
  const { token } = settings;
  const fields = [`Bearer ${token}`, `Basic ${Buffer.from(`user:${token}`).toString('base64')}`];
  if (!token || query.token === token || fields.includes(headers.authorization)) return done();
  done(refused('Authentication required', { statusCode: 401, authenticate: 'Basic realm="peer"' }));
});

// Clients and their messages.

const sparks = new Set();
const textFields = headers => Object.fromEntries(Object.entries(headers).filter(([, value]) => typeof value === 'string'));
const describe = ({ id, query, headers, address }) => ({ id, query, headers: textFields(headers), address });

const kill = spark => {
  const all = settings.transformer === 'engine.io';
  for (const socket of all ? [...sockets] : [spark.request.socket ?? spark.request.connection]) socket.destroy();
};

const examples = () => {
  const values = {
    null: null, true: true, int: 42, negative: -7, big: 2 ** 32, float: 1.5, text: 'h\u00e9llo \u2028 \u{1f600}', list: [1, [2]],
    map: { a: { b: 1 } },
  };
  const more = {
    json: {},
    ejson: { nan: NaN, infinity: Infinity, regexp: /a+b/gi, escaped: { $date: 5 } },
    msgpack: { nan: NaN, typed: new Float32Array([1, 2]) },
    // The decoder of binary-pack returns a wrong value for integers of 64 bits.
    binary: { big: undefined },
  };
  const common = settings.parser === 'json' ? {} : { date: new Date(1e12), bytes: Buffer.from([1, 2, 3]) };
  const all = { ...values, ...common, ...more[settings.parser] };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
};

const commands = {
  burst: (spark, { n }) => { for (let number = 0; number < n; number += 1) spark.write(number); },
  text: (spark, { size }) => spark.write('x'.repeat(size)),
  buffer: (spark, { size }) => spark.write(Buffer.from(Array.from({ length: size }, (_, index) => index % 256))),
  types: spark => spark.write(examples()),
  info: spark => spark.write(describe(spark)),
  silent: () => {},
  end: spark => spark.end(),
  endReconnect: spark => spark.end(undefined, { reconnect: true }),
  kill,
  emit: (spark, { event, args = [], ack }) =>
    spark.send(event, ...args, ...(ack ? [(...values) => spark.write({ acked: values })] : [])),
  emitPlain: (spark, { event, args = [] }) => spark.emit(event, ...args),
  ask: (spark, { data }) => spark.writeAndWait(data, answer => spark.write({ answered: answer })),
};

// Packets of plugins are also events "data".
const isOfPlugin = data =>
  (has('emitter') && data?.type !== undefined && data.data !== undefined) ||
  (has('emit') && data?.emit !== undefined) ||
  (has('multiplex') && Array.isArray(data) && [0, 1, 2].includes(data[0]) && typeof data[2] === 'string') ||
  (has('responder') && data?.plugin === 'primus-responder') ||
  (has('substream') && data?.substream !== undefined);

const answerPlugins = spark => {
  if (has('emitter')) {
    spark.on('echo', (...values) => {
      const { values: echoed, acknowledge } = acknowledgement(values);
      acknowledge?.(...echoed);
    });
    spark.on('later', (...values) => {
      const { values: echoed, acknowledge } = acknowledgement(values);
      setTimeout(() => acknowledge?.(...echoed), 100);
    });
    spark.on('hello', (...values) => {
      const { values: echoed, acknowledge } = acknowledgement(values);
      if (acknowledge) acknowledge(...echoed);
      else spark.send('re:hello', ...echoed);
    });
  }
  if (has('emit')) spark.on('plain', (...values) => spark.emit('re:plain', ...values));
  if (has('responder')) spark.on('request', (data, done) => done({ answer: data }));
  if (has('substream')) {
    const stream = spark.substream('sub');
    stream.on('data', data => stream.write(data));
    stream.on('end', () => report({ event: 'substream end' }));
  }
};

primus.on('connection', spark => {
  sparks.add(spark);
  report({ event: 'connection', id: spark.id });
  spark.on('end', () => {
    sparks.delete(spark);
    report({ event: 'end', id: spark.id });
  });
  spark.on('error', error => report({ event: 'error', id: spark.id, message: error.message }));
  answerPlugins(spark);
  spark.on('data', data => {
    if (isOfPlugin(data)) return;
    const name = data?.cmd;
    if (typeof name === 'string' && Object.hasOwn(commands, name)) commands[name](spark, data);
    else spark.write(data);
  });
});

if (has('multiplex')) {
  for (const name of ['a', 'b']) {
    const channel = primus.channel(name);
    channel.on('connection', member => {
      report({ event: 'channel', name, id: member.id });
      member.on('data', data => member.write({ channel: name, data }));
    });
    channel.on('disconnection', () => report({ event: 'channel end', name }));
  }
}

// Control over HTTP.

const forEachSpark = body => {
  const all = [...sparks];
  all.forEach(body);
  return { sparks: all.length };
};

// Runs after the reply was sent.
const soon = body => void setTimeout(body, 20);
const close = reconnect => soon(() => primus.destroy({ reconnect }, () => process.exit(0)));

const controls = {
  sparks: () => [...sparks].map(describe),
  broadcast: (_, body) => {
    primus.write(JSON.parse(body));
    return { sparks: sparks.size };
  },
  emit: (query, body) => forEachSpark(spark => spark.send(query.get('event'), ...JSON.parse(body))),
  end: () => forEachSpark(spark => spark.end()),
  endReconnect: () => forEachSpark(spark => spark.end(undefined, { reconnect: true })),
  kill: () => soon(() => sockets.forEach(socket => socket.destroy())),
  stopPings: () => clearInterval(primus.heartbeatInterval),
  refuse: query => ({ refuse: (refusal = Number(query.get('status') ?? 503)) }),
  accept: () => void (refusal = 0),
  close: () => close(false),
  closeReconnect: () => close(true),
};

async function control(request, response) {
  const { pathname, searchParams } = new URL(request.url, 'http://localhost');
  const name = pathname.replace(/^\/control\//, '');
  const reply = (status, value) => {
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(value ?? {}));
  };
  // Primus answers the requests below its own path.
  if (pathname.startsWith(settings.pathname)) return;
  if (name === pathname || !Object.hasOwn(controls, name)) return reply(404, { error: `Unknown path ${pathname}` });
  let body = '';
  for await (const part of request.setEncoding('utf8')) body += part;
  try {
    reply(200, controls[name](searchParams, body));
  } catch (error) {
    reply(400, { error: error.message });
  }
}

// A failure in a test must not end the server of the next one.
process.on('uncaughtException', error => print({ event: 'uncaught', message: error.stack }));
server.listen(Number(settings.port), '127.0.0.1', () => {
  const { port } = server.address();
  const { transformer, parser, pathname } = settings;
  print({
    ready: true, peer: 'primus', version, port, url: `http://127.0.0.1:${port}${pathname}`, transformer, parser, plugins: Object.keys(installed),
  });
});
if (settings.stay !== 'true') process.stdin.on('end', () => process.exit(0)).on('error', () => process.exit(0)).resume();
