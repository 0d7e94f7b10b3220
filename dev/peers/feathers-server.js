// An application of Feathers 4 over Primus 8, with its records in memory.
//
//   todos           records with id, text and isDone. Every client receives the events. The query of find may have $limit, $skip and values
//                   of fields, which are compared with their types. A create without a text is a BadRequest with data and errors, and an ID
//                   that isn't there a NotFound. An array creates several records, and a patch or removal of null changes all.
//   users, authentication
//                   of @feathersjs/authentication, with the strategies local (anna@example.org, secret) and jwt
//   notes           like todos, for clients that have signed in; only they receive its events
//   failures        only get, which throws an Error of JavaScript instead of one of Feathers
'use strict';
const feathers = require('@feathersjs/feathers');
const primus = require('@feathersjs/primus');
const { BadRequest, NotFound } = require('@feathersjs/errors');
const { AuthenticationService, JWTStrategy, authenticate } = require('@feathersjs/authentication');
const { LocalStrategy, hooks: local } = require('@feathersjs/authentication-local');
const { options, print } = require('./driver');

const settings = options({ port: '0', transformer: 'websockets', parser: 'json', stay: 'false' });

/**
 * A service with records in memory, whose data `complete` checks. Feathers adds hooks and events to the methods, so they don't call each
 * other.
 */
const recordsService = complete => {
  const records = new Map();
  let lastID = 0;
  const put = record => {
    records.set(record.id, record);
    return record;
  };
  const existing = id => {
    // The ID in a token is a text.
    const record = records.get(Number(id));
    if (!record) throw new NotFound(`No record found for id '${id}'`);
    return record;
  };
  const add = data => put({ ...complete(data), id: (lastID += 1) });
  const change = (record, data) => put({ ...record, ...data, id: record.id });
  const drop = record => {
    records.delete(record.id);
    return record;
  };
  const forAll = (id, body) => (id === null ? [...records.values()].map(body) : body(existing(id)));
  return {
    // The name of the field, for @feathersjs/authentication.
    id: 'id',
    find: async ({ query = {} }) => {
      const { $limit = records.size, $skip = 0, ...fields } = query;
      const found = [...records.values()].filter(record => Object.entries(fields).every(([name, value]) => record[name] === value));
      return found.slice(Number($skip), Number($skip) + Number($limit));
    },
    get: async id => existing(id),
    create: async data => (Array.isArray(data) ? data.map(add) : add(data)),
    update: async (id, data) => put({ ...complete(data), id: existing(id).id }),
    patch: async (id, data) => forAll(id, record => change(record, data)),
    remove: async id => forAll(id, drop),
  };
};

const todo = data => {
  const { text, isDone = false } = data ?? {};
  if (typeof text !== 'string') throw new BadRequest('The text is missing.', { field: 'text', errors: { text: 'must be a string' } });
  return { text, isDone };
};

const app = feathers();
app.configure(primus({ transformer: settings.transformer, parser: settings.parser }));
app.set('authentication', {
  secret: 'a secret of the tests',
  entity: 'user',
  service: 'users',
  authStrategies: ['jwt', 'local'],
  jwtOptions: { audience: 'https://example.org', issuer: 'feathers', algorithm: 'HS256', expiresIn: '1d' },
  local: { usernameField: 'email', passwordField: 'password' },
});

app.use('todos', recordsService(todo));
app.use('notes', recordsService(todo));
app.use('users', recordsService(data => data));
app.use('failures', {
  get: async id => {
    throw new Error(`Failure ${id}`);
  },
});

const authentication = new AuthenticationService(app);
authentication.register('jwt', new JWTStrategy());
authentication.register('local', new LocalStrategy());
app.use('authentication', authentication);

app.service('users').hooks({
  before: { find: authenticate('jwt'), get: authenticate('jwt'), create: local.hashPassword('password') },
  after: local.protect('password'),
});
app.service('notes').hooks({ before: authenticate('jwt') });

app.on('connection', connection => app.channel('everyone').join(connection));
app.on('login', (_, { connection }) => connection && app.channel('authenticated').join(connection));
app.service('todos').publish(() => app.channel('everyone'));
app.service('notes').publish(() => app.channel('authenticated'));

// A failure in a test must not end the server of the next one.
process.on('uncaughtException', error => print({ event: 'uncaught', message: error.stack }));
const server = app.listen(Number(settings.port), '127.0.0.1');
server.on('listening', async () => {
  await app.service('users').create({ email: 'anna@example.org', password: 'secret' });
  const { port } = server.address();
  const { transformer, parser } = settings;
  const { version } = require('@feathersjs/feathers/package.json');
  print({ ready: true, peer: 'feathers', version, port, url: `http://127.0.0.1:${port}/primus`, transformer, parser });
});
if (settings.stay !== 'true') process.stdin.on('end', () => process.exit(0)).on('error', () => process.exit(0)).resume();
