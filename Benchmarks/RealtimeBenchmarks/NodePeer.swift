internal import CommandLineSupport
internal import Processes
internal import RealtimeCore

/// The same with Node, where there is one: npm's `ws`, which most servers and clients there use.
struct NodePeer {
    static let counting = "node ws, count"
    static let parsing = "node ws, JSON.parse twice"
    static let missing = "it needs node, and npm's ws in NODE_PATH, in /usr/share/nodejs or under REALTIME_PEERS"

    /// Where `require` finds `ws`.
    private let modules: String

    static func find() -> NodePeer? {
        var folders = ["/usr/share/nodejs"]
        if let path = Console.environment("NODE_PATH") { folders.insert(path, at: 0) }
        if let peers = Console.environment("REALTIME_PEERS"), let setup = try? ChildProcess([peers, "setup"]) {
            while let folder = setup.readLine() { folders += ["\(folder)/primus8", "\(folder)/primus8/node_modules"] }
            setup.end()
        }
        for folder in folders {
            guard let node = try? ChildProcess(["node", "-e", self.require + "console.log('found')", folder]) else { return nil }
            let answer = node.readLine()
            node.end()
            if answer == "found" { return NodePeer(modules: folder) }
        }
        return nil
    }

    private static let require = """
        const path = process.argv[1]; let WebSocket;
        try { WebSocket = require(require.resolve('ws', { paths: [path] })) } catch { try { WebSocket = require(path + '/ws') } catch { process.exit(0) } }

        """

    /// Waits for `subscribe`'s echo of the greeting, says that it is ready, and measures its own processor time from there.
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

    func contenders(port: Int, messages: Int, _ burst: @escaping () -> Void) -> [Candidate] {
        [(Self.counting, "0"), (Self.parsing, "2")].map { name, parses in
            Candidate(name: name) { () throws(ToolFailure) in
                let node = try ChildProcess.start([
                    "node", "-e", Self.require + Self.receive, self.modules, "\(port)", "\(messages)", parses,
                ])
                defer { node.end() }
                guard node.readLine() == "ready" else { throw ToolFailure("Node did not come to its load.") }
                burst()
                guard let microseconds = node.readLine().flatMap({ Double($0) }) else {
                    throw ToolFailure("Node did not receive all of its load.")
                }
                return microseconds * 1000 / Double(messages)
            }
        }
    }
}
