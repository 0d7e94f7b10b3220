import CommandLineSupport
import Processes
import RealtimeCore
import RealtimeEncoding
import SignalRWire

/// Measures decoding one message with an invocation of 6 arguments, beside Microsoft's client for JavaScript in Node, without sockets.
struct HubDecodingBench {
    /// Decodes a message, which is an argument in Base64, and prints the processor time in microseconds.
    private static let script = """
        const [, modules, format, message, count] = process.argv;
        const need = name => require(require.resolve(name, { paths: [modules] }));
        const protocol = format === 'json' ? new (need('@microsoft/signalr').JsonHubProtocol)()
          : new (need('@microsoft/signalr-protocol-msgpack').MessagePackHubProtocol)();
        const bytes = Buffer.from(message, 'base64'), logger = { log() {} };
        const input = format === 'json' ? bytes.toString() : bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
        let sum = 0;
        const decode = times => { for (let i = 0; i < times; i++) sum += protocol.parseMessages(input, logger)[0].arguments.length };
        decode(20000);
        const start = process.cpuUsage();
        decode(+count);
        const used = process.cpuUsage(start);
        console.log(sum > 0 ? used.user + used.system : 'nothing');
        """

    let fixture: BenchFixture
    let messages: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.messages = fixture.messages ?? 200_000
    }

    func callAsFunction() async throws(ToolFailure) {
        let modules = Self.modules()
        for (format, name) in [(HubFormat.json, "JSON"), (.messagePack, "MessagePack")] {
            let coder = HubValueCoder(format)
            guard let arguments = try? coder.arguments("ACME", 1234.56, 1_000_000, true, -5, "a note of some words, with \"quotes\"") else {
                throw ToolFailure("The arguments of the benchmark can't be encoded.")
            }
            let message = HubMessageWriter.message(.invocation(HubInvocation(id: nil, target: "Price", arguments: arguments)), format).bytes
            let (ours, node) = ("\(name), decoding an invocation", "\(name), decoding an invocation, TypeScript client")
            var candidates = [
                Candidate(name: ours) { () throws(ToolFailure) in try self.decode(message, coder) }
            ]
            if let modules {
                candidates.append(
                    Candidate(name: node) { () throws(ToolFailure) in
                        let process = try ChildProcess.start([
                            "node", "-e", Self.script, modules, format.protocolName, Base64.encode(message), "\(self.messages)",
                        ])
                        defer { process.end() }
                        guard let microseconds = process.readLine().flatMap({ Double($0) }) else {
                            throw ToolFailure("Node did not decode the message.")
                        }
                        return microseconds * 1000 / Double(self.messages)
                    })
            }
            let rounds = try await Rounds.run(candidates, rounds: 7)
            for candidate in candidates {
                guard let value = rounds.median(candidate.name) else { continue }
                let result = BenchResult(candidate.name, value, "ns CPU")
                self.fixture.print(candidate.name == ours ? result : result.compared(rounds.ratio(node, to: ours), with: ours))
            }
        }
        if modules == nil { self.fixture.printSkipped("decoding in the TypeScript client", MicrosoftPeer.missing) }
    }

    /// The folder with the modules of Microsoft's client.
    private static func modules() -> String? {
        guard let peers = Console.environment("REALTIME_PEERS"), let setup = try? ChildProcess([peers, "setup"]) else { return nil }
        defer { setup.end() }
        while let folder = setup.readLine() {
            guard
                let node = try? ChildProcess([
                    "node", "-e", "require.resolve('@microsoft/signalr', { paths: [process.argv[1]] })", "\(folder)/signalr",
                ])
            else { return nil }
            if node.waitForEnd() == 0 { return "\(folder)/signalr" }
        }
        return nil
    }

    private func decode(_ message: [UInt8], _ coder: HubValueCoder) throws(ToolFailure) -> Double {
        var reader = HubMessageReader(coder.format, messageLimit: 1 << 20)
        var sum = 0
        let start = processTime()
        for _ in 0..<self.messages {
            do {
                try message.withUnsafeBytes { bytes in
                    try reader.read(bytes) { output in
                        guard case .message(.invocation(let invocation)) = output,
                            var arguments = try? coder.decodeArguments(invocation.arguments)
                        else { return }
                        sum += Self.sum(&arguments) ?? 0
                    }
                }
            } catch {
                throw ToolFailure("The message of the benchmark can't be decoded.")
            }
        }
        let end = processTime()
        guard sum > self.messages else { throw ToolFailure("The decoded messages are wrong.") }
        return (end - start) / Double(self.messages)
    }

    private static func sum(_ arguments: inout HubArguments) -> Int? {
        guard let symbol = try? arguments.next(String.self), let price = try? arguments.next(Double.self),
            let volume = try? arguments.next(Int.self), let flag = try? arguments.next(Bool.self),
            let change = try? arguments.next(Int.self), let note = try? arguments.next(String.self)
        else { return nil }
        return symbol.utf8.count + Int(price) + volume + (flag ? 1 : 0) + change + note.utf8.count
    }
}
