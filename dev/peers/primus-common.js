// Shared by primus-server.js and primus-client.js: the packages of a version of Primus and of its plugins.
'use strict';

const packages = {
  emitter: 'primus-emitter', emit: 'primus-emit', multiplex: 'primus-multiplex', responder: 'primus-responder', substream: 'substream',
};

/** Loads packages as a file in `folder` would. */
exports.load = folder => {
  const load = name => require(require.resolve(name, { paths: [folder] }));
  const plugins = list =>
    Object.fromEntries(list.split(',').filter(Boolean).map(name => {
      if (!Object.hasOwn(packages, name)) {
        console.error(`Unknown plugin ${name}; the plugins are ${Object.keys(packages).join(', ')}`);
        process.exit(2);
      }
      return [name, load(packages[name])];
    }));
  return { Primus: load('primus'), version: load('primus/package.json').version, plugins };
};

/** What is left of the arguments of an event's listener without the function that acknowledges the event, and that function. */
exports.acknowledgement = values => {
  const acknowledge = typeof values.at(-1) === 'function' ? values.at(-1) : undefined;
  return { values: acknowledge ? values.slice(0, -1) : values, acknowledge };
};
