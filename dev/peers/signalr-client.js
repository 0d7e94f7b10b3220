// Microsoft's SignalR client on Node, controlled by the commands of signalr-commands.js.
'use strict';
const { options, print, run } = require('./driver');

options({});
run(require('./signalr-commands')(
  require('@microsoft/signalr'), require('@microsoft/signalr-protocol-msgpack').MessagePackHubProtocol, print));
