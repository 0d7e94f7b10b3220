// The HTTP API library for Node, controlled by commands; driver.js describes their form.
//
//   {"do": "trigger", "channel": NAME, "event": EVENT, "data": VALUE}    the result is {"status": NUMBER, "body": TEXT}
'use strict';
const { options, run } = require('./driver');
const Pusher = require('pusher');

const { app, key, secret, host, port } = options({ app: 'app1', key: 'key1', secret: 'secret1', host: '127.0.0.1', port: '6001' });
const server = new Pusher({ appId: app, key, secret, host, port, useTLS: false });

run({
  trigger: async ({ channel, event, data }) => {
    const response = await server.trigger(channel, event, data);
    return { status: response.status, body: await response.text() };
  },
});
