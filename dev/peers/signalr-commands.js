// The commands of signalr-client and signalr-browser, which control a connection of Microsoft's client. driver.js describes their form.
//
//   {"do": "connect", "url": URL, "transport": "ws|sse|lp|any", "protocol": "json|msgpack", "token": TOKEN, "headers": {NAME: VALUE},
//    "retry": true|[DELAY], "stateful": true, "skipNegotiation": true, "serverTimeout": MS, "keepAlive": MS}
//       prints {"event": "reconnecting"}, {"event": "reconnected"} and {"event": "closed"} later, with the error if there is one
//   {"do": "on", "method": NAME, "returns": VALUE, "throws": TEXT}    prints {"event": "called", "method": NAME, "args": [VALUE]} for each call
//   {"do": "off", "method": NAME}
//   {"do": "invoke", "method": NAME, "args": [VALUE]}
//   {"do": "send", "method": NAME, "args": [VALUE]}
//   {"do": "stream", "method": NAME, "args": [VALUE], "take": COUNT}    cancels the stream after that many items
//   {"do": "upload", "method": NAME, "args": [VALUE], "items": [VALUE], "mode": "invoke|send|stream", "fails": TEXT}
//       sends the items as a stream, which is the last argument
//   {"do": "stop"}
//   {"do": "state"}
'use strict';

/**
 * Returns the commands.
 *
 * @param signalR The package @microsoft/signalr.
 * @param MessagePackHubProtocol The class of the package @microsoft/signalr-protocol-msgpack.
 * @param print Prints an event.
 */
const signalRCommands = (signalR, MessagePackHubProtocol, print) => {
  const transports = {
    ws: signalR.HttpTransportType.WebSockets,
    sse: signalR.HttpTransportType.ServerSentEvents,
    lp: signalR.HttpTransportType.LongPolling,
  };
  let connection;

  /** Returns the items of a stream, or of its first part. */
  const items = (stream, take) =>
    new Promise((resolve, reject) => {
      const items = [];
      const subscription = stream.subscribe({
        next: item => {
          items.push(item);
          if (items.length !== take) return;
          // `subscription` isn't assigned yet if the first item arrives immediately.
          setTimeout(() => subscription.dispose(), 0);
          resolve({ items, cancelled: true });
        },
        complete: () => resolve({ items, cancelled: false }),
        error: reject,
      });
    });

  return {
    connect: async ({ url, transport, protocol, token, headers, retry, stateful, skipNegotiation, serverTimeout, keepAlive }) => {
      const options = { headers, skipNegotiation };
      if (transport in transports) options.transport = transports[transport];
      if (token) options.accessTokenFactory = () => token;
      const builder = new signalR.HubConnectionBuilder().withUrl(url, options).configureLogging(signalR.LogLevel.None);
      if (protocol === 'msgpack') builder.withHubProtocol(new MessagePackHubProtocol());
      if (retry === true) builder.withAutomaticReconnect();
      else if (retry) builder.withAutomaticReconnect(retry);
      if (stateful) builder.withStatefulReconnect();
      if (serverTimeout) builder.withServerTimeout(serverTimeout);
      if (keepAlive) builder.withKeepAliveInterval(keepAlive);
      connection = builder.build();
      connection.onclose(error => print({ event: 'closed', error: error?.message }));
      connection.onreconnecting(error => print({ event: 'reconnecting', error: error?.message }));
      connection.onreconnected(connectionId => print({ event: 'reconnected', connectionId }));
      await connection.start();
      return { connectionId: connection.connectionId };
    },
    on: command => {
      const { method, returns, throws } = command;
      connection.on(method, (...args) => {
        print({ event: 'called', method, args });
        if (throws) throw new Error(throws);
        // Without a result, the function must not return a value.
        if ('returns' in command) return returns;
      });
    },
    off: ({ method }) => connection.off(method),
    invoke: ({ method, args = [] }) => connection.invoke(method, ...args),
    send: ({ method, args = [] }) => connection.send(method, ...args),
    stream: ({ method, args = [], take }) => items(connection.stream(method, ...args), take),
    upload: async ({ method, args = [], items: values, mode, fails }) => {
      const subject = new signalR.Subject();
      const result =
        mode === 'send' ? connection.send(method, ...args, subject)
        : mode === 'stream' ? items(connection.stream(method, ...args, subject))
        : connection.invoke(method, ...args, subject);
      for (const value of values) subject.next(value);
      if (fails) subject.error(new Error(fails));
      else subject.complete();
      return result;
    },
    stop: () => connection.stop(),
    state: () => ({ state: connection.state, connectionId: connection.connectionId }),
  };
};

if (typeof module === 'object') module.exports = signalRCommands;
