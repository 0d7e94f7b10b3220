"""Pusher's HTTP library and the client Pysher for Python, which read a command from each line of their input; see driver.js for the format.

  python-pusher.py pusher

  configure         app, key, secret, port, master (optional): the credentials for all other commands
  trigger           channels (a name or a list), name, data, socket (optional)
  batch             events: a list of objects with channel, name and data
  sendToUser        user, name, data
  channels          prefix, info (both optional)
  channel           channel, info (optional)
  users             channel
  terminate         user. Version 3.3.4 sends this to a path without the app, which the service doesn't have.
  terminateInApp    user: the same with the path of the service's documentation, and with the library's signature
  authenticate      channel, socket, data (optional, for presence channels)
  authenticateUser  socket, data
  webhook           key, signature, body: returns the webhook, or null if it is invalid

  python-pusher.py pysher

  connect      key, port, and optionally secret, endpoint, user, channels and autoSub. Subscribes to the channels whenever it connects, as
               the documentation of Pysher recommends, or once and with the reconnect handler of Pysher if autoSub is true. Prints the events
               connected, with the socket ID, and error, with the code.
  subscribe    channel, auth (optional)
  unsubscribe  channel
  bind         channel, name: prints an event for each event with this name
  trigger      channel, name, data
  state
  disconnect
"""
import json
import sys
import threading

printing = threading.Lock()


def say(value):
    with printing:
        print(json.dumps(value), flush=True)


class HTTPLibrary:
    def configure(self, c):
        import pusher

        self.options = {"ssl": False, "host": "127.0.0.1", "port": c["port"], "encryption_master_key_base64": c.get("master")}
        # The time limit of the library is for a request to the service, not for one to a server that runs beside other tests.
        self.pusher = pusher.Pusher(c["app"], c["key"], c["secret"], timeout=60, **self.options)

    def trigger(self, c):
        return self.pusher.trigger(c["channels"], c["name"], c["data"], c.get("socket"))

    def batch(self, c):
        return self.pusher.trigger_batch(c["events"])

    def sendToUser(self, c):
        return self.pusher.send_to_user(c["user"], c["name"], c["data"])

    def channels(self, c):
        return self.pusher.channels_info(c.get("prefix"), c.get("info", []))

    def channel(self, c):
        return self.pusher.channel_info(c["channel"], c.get("info", []))

    def users(self, c):
        return self.pusher.users_info(c["channel"])

    def terminate(self, c):
        return self.pusher.terminate_user_connections(c["user"])

    def terminateInApp(self, c):
        from pusher.http import POST, Request

        client = self.pusher._pusher_client
        path = f"/apps/{client.app_id}/users/{c['user']}/terminate_connections"
        return client.http.send_request(Request(client, POST, path, {}))

    def authenticate(self, c):
        response = self.pusher.authenticate(c["channel"], c["socket"], c.get("data"))
        # The library returns bytes here, which the application converts.
        if isinstance(response.get("shared_secret"), bytes):
            response["shared_secret"] = response["shared_secret"].decode()
        return response

    def authenticateUser(self, c):
        return self.pusher.authenticate_user(c["socket"], c["data"])

    def webhook(self, c):
        return self.pusher.validate_webhook(c["key"], c["signature"], c["body"])


class Pysher:
    def connect(self, c):
        import pysher

        self.bindings = {}
        self.client = pysher.Pusher(
            c["key"], secret=c.get("secret", ""), auth_endpoint=c.get("endpoint"), user_data=c.get("user"), secure=False,
            custom_host="127.0.0.1", port=c["port"], reconnect_interval=0.1, auto_sub=c.get("autoSub", False), log_level=None)
        channels = c.get("channels", [])

        def connected(data):
            nonlocal channels
            for channel in channels:
                self._subscribe(channel)
            if c.get("autoSub"):
                channels = []
            say({"event": "connected", "socket": self.client.connection.socket_id})

        def error(data):
            say({"event": "error", "code": data.get("code")})

        self.client.connection.bind("pusher:connection_established", connected)
        # Before the handler of Pysher, which doesn't return if it disconnects.
        self.client.connection.event_callbacks["pusher:error"].insert(0, (error, (), {}))
        self.client.connect()

    def _subscribe(self, channel, auth=None):
        # Pysher sends the subscription before its channel can have handlers, and the answer may arrive before they are bound.
        connection, held = self.client.connection, []
        connection.send_event = lambda *arguments, **options: held.append((arguments, options))
        try:
            self.client.subscribe(channel, auth)
            for name in ["pusher_internal:subscription_succeeded", "pusher:error"] + self.bindings.get(channel, []):
                self._bind(channel, name)
        finally:
            del connection.send_event
        for arguments, options in held:
            connection.send_event(*arguments, **options)

    def _bind(self, channel, name):
        def received(data):
            say({"event": "message", "channel": channel, "name": name, "data": data})

        self.client.channel(channel).bind(name, received)

    def subscribe(self, c):
        self._subscribe(c["channel"], c.get("auth"))

    def unsubscribe(self, c):
        self.client.unsubscribe(c["channel"])

    def bind(self, c):
        # Channels that are subscribed later, such as those of the next connection, have the binding as well.
        self.bindings.setdefault(c["channel"], []).append(c["name"])
        if self.client.channel(c["channel"]):
            self._bind(c["channel"], c["name"])

    def trigger(self, c):
        self.client.channel(c["channel"]).trigger(c["name"], c["data"])

    def state(self, c):
        return self.client.connection.state

    def disconnect(self, c):
        # Pysher waits for its thread, which notices only after up to 100 seconds that it has closed its own socket.
        self.client.disconnect(timeout=0.1)


peer = {"pusher": HTTPLibrary, "pysher": Pysher}[sys.argv[1]]()
for line in sys.stdin:
    if not line.strip():
        continue
    command = json.loads(line)
    reply = {"done": command["do"], "id": command.get("id")}
    try:
        say({**reply, "result": getattr(peer, command["do"])(command)})
    except Exception as failure:
        say({**reply, "error": f"{type(failure).__name__}: {failure}"})
