import CommandLineSupport
import RealtimeCoding

extension InstructionCounts {
    /// The coders, with a value that has 5 values in an array.
    static var coders: [CountedPath] {
        [
            self.coder("json-encode") { _ in { try JSONValueEncoder().encode($0).count } },
            self.coder("json-decode") {
                let (decoder, bytes) = (JSONValueDecoder(), try JSONValueEncoder().encode($0))
                return { _ in try decoder.decode(CodingBench.Order.self, from: bytes).id }
            },
            self.coder("messagepack-encode") { _ in { try MessagePackEncoder().encode($0).count } },
            self.coder("messagepack-decode") {
                let (decoder, bytes) = (MessagePackDecoder(), try MessagePackEncoder().encode($0))
                return { _ in try decoder.decode(CodingBench.Order.self, from: bytes).id }
            },
        ]
    }

    private static func coder(
        _ name: String, _ make: @escaping @Sendable (CodingBench.Order) throws -> (CodingBench.Order) throws -> Int
    ) -> CountedPath {
        CountedPath(name, messages: 640) {
            let (order, arrivals) = (CodingBench.orders[0], Arrivals())
            let code = try make(order)
            return { messages in
                try arrivals.expect(messages) { for _ in 0..<messages { arrivals.add(try code(order)) } }
            }
        }
    }
}
