"""SignalR clients for Python, which read a command from each line of their input; see driver.js for the format.

  python-client.py pysignalr|aiosignalr

  connect  url, protocol (json or msgpack), transport (ws, sse or lp; pysignalr has only ws), token
  on       method, returns (optional): registers a method that the server calls, and prints an event for each call
  invoke   method, args: calls a method, and returns the result
  send     method, args: calls a method without a result
  stream   method, args: returns the items of a stream
  upload   method, args, items: sends a stream as the last argument. pysignalr has neither arguments nor a result for this.
  stop
"""
import asyncio
import json
import sys


def say(value):
    print(json.dumps(value), flush=True)


class PySignalR:
    async def connect(self, c):
        from pysignalr.client import SignalRClient
        from pysignalr.protocol.json import JSONProtocol
        from pysignalr.protocol.messagepack import MessagepackProtocol

        protocol = MessagepackProtocol() if c.get("protocol") == "msgpack" else JSONProtocol()
        # Its `access_token_factory` doesn't authenticate the HTTP requests.
        headers = {"Authorization": f"Bearer {c['token']}"} if "token" in c else {}
        self.client = SignalRClient(c["url"], protocol, headers=headers)
        opened = asyncio.get_running_loop().create_future()

        async def on_open():
            if not opened.done():
                opened.set_result(None)

        async def on_error(message):
            pass  # The completion also arrives at the call.

        self.client.on_open(on_open)
        self.client.on_error(on_error)
        self.running = asyncio.ensure_future(self.client.run())
        await asyncio.wait({opened, self.running}, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            self.running.result()

    async def on(self, c):
        async def called(arguments):
            say({"event": "called", "method": c["method"], "args": arguments})
            return c.get("returns")

        self.client.on(c["method"], called)

    async def invoke(self, c):
        completed = asyncio.get_running_loop().create_future()

        async def on_completion(message):
            completed.set_result(message)

        await self.client.send(c["method"], c.get("args", []), on_completion)
        message = await completed
        if message.error:
            raise RuntimeError(message.error)
        return message.result

    async def send(self, c):
        await self.client.send(c["method"], c.get("args", []))

    async def stream(self, c):
        items, ended = [], asyncio.get_running_loop().create_future()

        async def on_next(item):
            items.append(item)

        async def on_complete(message):
            ended.set_result(message.error)

        await self.client.stream(c["method"], c.get("args", []), on_next, on_complete, on_complete)
        error = await ended
        if error:
            raise RuntimeError(error)
        return items

    async def upload(self, c):
        async with self.client.client_stream(c["method"]) as stream:
            for item in c["items"]:
                await stream.send(item)

    async def stop(self, c):
        self.running.cancel()
        await asyncio.wait({self.running})


class AioSignalR:
    async def connect(self, c):
        from aiosignalr.client.hub_connection import HubConnection

        self.client = HubConnection(protocol="messagepack" if c.get("protocol") == "msgpack" else "json")
        factory = (lambda: c["token"]) if "token" in c else None
        transport = {"ws": "WebSockets", "sse": "ServerSentEvents", "lp": "LongPolling"}[c["transport"]]
        await self.client.start(c["url"], access_token_factory=factory, transports={transport})

    async def on(self, c):
        def called(*arguments):
            say({"event": "called", "method": c["method"], "args": arguments})
            return c.get("returns")

        self.client.on(c["method"], called)

    async def invoke(self, c):
        return await self.client.invoke(c["method"], *c.get("args", []))

    async def send(self, c):
        await self.client.send(c["method"], *c.get("args", []))

    async def stream(self, c):
        return [item async for item in await self.client.stream(c["method"], *c.get("args", []))]

    async def upload(self, c):
        async with self.client.client_stream(c["method"], *c.get("args", [])) as stream:
            for item in c["items"]:
                await stream.send_item(item)
        return stream.result

    async def stop(self, c):
        await self.client.stop()


async def main():
    peer = {"pysignalr": PySignalR, "aiosignalr": AioSignalR}[sys.argv[1]]()
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    commands = set()

    async def perform(c):
        reply = {"done": c["do"], "id": c.get("id")}
        try:
            say({**reply, "result": await getattr(peer, c["do"])(c)})
        except Exception as error:
            say({**reply, "error": str(error) or type(error).__name__})

    while line := await reader.readline():
        if line.strip():
            command = asyncio.ensure_future(perform(json.loads(line)))
            commands.add(command)
            command.add_done_callback(commands.discard)


asyncio.run(main())
