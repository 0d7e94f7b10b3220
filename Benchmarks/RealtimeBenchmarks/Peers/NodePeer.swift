import CommandLineSupport
import Processes

/// A Node process that receives the same events with the npm package `ws`, for comparison.
struct NodePeer {
    static let counting = "node ws, count"
    static let parsing = "node ws, JSON.parse twice"
    static let missing = "needs node, and the npm package ws in NODE_PATH, in /usr/share/nodejs or from REALTIME_PEERS"

    /// The folder in which `require` finds `ws`.
    private let modules: String

    /// Returns a peer, or `nil` if Node or `ws` is not installed.
    static func find() -> NodePeer? {
        var folders = ["/usr/share/nodejs"]
        if let path = Console.environment("NODE_PATH") { folders.insert(path, at: 0) }
        if let peers = Console.environment("REALTIME_PEERS"), let setup = try? ChildProcess([peers, "setup"]) {
            while let folder = setup.readLine() { folders += ["\(folder)/primus8", "\(folder)/primus8/node_modules"] }
            setup.end()
        }
        for folder in folders {
            guard let node = try? ChildProcess(["node", "-e", self.require + "console.log('found')", folder]) else { return nil }
            let output = node.readLine()
            node.end()
            if output == "found" { return NodePeer(modules: folder) }
        }
        return nil
    }

    private static let require = """
        const path = process.argv[1]; let WebSocket;
        try { WebSocket = require(require.resolve('ws', { paths: [path] })) } catch { try { WebSocket = require(path + '/ws') } catch { process.exit(0) } }

        """

    /// Waits for the greeting, prints `ready`, and prints the processor time in microseconds from then to the last event.
    private static let receive = """
        const [, , port, count, parses] = process.argv; let left = +count, start, sum = 0;
        const socket = new WebSocket('ws://127.0.0.1:' + port + '/app/bench', { perMessageDeflate: false });
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
                    "node", "-e", Self.require + Self.receive, self.modules, "\(port)", "\(messages)", parses,
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
}
