// pusher-js, controlled by commands; driver.js describes their form.
//
//   {"do": "connect", "key": KEY, "options": {"wsHost": HOST, "wsPort": PORT}, "auth": {"app": ID, "secret": SECRET, "user": USER}}
//       USER is {"id": ID, "user_info": VALUE}. The client signs its own subscriptions with the secret.
//   {"do": "subscribe", "channel": NAME}    prints {"event": "message", "channel": NAME, "name": EVENT, "data": VALUE} for each event
//   {"do": "unsubscribe", "channel": NAME}
//   {"do": "trigger", "channel": NAME, "name": EVENT, "data": VALUE}
//   {"do": "members", "channel": NAME}
//   {"do": "disconnect"}
'use strict';
const { options, print, run } = require('./driver');
const Pusher = require('pusher-js');
const Server = require('pusher');

options({});
let client;

/** Signs subscriptions in this process, in place of an application server. */
const authorization = (key, { app, secret, user }) => {
  const server = new Server({ appId: app, key, secret, host: '127.0.0.1' });
  const customHandler = ({ socketId, channelName }, callback) => {
    const member = channelName.startsWith('presence-') ? { user_id: user.id, user_info: user.user_info } : undefined;
    callback(null, server.authorizeChannel(socketId, channelName, member));
  };
  return { channelAuthorization: { customHandler } };
};

run({
  connect: ({ key, options, auth }) =>
    new Promise((resolve, reject) => {
      const settings = { cluster: 'mt1', forceTLS: false, enabledTransports: ['ws'], enableStats: false };
      client = new Pusher(key, { ...settings, ...(auth ? authorization(key, auth) : {}), ...options });
      client.connection.bind('connected', () => resolve({ socket_id: client.connection.socket_id }));
      client.connection.bind('failed', () => reject(new Error('The connection failed')));
      client.connection.bind('state_change', ({ previous, current }) => print({ event: 'state_change', previous, current }));
      setTimeout(() => reject(new Error(`Not connected after 10 s; the state is ${client.connection.state}`)), 10_000).unref();
    }),
  subscribe: ({ channel: name }) =>
    new Promise((resolve, reject) => {
      const channel = client.subscribe(name);
      channel.bind_global((event, data) => {
        // The members of a presence channel are an object with methods.
        const value = event === 'pusher:subscription_succeeded' ? (data?.members ? { count: data.count } : {}) : data;
        print({ event: 'message', channel: name, name: event, data: value });
      });
      channel.bind('pusher:subscription_succeeded', () => resolve({}));
      channel.bind('pusher:subscription_error', error => reject(new Error(JSON.stringify(error))));
    }),
  unsubscribe: ({ channel }) => client.unsubscribe(channel),
  trigger: ({ channel, name, data }) => client.channel(channel).trigger(name, data),
  members: ({ channel }) => {
    const { members, count, me } = client.channel(channel).members;
    return { members, count, me };
  },
  disconnect: () => client.disconnect(),
});
