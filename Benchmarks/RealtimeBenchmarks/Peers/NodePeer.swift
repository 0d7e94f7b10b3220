import CommandLineSupport
import PrimusWire
import Processes
import PusherServer

/// A Node process that receives the same events with the npm package `ws`, or sends the same requests, for comparison.
struct NodePeer {
    static let counting = "node ws, count"
    static let parsing = "node ws, JSON.parse twice"
    static let missing = "needs node, and the npm package ws in NODE_PATH, in /usr/share/nodejs or from REALTIME_PEERS"

    /// The folder in which `require` finds the package.
    private let modules: String

    /// Returns a peer, or `nil` if Node or `ws` is not installed.
    static func find() -> NodePeer? { self.find("ws", in: "primus8") }

    /// Returns a peer with Pusher's library for the HTTP API, or `nil` if Node or `pusher` is not installed.
    static func findPusher() -> NodePeer? { self.find("pusher", in: "pusher") }

    /// Returns a peer with Primus's own client, or `nil` if Node or `primus` is not installed.
    static func findPrimus() -> NodePeer? { self.find("primus", in: "primus8") }

    /// Returns a peer without packages, or `nil` if Node is not installed.
    static func findHTTP() -> NodePeer? { self.find("http", in: nil) }

    /// - Parameters:
    ///   - package: The name of the package.
    ///   - folder: The folder in which `REALTIME_PEERS` installs it.
    private static func find(_ package: String, in folder: String?) -> NodePeer? {
        var folders = ["/usr/share/nodejs"]
        if let path = Console.environment("NODE_PATH") { folders.insert(path, at: 0) }
        if let folder, let peers = Console.environment("REALTIME_PEERS"), let setup = try? ChildProcess([peers, "setup"]) {
            while let tree = setup.readLine() { folders += ["\(tree)/\(folder)", "\(tree)/\(folder)/node_modules"] }
            setup.end()
        }
        for folder in folders {
            guard let node = try? ChildProcess(["node", "-e", self.require(package) + "console.log('found')", folder]) else { return nil }
            let output = node.readLine()
            node.end()
            if output == "found" { return NodePeer(modules: folder) }
        }
        return nil
    }

    /// Loads a package as `Package`.
    private static func require(_ package: String) -> String {
        """
        const path = process.argv[1]; let Package;
        try { Package = require(require.resolve('\(package)', { paths: [path] })) } catch {
          try { Package = require(path + '/\(package)') } catch { process.exit(0) } }

        """
    }

    /// Waits for the greeting, prints `ready`, and prints the processor time in microseconds from then to the last event.
    private static let receive = """
        const [, , port, count, parses] = process.argv; let left = +count, start, sum = 0;
        const socket = new Package('ws://127.0.0.1:' + port + '/app/bench', { perMessageDeflate: false });
        const take = data => {
          if (parses === '2') { const event = JSON.parse(data); sum += event.channel.length + JSON.parse(event.data).volume }
          else sum += data.length;
          if (--left === 0) { const used = process.cpuUsage(start); console.log(used.user + used.system); socket.terminate() } };
        socket.once('message', () => { socket.on('message', take); start = process.cpuUsage(); console.log('ready') });
        socket.on('error', () => process.exit(1));

        """

    /// Returns candidates that count the events, and that also parse them.
    func candidates(port: Int, messages: Int, _ burst: @escaping () -> Void) -> [Candidate] {
        [(Self.counting, "0"), (Self.parsing, "2")].map { name, parses in
            Candidate(name: name) { () throws(ToolFailure) in
                let node = try ChildProcess.start([
                    "node", "-e", Self.require("ws") + Self.receive, self.modules, "\(port)", "\(messages)", parses,
                ])
                defer { node.end() }
                guard node.readLine() == "ready" else { throw ToolFailure("Node failed to connect to the load generator.") }
                burst()
                guard let microseconds = node.readLine().flatMap({ Double($0) }) else {
                    throw ToolFailure("Node did not receive all events.")
                }
                return microseconds * 1000 / Double(messages)
            }
        }
    }

    // MARK: Requests

    static let posts = "POST, node http with keep-alive"
    static let publishing = "publish, Pusher's library for Node"

    /// Calls `send` one after the other, some times to warm up, and prints the processor time and the time that passed, in microseconds.
    private static let repeatedly = """
        const [, , port, count] = process.argv, agent = new (require('http').Agent)({ keepAlive: true });
        const repeat = async send => {
          for (let i = 0; i < 500; i++) await send();
          const start = process.cpuUsage(), begin = process.hrtime.bigint();
          for (let i = 0; i < +count; i++) await send();
          const used = process.cpuUsage(start);
          console.log(used.user + used.system, Number(process.hrtime.bigint() - begin) / 1000);
          agent.destroy() };

        """

    private static let post = """
        const body = Buffer.alloc(200, 'x');
        const options = { agent, host: '127.0.0.1', port, method: 'POST', path: '\(LoadHTTP.post)',
          headers: { 'Content-Type': 'application/json', 'Content-Length': body.length } };
        repeat(() => new Promise((done, failed) => Package.request(options, response => {
          response.on('data', () => {}); response.on('end', done) }).on('error', failed).end(body)));

        """

    private static func publish(_ app: PusherApp, _ channel: String) -> String {
        """
        const client = new Package({ appId: '\(app.id)', key: '\(app.key)', secret: '\(app.secret)', host: '127.0.0.1', port, useTLS: false, agent });
        repeat(async () => {
          const response = await client.trigger('\(channel)', '\(LoadMessage.event)', '\(LoadMessage.data)'); await response.text() });

        """
    }

    /// Returns a candidate that sends POST requests of 200 bytes on a connection that is kept.
    func posts(port: Int, requests: Int, _ times: WallTimes) -> Candidate {
        self.candidate(Self.posts, "http", Self.post, port, requests, times)
    }

    /// Returns a candidate that publishes events of an app on a channel.
    func publications(_ app: PusherApp, _ channel: String, port: Int, events: Int, _ times: WallTimes) -> Candidate {
        self.candidate(Self.publishing, "pusher", Self.publish(app, channel), port, events, times)
    }

    // MARK: Primus over polling

    /// Writes bursts of messages, each of which ends with one that is answered, and prints the processor time in microseconds and the number of
    /// requests.
    private static let writes = """
        const [, , port, bursts, size, text] = process.argv;
        const Socket = Package.createSocket({ transformer: 'engine.io', parser: 'json', pathname: '\(LoadPrimus.path(of: .json))' });
        const socket = new Socket('http://127.0.0.1:' + port + '/', { websockets: false, pingTimeout: 600000, strategy: false });
        let answered;
        socket.on('data', data => answered(data));
        socket.on('error', () => process.exit(1));
        const ask = data => new Promise(done => { answered = done; socket.write(data) });
        const burst = () => { for (let i = 1; i < +size; i++) socket.write(text); return ask({ burst: 1 }) };
        socket.on('open', async () => {
          for (let i = 0; i < 20; i++) await burst();
          const before = (await ask({ ask: 'requests' })).requests, start = process.cpuUsage();
          for (let i = 0; i < +bursts; i++) await burst();
          const used = process.cpuUsage(start), after = (await ask({ ask: 'requests' })).requests;
          console.log(used.user + used.system, after - before);
          process.exit(0) });

        """

    /// Writes bursts of messages over polling, and returns the processor time and the number of requests of each burst.
    func writes(port: Int, bursts: Int, size: Int, _ text: String) throws(ToolFailure) -> (nanoseconds: Double, requests: Double) {
        let node = try ChildProcess.start([
            "node", "-e", Self.require("primus") + Self.writes, self.modules, "\(port)", "\(bursts)", "\(size)", text,
        ])
        defer { node.end() }
        guard let figures = node.readLine()?.split(separator: " ").compactMap({ Double($0) }), figures.count == 2 else {
            throw ToolFailure("Primus's client did not write all messages.")
        }
        return (figures[0] * 1000 / Double(bursts), figures[1] / Double(bursts))
    }

    private func candidate(
        _ name: String, _ package: String, _ script: String, _ port: Int, _ count: Int, _ times: WallTimes
    ) -> Candidate {
        Candidate(name: name) { () throws(ToolFailure) in
            let node = try ChildProcess.start([
                "node", "-e", Self.require(package) + Self.repeatedly + script, self.modules, "\(port)", "\(count)",
            ])
            defer { node.end() }
            guard let figures = node.readLine()?.split(separator: " ").compactMap({ Double($0) }), figures.count == 2 else {
                throw ToolFailure("Node did not send all requests.")
            }
            times.add(figures[1] * 1000 / Double(count), name)
            return figures[0] * 1000 / Double(count)
        }
    }
}
